#include "profile/profile.h"

#include <fmt/format.h>

#include <filesystem>
#include <unordered_map>

#include "input/read_file.h"
#include "input/usage_error.h"
#include "profile/gunzip.h"
#include "profile/wire.h"

namespace strata::cli {
namespace {

/// Numbers of the file, strings and references still unresolved.
struct RawLocation {
  std::uint64_t id = 0;
  std::uint64_t mapping = 0;
  std::uint64_t address = 0;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> lines;  ///< function, line
};
struct RawFunction {
  std::uint64_t name = 0;
  std::uint64_t file = 0;
};

class Reader {
 public:
  Profile read(std::string_view message) {
    // The string table may stand anywhere, and everything refers to it: it comes first.
    for (WireReader in(message); in.next();) {
      if (in.field() == 6) strings_.emplace_back(in.bytes());
    }
    for (WireReader in(message); in.next();) read_field(in);
    resolve();
    return std::move(profile_);
  }

 private:
  void read_field(const WireReader& in) {
    if (in.field() == 1) profile_.kinds.push_back(kind(in.bytes()));
    if (in.field() == 2) add_sample(in.bytes());
    if (in.field() == 3) add_mapping(in.bytes());
    if (in.field() == 4) add_location(in.bytes());
    if (in.field() == 5) add_function(in.bytes());
    if (in.field() == 7) profile_.drop_frames = string(in.number());
    if (in.field() == 9) profile_.time_ns = in.signed_number();
    if (in.field() == 10) profile_.duration_ns = in.signed_number();
    if (in.field() == 12) profile_.period = in.signed_number();
    if (in.field() == 14) default_kind_ = string(in.number());
  }

  std::string string(std::uint64_t index) const {
    if (index >= strings_.size()) throw DamagedProfile("it refers to a text that it does not have");
    return strings_[index];
  }

  Profile::Kind kind(std::string_view message) const {
    Profile::Kind kind;
    for (WireReader in(message); in.next();) {
      if (in.field() == 1) kind.type = string(in.number());
      if (in.field() == 2) kind.unit = string(in.number());
    }
    return kind;
  }

  void add_sample(std::string_view message) {
    Profile::Sample& sample = profile_.samples.emplace_back();
    for (WireReader in(message); in.next();) {
      if (in.field() == 1) {
        in.for_each_number([&](std::uint64_t id) { sample.locations.push_back(id); });
      }
      if (in.field() == 2) {
        in.for_each_number([&](std::uint64_t value) {
          sample.values.push_back(static_cast<std::int64_t>(value));
        });
      }
      if (in.field() == 3) add_label(sample, in.bytes());
    }
  }

  /// The heap that the sample is from becomes its outermost call, so that each view has it.
  void add_label(const Profile::Sample& sample, std::string_view message) {
    std::uint64_t key = 0;
    std::uint64_t text = 0;
    for (WireReader in(message); in.next();) {
      if (in.field() == 1) key = in.number();
      if (in.field() == 2) text = in.number();
    }
    if (string(key) == "heap") heap_of_[index_of(sample)] = string(text);
  }
  std::size_t index_of(const Profile::Sample& sample) const {
    return static_cast<std::size_t>(&sample - profile_.samples.data());
  }
  std::size_t location_of_heap(const std::string& name) {
    const auto [entry, is_new] = heap_locations_.try_emplace(name, profile_.locations.size());
    if (is_new) {
      Profile::Location& location = profile_.locations.emplace_back();
      location.lines.push_back({fmt::format("[the heap '{}']", name), "", 0});
    }
    return entry->second;
  }

  void add_mapping(std::string_view message) {
    Profile::Mapping& mapping = profile_.mappings.emplace_back();
    for (WireReader in(message); in.next();) {
      if (in.field() == 1) mapping_of_[in.number()] = profile_.mappings.size() - 1;
      if (in.field() == 2) mapping.start = in.number();
      if (in.field() == 4) mapping.offset = in.number();
      if (in.field() == 5) mapping.file = string(in.number());
      if (in.field() == 6) mapping.build_id = string(in.number());
    }
  }

