#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "os/path.h"

/// \file  Files, without stdio or allocation. errno is left as it was.

namespace strata::os {

/// Opens a file to append, and creates it if need be. Closed across exec.
/// \returns  The file, or a negative error.
int open_to_append(const char* path) noexcept;
/// Writes all, or gives up.
/// \returns  0, or the error.
int write_file(int file, std::string_view text) noexcept;
void close_file(int file) noexcept;

/// A file that replaces another only once it is complete: it is written next to it, under a
/// temporary name, and renamed. If the path leads to something other than a regular file (a device,
/// a pipe, a symbolic link), that is written to, and stays what it is.
/// \threads  One at a time; several of one path do not disturb each other.
class NewFile {
 public:
  NewFile() noexcept = default;
  ~NewFile();  ///< removes what was not committed
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  bool open(const char* path) noexcept;
  /// commit() reports failures.
  void write(std::string_view bytes) noexcept;
  bool commit() noexcept;
  /// Why open() or commit() returned false, in the C library's words.
  const char* reason() const noexcept;

 private:
  int open_beside() noexcept;

  int fd_ = -1;
  int error_ = 0;
  Path path_;
  Path temporary_;  // empty where nothing is renamed
};

/// A file read line by line.
/// \threads  One at a time.
class LineReader {
 public:
  explicit LineReader(const char* path) noexcept;
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  /// The next line, with a 0 in place of its end; a line longer than the buffer is skipped.
  bool next(std::string_view& line) noexcept;
  /// Puts a newline for each \012 in a part of the latest line that is its end, as /proc writes the
  /// paths of mappings.
  /// \returns  The part, which may be shorter now and still has a 0 behind it.
  std::string_view with_newlines(std::string_view part) noexcept;
  /// Whether the file could not be opened, or not be read to the end.
  bool has_failed() const noexcept { return has_failed_; }

 private:
  int fd_;
  bool has_failed_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  char buffer_[4096 + 256];  // a line of /proc/self/maps with the longest path
};

/// The path of the file that lists this process's mappings: /proc/self/maps. That file is the first
/// thread's, and is empty once this thread has ended by pthread_exit(): then
/// /proc/thread-self/maps.
const char* path_of_maps() noexcept;

/// What is mapped at an address.
struct Mapping {
  enum class Kind : std::uint8_t { kUnknown, kNothing, kAnonymous, kNamed };
  Kind kind = Kind::kUnknown;  ///< kUnknown: /proc says nothing
  char name[512] = "";         ///< kNamed: its file, or the kernel's name, such as [stack]
};
/// \cost  reads /proc/self/maps; no allocation
void find_mapping(const void* address, Mapping& out) noexcept;

/// A file that is mapped as code.
struct CodeMapping {
  std::uintptr_t start;
  std::uintptr_t end;
  std::uint64_t offset;   ///< in the file
  std::string_view path;  ///< the end of the line, with \012 for a newline
};

/// Takes one line of /proc/self/maps.
/// \returns  false if it is no code, or not from a file
bool parse_code_mapping(std::string_view line, CodeMapping& out) noexcept;

/// Reads the build ID of an ELF file, as hexadecimal digits in `out`.
/// \returns  Their number, 0 if there is none.
std::size_t read_build_id(const char* path, char* out, std::size_t capacity) noexcept;

}  // namespace strata::os
