#pragma once

#include <cstddef>
#include <cstdint>

#include "shared/trace/writer.h"

namespace strata::recorder {

/// Which files are mapped as code, as far as the trace tells it.
/// \threads  The writer's.
class Modules {
 public:
  /// Sees to it that the trace tells in which file this return address lies, if it is in one.
  void need(std::uint64_t address, trace::Writer& writer) noexcept;
  void forget_all() noexcept {
    count_ = 0;
    reads_ = 0;
    last_unknown_page_ = 0;
  }

 private:
  // Chosen: ten times a large browser's.
  static constexpr std::size_t kMostModules = 16384;
  static constexpr std::size_t kMapsBytes = std::size_t{8} << 20;
  // Chosen: code that a program makes itself is in no file, and reading costs a millisecond.
  static constexpr unsigned kReadsAtOnce = 32;
  static constexpr std::uint64_t kPauseNs = 100'000'000;

  struct Range {
    std::uint64_t start;
    std::uint64_t end;
  };

  bool knows(std::uint64_t address) noexcept;
  void read(trace::Writer& writer) noexcept;

  Range* ranges_ = nullptr;
  std::size_t count_ = 0;
  std::size_t last_ = 0;
  char* text_ = nullptr;
  unsigned reads_ = 0;
  std::uint64_t last_read_ns_ = 0;
  std::uint64_t last_unknown_page_ = 0;
};

}  // namespace strata::recorder
