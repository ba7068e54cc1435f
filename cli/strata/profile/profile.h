#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace strata::cli {

/// A function that was active at an address. Of several at one address, all but the last were
/// inlined into the next.
struct Line {
  std::string function;  ///< readable, without parameters; "module+0x12" where no name is known
  std::string file;      ///< empty: not known
  std::uint64_t line = 0;

  bool operator==(const Line&) const = default;
  /// "function file:line"
  std::string text() const;
  /// "function  file:line", the file by its last part.
  std::string short_text() const;
  /// "file:line", the file by its last part if `is_short`; empty if not known.
  std::string place(bool is_short) const;
};

/// A profile as pprof's format has it, references resolved: indices into the vectors here.
/// \source  https://github.com/google/pprof/blob/main/proto/profile.proto
struct Profile {
  static constexpr std::size_t kNone = ~std::size_t{0};

  struct Kind {
    std::string type;  ///< "inuse_space"
    std::string unit;  ///< "bytes"
  };
  struct Sample {
    std::vector<std::size_t> locations;  ///< innermost first
    std::vector<std::int64_t> values;    ///< one for each kind
  };
  struct Mapping {
    std::uint64_t start = 0;
    std::uint64_t offset = 0;
    std::string file;
    std::string build_id;
  };
  struct Location {
    std::uint64_t address = 0;
    std::size_t mapping = kNone;
    std::vector<Line> lines;  ///< innermost first; empty until symbolised
  };

  std::string name;  ///< the file's
  std::vector<Kind> kinds;
  std::size_t default_kind = 0;
  std::vector<Sample> samples;
  std::vector<Mapping> mappings;
  std::vector<Location> locations;
  std::string drop_frames;  ///< functions that are the allocator's own
  std::int64_t time_ns = 0;
  std::int64_t duration_ns = 0;
  std::int64_t period = 0;  ///< bytes from sample to sample; 1: all was counted

  /// The kind of this name; kNone if there is none.
  std::size_t find_kind(std::string_view type) const noexcept;
  /// The name of the program: that of the first mapping.
  std::string program() const;
};

/// Reads a profile from its file's bytes, compressed or not.
/// \errors  UsageError, one sentence that begins with the name.
Profile parse_profile(const std::string& name, std::string_view bytes);

/// \errors  UsageError naming the file.
Profile read_profile(const std::string& path);

}  // namespace strata::cli
