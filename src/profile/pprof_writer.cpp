#include "profile/pprof_writer.h"

#include <algorithm>
#include <cstring>

#include "base/scratch.h"
#include "base/utf8.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/text_parts.h"

namespace strata {
namespace {

// Field numbers of profile.proto.
namespace profile {
enum : unsigned {
  kSampleType = 1,
  kSample = 2,
  kMapping = 3,
  kLocation = 4,
  kStringTable = 6,
  kDropFrames = 7,
  kTimeNanos = 9,
  kDurationNanos = 10,
  kPeriodType = 11,
  kPeriod = 12,
  kDefaultSampleType = 14,
};
}  // namespace profile
namespace value_type {
enum : unsigned { kType = 1, kUnit = 2 };
}
namespace sample {
enum : unsigned { kLocationIds = 1, kValues = 2, kLabel = 3 };
}
namespace label {
enum : unsigned { kKey = 1, kText = 2 };
}
namespace mapping {
enum : unsigned { kId = 1, kStart = 2, kLimit = 3, kOffset = 4, kFile = 5, kBuildId = 6 };
}
namespace location {
enum : unsigned { kId = 1, kMappingId = 2, kAddress = 3 };
}

/// Our own frames, if Strata is linked into the program and cannot be told from it by address.
constexpr std::string_view kOwnFrames = "strata::.*|strata_.*|malloc|calloc|realloc|operator new.*";

/// One message: fields in a buffer for so many numbers, which include a field's own and a length.
template <std::size_t kNumbers = 12>
class Message {
 public:
  Message& number(unsigned field, std::uint64_t value) noexcept {
    if (value != 0) varint(std::uint64_t{field} << 3).varint(value);
    return *this;
  }
  template <std::size_t kOthers>
  Message& packed(unsigned field, const Message<kOthers>& numbers) noexcept {
    static_assert(kOthers + 2 <= kNumbers, "there is room for it");
    const std::string_view value = numbers.view();
    varint(std::uint64_t{field} << 3 | 2).varint(value.size());
    std::memcpy(buffer_ + size_, value.data(), value.size());
    size_ += value.size();
    return *this;
  }
  Message& varint(std::uint64_t value) noexcept {
    for (; value >= 0x80; value >>= 7) buffer_[size_++] = static_cast<char>(value | 0x80);
    buffer_[size_++] = static_cast<char>(value);
    return *this;
  }
  std::string_view view() const noexcept { return {buffer_, size_}; }

