#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace strata::cli {

/// A function at an address. If an address has several, each but the last was inlined into the
/// next.
struct Line {
  std::string function;  ///< readable, without parameters; "module+0x12" if no name is known
  std::string file;      ///< empty: unknown
  std::uint64_t line = 0;

  bool operator==(const Line&) const = default;
  /// "function file:line"
  std::string text() const;
  /// "function  file:line", the file without its folders.
  std::string short_text() const;
  /// "file:line", the file without its folders if `is_short`; empty if unknown.
  std::string place(bool is_short) const;
};

/// A profile in pprof's format. Its IDs are resolved to indices into these vectors.
/// \source  https://github.com/google/pprof/blob/main/proto/profile.proto
struct Profile {
  static constexpr std::size_t kNone = ~std::size_t{0};

  struct Kind {
    std::string type;  ///< "inuse_space"
    std::string unit;  ///< "bytes"
  };
  struct Sample {
    std::vector<std::size_t> locations;  ///< innermost first
    std::vector<std::int64_t> values;    ///< one per kind
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

  std::string name;  ///< the file's name
  std::vector<Kind> kinds;
  std::size_t default_kind = 0;
  std::vector<Sample> samples;
  std::vector<Mapping> mappings;
  std::vector<Location> locations;
  std::string drop_frames;  ///< the allocator's own functions
  std::int64_t time_ns = 0;
  std::int64_t duration_ns = 0;
  std::int64_t period = 0;  ///< average bytes between samples; 1: everything was counted

  /// The index of the kind with this type; kNone if there is none.
  std::size_t find_kind(std::string_view type) const noexcept;
  /// The program's name: that of the first mapping.
  std::string program() const;
};

/// Parses the bytes of a profile's file, compressed or not.
/// \param what_it_is  what the sentence says of a file that is no profile
/// \errors  UsageError, one sentence that begins with the name.
Profile parse_profile(const std::string& name, std::string_view bytes,
                      std::string_view what_it_is = "not a heap profile");

/// \errors  UsageError, which names the file.
Profile read_profile(const std::string& path);

}  // namespace strata::cli