  void add_location(std::string_view message) {
    RawLocation& location = locations_.emplace_back();
    for (WireReader in(message); in.next();) {
      if (in.field() == 1) location.id = in.number();
      if (in.field() == 2) location.mapping = in.number();
      if (in.field() == 3) location.address = in.number();
      if (in.field() != 4) continue;
      auto& line = location.lines.emplace_back();
      for (WireReader inner(in.bytes()); inner.next();) {
        if (inner.field() == 1) line.first = inner.number();
        if (inner.field() == 2) line.second = inner.number();
      }
    }
  }

  void add_function(std::string_view message) {
    std::uint64_t id = 0;
    RawFunction function;
    for (WireReader in(message); in.next();) {
      if (in.field() == 1) id = in.number();
      if (in.field() == 2) function.name = in.number();
      if (in.field() == 4) function.file = in.number();
    }
    functions_[id] = function;
  }

  void resolve() {
    std::unordered_map<std::uint64_t, std::size_t> location_of;
    for (const RawLocation& raw : locations_) {
      Profile::Location location;
      location.address = raw.address;
      if (raw.mapping != 0) location.mapping = index_in(mapping_of_, raw.mapping);
      for (const auto& [function_id, line] : raw.lines) {
        const auto function = functions_.find(function_id);
        if (function == functions_.end()) throw DamagedProfile(kDangling);
        location.lines.push_back(
            {string(function->second.name), string(function->second.file), line});
      }
      location_of[raw.id] = profile_.locations.size();
      profile_.locations.push_back(std::move(location));
    }
    if (profile_.kinds.empty()) throw DamagedProfile("it does not say what it counts");
    for (Profile::Sample& sample : profile_.samples) {
      for (std::size_t& location : sample.locations) location = index_in(location_of, location);
      const auto heap = heap_of_.find(index_of(sample));
      if (heap != heap_of_.end()) sample.locations.push_back(location_of_heap(heap->second));
      if (sample.values.size() != profile_.kinds.size()) {
        throw DamagedProfile("a sample has more or fewer values than there are kinds");
      }
    }
    profile_.default_kind = profile_.kinds.size() - 1;  // as pprof has it
    const std::size_t kind = profile_.find_kind(default_kind_);
    if (kind != Profile::kNone) profile_.default_kind = kind;
  }

  static std::size_t index_in(const std::unordered_map<std::uint64_t, std::size_t>& map,
                              std::uint64_t id) {
    const auto found = map.find(id);
    if (found == map.end()) throw DamagedProfile(kDangling);
    return found->second;
  }

  static constexpr const char* kDangling = "it refers to a place that it does not have";

  Profile profile_;
  std::vector<std::string> strings_;
  std::vector<RawLocation> locations_;
  std::unordered_map<std::uint64_t, std::size_t> mapping_of_;
  std::unordered_map<std::uint64_t, RawFunction> functions_;
  std::unordered_map<std::size_t, std::string> heap_of_;  ///< of samples that say it
  std::unordered_map<std::string, std::size_t> heap_locations_;
  std::string default_kind_;
};

}  // namespace

std::string Line::place(bool is_short) const {
  if (file.empty()) return {};
  std::string path = is_short ? std::filesystem::path(file).filename().string() : file;
  return line == 0 ? path : fmt::format("{}:{}", path, line);
}

std::string Line::text() const {
  return file.empty() ? function : fmt::format("{} {}", function, place(false));
}

std::string Line::short_text() const {
  return file.empty() ? function : fmt::format("{}  {}", function, place(true));
}

std::size_t Profile::find_kind(std::string_view type) const noexcept {
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i].type == type) return i;
  }
  return kNone;
}

std::string Profile::program() const {
  return mappings.empty() ? "" : std::filesystem::path(mappings.front().file).filename().string();
}

Profile parse_profile(const std::string& name, std::string_view bytes) {
  if (bytes.empty()) throw UsageError(fmt::format("'{}' is empty", name));
  try {
    Profile profile = is_gzip(bytes) ? Reader().read(gunzip(bytes)) : Reader().read(bytes);
    profile.name = name;
    return profile;
  } catch (const DamagedProfile& reason) {
    throw UsageError(fmt::format("'{}' is not a heap profile: {}", name, reason.what()));
  }
}

Profile read_profile(const std::string& path) { return parse_profile(path, read_file(path)); }

}  // namespace strata::cli
