#pragma once

#include <cstddef>
#include <cstdint>

#include "shared/trace/writer.h"

namespace strata::recorder {

/// The files mapped as code that have been written to the trace.
/// \threads  Only the writer.
class Modules {
  struct Range {
    std::uint64_t start;
    std::uint64_t end;
  };

  // Chosen: ten times as many as a large browser has.
  static constexpr std::size_t kMostModules = 16384;

 public:
  static constexpr std::size_t kBytes = kMostModules * sizeof(Range);

  /// Gives it kBytes of zeros, for ever. Call before need().
  void use(char* memory) noexcept { ranges_ = reinterpret_cast<Range*>(memory); }
  /// Writes the module that holds this return address to the trace, unless it is there already or
  /// the address is in no file.
  void need(std::uint64_t address, trace::Writer& writer) noexcept;
  void forget_all() noexcept {
    count_ = 0;
    reads_ = 0;
    last_unknown_page_ = 0;
  }

 private:
  // Chosen: generated code is in no file, and each read of the mappings costs a millisecond.
  static constexpr unsigned kReadsAtOnce = 32;
  static constexpr std::uint64_t kPauseNs = 100'000'000;

  bool knows(std::uint64_t address) noexcept;
  void read(trace::Writer& writer) noexcept;

  Range* ranges_ = nullptr;
  std::size_t count_ = 0;
  std::size_t last_ = 0;
  unsigned reads_ = 0;
  std::uint64_t last_read_ns_ = 0;
  std::uint64_t last_unknown_page_ = 0;
};

}  // namespace strata::recorder
