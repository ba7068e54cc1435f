#include "profile/profile.h"

#include <fmt/format.h>
#include <zlib.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <unordered_map>

#include "input/read_file.h"
#include "input/usage_error.h"
#include "profile/wire.h"
#include "shared/trace/file_kind.h"

namespace strata::cli {
namespace {

// Chosen: a profile of a million stacks has some 100 MiB. The limit stops files made to fill
// memory.
constexpr std::size_t kMostBytes = std::size_t{1} << 30;

/// Decompresses; accepts several gzip files in a row.
/// \errors  DamagedProfile if the data is truncated, damaged, or larger than any profile.
std::string gunzip(std::string_view bytes) {
  constexpr int kOnlyGzip = 16 + MAX_WBITS;
  z_stream stream{};
  if (::inflateInit2(&stream, kOnlyGzip) != Z_OK) throw DamagedProfile("zlib has no memory");
  const auto end = [](z_stream* s) { ::inflateEnd(s); };
  const std::unique_ptr<z_stream, decltype(end)> owner(&stream, end);
  std::string text;
  std::string buffer(std::size_t{64} << 10, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  for (;;) {
    stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream.avail_out = static_cast<uInt>(buffer.size());
    const int status = ::inflate(&stream, Z_NO_FLUSH);
    if (status == Z_BUF_ERROR) throw DamagedProfile("it is cut short");
    if (status != Z_OK && status != Z_STREAM_END) throw DamagedProfile("its gzip data are damaged");
    text.append(buffer, 0, buffer.size() - stream.avail_out);
    if (text.size() > kMostBytes) throw DamagedProfile("it is larger than any profile");
    if (status != Z_STREAM_END) continue;
    if (stream.avail_in == 0) return text;
    ::inflateReset(&stream);
  }
}

class Reader {
 public:
  explicit Reader(std::string_view message) : message_(message) {}

  /// Fields may have any order, so this reads first what others refer to.
  Profile read() {
    for_each(6, [&](const WireReader& in) { strings_.emplace_back(in.bytes()); });
    std::string default_kind;
    for (WireReader in(message_); in.next();) {
      if (in.field() == 7) profile_.drop_frames = string(in.number());
      if (in.field() == 9) profile_.time_ns = in.signed_number();
      if (in.field() == 10) profile_.duration_ns = in.signed_number();
      if (in.field() == 12) profile_.period = in.signed_number();
      if (in.field() == 14) default_kind = string(in.number());
    }
    for_each(5, [&](const WireReader& in) { add_function(in.bytes()); });
    for_each(3, [&](const WireReader& in) { add_mapping(in.bytes()); });
    for_each(4, [&](const WireReader& in) { add_location(in.bytes()); });
    for_each(1, [&](const WireReader& in) { add_kind(in.bytes()); });
    if (profile_.kinds.empty()) throw DamagedProfile("it does not say what it counts");
    for_each(2, [&](const WireReader& in) { add_sample(in.bytes()); });
    profile_.default_kind = profile_.find_kind(default_kind);
    if (profile_.default_kind == Profile::kNone) {
      profile_.default_kind = profile_.kinds.size() - 1;  // pprof's default
    }
    return std::move(profile_);
  }

 private:
  using Numbers = std::unordered_map<std::uint64_t, std::size_t>;

  template <typename Take>
  void for_each(unsigned field, Take take) const {
    for (WireReader in(message_); in.next();) {
      if (in.field() == field) take(in);
    }
  }

  std::string string(std::uint64_t index) const {
    if (index >= strings_.size()) throw DamagedProfile("it refers to a text that it does not have");
    return strings_[index];
  }

  static std::size_t index_in(const Numbers& numbers, std::uint64_t id) {
    const auto found = numbers.find(id);
    if (found == numbers.end()) throw DamagedProfile(kDangling);
    return found->second;
  }

  void add_function(std::string_view message) {
    std::uint64_t id = 0;
    Function function;
    for (WireReader in(message); in.next();) {
      if (in.field() == 1) id = in.number();
      if (in.field() == 2) function.name = in.number();
      if (in.field() == 4) function.file = in.number();
    }
    functions_[id] = function;
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
    Profile::Location& location = profile_.locations.emplace_back();
    std::uint64_t id = 0;
    std::uint64_t mapping = 0;
    for (WireReader in(message); in.next();) {
      if (in.field() == 1) id = in.number();
      if (in.field() == 2) mapping = in.number();
      if (in.field() == 3) location.address = in.number();
      if (in.field() == 4) location.lines.push_back(line(in.bytes()));
    }
    if (mapping != 0) location.mapping = index_in(mapping_of_, mapping);
    location_of_[id] = profile_.locations.size() - 1;
  }

  Line line(std::string_view message) const {
    std::uint64_t function = 0;
    std::uint64_t number = 0;
    for (WireReader in(message); in.next();) {
      if (in.field() == 1) function = in.number();
      if (in.field() == 2) number = in.number();
    }
    const auto found = functions_.find(function);
    if (found == functions_.end()) throw DamagedProfile(kDangling);
    return {string(found->second.name), string(found->second.file), number};
  }

  void add_kind(std::string_view message) {
    Profile::Kind& kind = profile_.kinds.emplace_back();
    for (WireReader in(message); in.next();) {
      if (in.field() == 1) kind.type = string(in.number());
      if (in.field() == 2) kind.unit = string(in.number());
    }
  }

  void add_sample(std::string_view message) {
    Profile::Sample& sample = profile_.samples.emplace_back();
    std::optional<std::string> heap;
    for (WireReader in(message); in.next();) {
      if (in.field() == 1) {
        in.for_each_number(
            [&](std::uint64_t id) { sample.locations.push_back(index_in(location_of_, id)); });
      }
      if (in.field() == 2) {
        in.for_each_number([&](std::uint64_t value) {
          sample.values.push_back(static_cast<std::int64_t>(value));
        });
      }
      if (in.field() == 3) read_label(in.bytes(), heap);
    }
    // Adds the sample's heap as its outermost call, so that every view shows it.
    if (heap) sample.locations.push_back(location_of_heap(*heap));
    if (sample.values.size() != profile_.kinds.size()) {
      throw DamagedProfile("a sample has more or fewer values than there are kinds");
    }
  }

  void read_label(std::string_view message, std::optional<std::string>& heap) const {
    std::uint64_t key = 0;
    std::uint64_t text = 0;
    for (WireReader in(message); in.next();) {
      if (in.field() == 1) key = in.number();
      if (in.field() == 2) text = in.number();
    }
    if (string(key) == "heap") heap = string(text);
  }

  std::size_t location_of_heap(const std::string& name) {
    const auto [entry, is_new] = heap_locations_.try_emplace(name, profile_.locations.size());
    if (is_new) {
      Profile::Location& location = profile_.locations.emplace_back();
      location.lines.push_back({fmt::format("[the heap '{}']", name), "", 0});
    }
    return entry->second;
  }

  static constexpr const char* kDangling = "it refers to a place that it does not have";

  /// Numbers of strings.
  struct Function {
    std::uint64_t name = 0;
    std::uint64_t file = 0;
  };

  std::string_view message_;
  Profile profile_;
  std::vector<std::string> strings_;
  std::unordered_map<std::uint64_t, Function> functions_;
  Numbers mapping_of_;
  Numbers location_of_;
  std::unordered_map<std::string, std::size_t> heap_locations_;
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

Profile parse_profile(const std::string& name, std::string_view bytes,
                      std::string_view what_it_is) {
  if (bytes.empty()) throw UsageError(fmt::format("'{}' is empty", name));
  const FileKind kind = file_kind_of(bytes);
  const bool is_packed = kind == FileKind::kProfile;
  const auto refusal = [&](std::string_view reason) {
    return UsageError(fmt::format("'{}' is {}: {}", name, what_it_is, reason));
  };
  const std::string_view other = is_packed ? "" : describe_file(kind, "");
  if (!other.empty()) throw refusal(other);
  try {
    const std::string unpacked = is_packed ? gunzip(bytes) : std::string();
    Profile profile = Reader(is_packed ? unpacked : bytes).read();
    profile.name = name;
    return profile;
  } catch (const DamagedProfile& reason) {
    // Unpacked, it begins with what it counts; any other text fails somewhere.
    if (is_packed || bytes.starts_with('\x0a')) throw refusal(reason.what());
    throw UsageError(
        fmt::format("'{}' is {}, which strata run --profile writes", name, what_it_is));
  }
}

Profile read_profile(const std::string& path) { return parse_profile(path, read_file(path)); }

}  // namespace strata::cli