 private:
  static constexpr std::size_t kVarint = 10;
  char buffer_[kNumbers * kVarint];
  std::size_t size_ = 0;
};

void write_head(TextSink& out, unsigned field, std::size_t bytes) noexcept {
  Message<2> head;
  out.write(head.varint(std::uint64_t{field} << 3 | 2).varint(bytes).view());
}

void write_message(TextSink& out, unsigned field, std::string_view content) noexcept {
  write_head(out, field, content.size());
  out.write(content);
}

/// Calls visit(character) for each character of a text; for each byte that is none, with another
/// character in its place.
template <typename Visit>
void for_each_character(std::string_view text, Visit visit) noexcept {
  while (!text.empty()) {
    const std::size_t bytes = character_bytes(text);
    visit(bytes != 0 ? os::start_of(text, bytes) : kReplacementCharacter);
    text.remove_prefix(std::max(bytes, std::size_t{1}));
  }
}

/// The address that pprof wants for a frame: inside the call, not after it.
std::uint64_t call_address(std::uintptr_t return_address) noexcept { return return_address - 1; }

}  // namespace

bool PprofWriter::write(SiteTable& sites, std::size_t rate, std::uint64_t started_ns) noexcept {
  add_string("");  // index 0, by definition
  write_types();
  write_samples(sites, rate);
  if (!write_locations(sites, rate)) return false;
  const std::uint64_t now = os::wall_clock_ns();
  Message rest;
  rest.number(profile::kDropFrames, add_string(kOwnFrames))
      .number(profile::kTimeNanos, started_ns)
      .number(profile::kDurationNanos, now > started_ns ? now - started_ns : 0)
      .number(profile::kPeriod, rate);
  out_.write(rest.view());
  return true;
}

/// Adds a string, in UTF-8 whatever the bytes are, since the format has no other text.
/// \returns  Its index in the table.
std::uint64_t PprofWriter::add_string(std::string_view text) noexcept {
  std::size_t bytes = 0;
  for_each_character(text, [&](std::string_view character) { bytes += character.size(); });
  write_head(out_, profile::kStringTable, bytes);
  for_each_character(text, [&](std::string_view character) { out_.write(character); });
  return strings_++;
}

void PprofWriter::write_types() noexcept {
  const std::uint64_t count = add_string("count");
  const std::uint64_t bytes = add_string("bytes");
  const auto write_type = [&](unsigned field, std::string_view name, std::uint64_t unit) {
    const std::uint64_t type = add_string(name);
    Message message;
    message.number(value_type::kType, type).number(value_type::kUnit, unit);
    write_message(out_, field, message.view());
    return type;
  };
  write_type(profile::kSampleType, "alloc_objects", count);
  write_type(profile::kSampleType, "alloc_space", bytes);
  write_type(profile::kSampleType, "inuse_objects", count);
  const std::uint64_t shown_first = write_type(profile::kSampleType, "inuse_space", bytes);
  write_type(profile::kPeriodType, "space", bytes);
  Message message;
  out_.write(message.number(profile::kDefaultSampleType, shown_first).view());
}

void PprofWriter::write_samples(SiteTable& sites, std::size_t rate) noexcept {
  const std::uint32_t last = sites.count();
  // All that these sites have, and the latest first.
  const HeapLabel* const labels = sites.labels();
  const std::uint64_t heap_key = labels != nullptr ? add_string("heap") : 0;
  const std::uint64_t first_label = strings_;
  for (const HeapLabel* each = labels; each != nullptr; each = each->next) add_string(each->text);
  for (std::uint32_t id = 1; id <= last; ++id) {
    const Site& site = sites.site(id);
    if (site.rate != rate) continue;
    const Site::Sums sums = site.sums();
    Message<SiteTable::kMaxDepth> locations;
    for (std::uint32_t i = 0; i < site.depth; ++i) locations.varint(call_address(site.frames[i]));
    Message<4> values;
    values.varint(sums.allocated_objects)
        .varint(sums.allocated_bytes)
        .varint(sums.live_objects)
        .varint(sums.live_bytes);
    Message<SiteTable::kMaxDepth + 4 + 4 + 3 * 2> message;
    message.packed(sample::kLocationIds, locations).packed(sample::kValues, values);
    if (site.heap != nullptr) {
      Message<4> heap;
      heap.number(label::kKey, heap_key)
          .number(label::kText, first_label + labels->number - site.heap->number);
      message.packed(sample::kLabel, heap);
    }
    write_message(out_, profile::kSample, message.view());
  }
}

/// Writes every address once, each after the mapping that contains it.
bool PprofWriter::write_locations(SiteTable& sites, std::size_t rate) noexcept {
  // Sites that came since the samples were written add locations that no sample has: harmless.
  const std::uint32_t last = sites.count();
  std::size_t frames = 0;
  for (std::uint32_t id = 1; id <= last; ++id) frames += sites.site(id).depth;
  Scratch scratch(pages_, frames * sizeof(std::uint64_t));
  auto* const addresses = static_cast<std::uint64_t*>(scratch.memory());
  if (addresses == nullptr) return false;
  std::uint64_t* end = addresses;
  for (std::uint32_t id = 1; id <= last; ++id) {
    const Site& site = sites.site(id);
    if (site.rate != rate) continue;
    for (std::uint32_t i = 0; i < site.depth; ++i) *end++ = call_address(site.frames[i]);
  }
  std::sort(addresses, end);
  end = std::unique(addresses, end);

  const std::uint64_t* next = addresses;
  const auto write_up_to = [&](std::uint64_t limit, std::uint64_t mapping_id) {
    for (; next != end && *next < limit; ++next) {
      Message message;
      message.number(location::kId, *next)
          .number(location::kMappingId, mapping_id)
          .number(location::kAddress, *next);
      write_message(out_, profile::kLocation, message.view());
    }
  };
  os::LineReader maps(os::path_of_maps());
  std::uint64_t mapping_id = 0;
  for (std::string_view line; maps.next(line);) {
    os::CodeMapping code;
    if (!os::parse_code_mapping(line, code)) continue;
    char build_id[128];
    const std::string_view path = maps.with_newlines(code.path);
    const std::size_t digits = os::read_build_id(path.data(), build_id, sizeof build_id);
    const std::uint64_t file_string = add_string(path);
    const std::uint64_t build_id_string = digits != 0 ? add_string({build_id, digits}) : 0;
    Message message;
    message.number(mapping::kId, ++mapping_id)
        .number(mapping::kStart, code.start)
        .number(mapping::kLimit, code.end)
        .number(mapping::kOffset, code.offset)
        .number(mapping::kFile, file_string)
        .number(mapping::kBuildId, build_id_string);
    write_message(out_, profile::kMapping, message.view());
    write_up_to(code.start, 0);
    write_up_to(code.end, mapping_id);
  }
  write_up_to(~std::uint64_t{0}, 0);
  has_all_files_ = mapping_id != 0 && !maps.has_failed();
  return true;
}

}  // namespace strata
