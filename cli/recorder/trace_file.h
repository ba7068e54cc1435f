#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "recorder/settings.h"
#include "recorder/text.h"
#include "shared/trace/writer.h"

namespace strata::recorder {

/// The file of a trace, and the writer that fills it. It is open from open() until end(), or until
/// give_up() if the disk refuses bytes. In a child of fork, the object is as the parent had it.
/// \threads  One at a time. The file is open in the file table of the thread that opened it and in
///           later copies of that table; each copy is closed on its own.
class TraceFile {
 public:
  static constexpr std::size_t kBytes = sizeof(trace::Writer);

  /// Gives it kBytes, for ever. Call before open().
  void use(char* memory) noexcept { writer_ = reinterpret_cast<trace::Writer*>(memory); }
  bool has_memory() const noexcept { return writer_ != nullptr; }

  /// Creates the file and writes what a trace begins with.
  /// \param allocator  the allocator's path, for the trace; may be nullptr
  /// \returns  False if that failed, after saying why on standard error.
  bool open(const Settings& settings, std::uint64_t process, const char* allocator) noexcept;
  bool is_open() const noexcept { return file_ >= 0; }
  int descriptor() const noexcept { return file_; }
  trace::Writer& writer() noexcept { return *writer_; }

  /// Writes the last block and closes the file; leaves it open if it could not be written.
  void end(std::string_view text) noexcept;
  /// Says that the trace ends here because it could not be written, and closes the file.
  void give_up() noexcept;

 private:
  static bool write(void* self, const void* bytes, std::size_t count) noexcept;

  bool create(const char* pattern, std::uint64_t process) noexcept;
  void describe_process(const Settings& settings, std::uint64_t process,
                        const char* allocator) noexcept;
  void close() noexcept;

  trace::Writer* writer_ = nullptr;
  int file_ = -1;
  int error_ = 0;  ///< of the last write
  Text name_;
};

}  // namespace strata::recorder
