#include "recorder/modules.h"

#include <string_view>

#include "os/file.h"
#include "recorder/system.h"
#include "recorder/text.h"

namespace strata::recorder {

bool Modules::knows(std::uint64_t address) noexcept {
  const auto holds = [&](const Range& range) {
    return address > range.start && address <= range.end;
  };
  if (last_ < count_ && holds(ranges_[last_])) return true;
  for (std::size_t i = count_; i-- > 0;) {
    if (!holds(ranges_[i])) continue;
    last_ = i;
    return true;
  }
  return false;
}

void Modules::need(std::uint64_t address, trace::Writer& writer) noexcept {
  if (knows(address) || address >> 12 == last_unknown_page_) return;
  const std::uint64_t now = monotonic_ns();
  if (++reads_ > kReadsAtOnce && now - last_read_ns_ < kPauseNs) return;
  last_read_ns_ = now;
  read(writer);
  if (!knows(address)) last_unknown_page_ = address >> 12;
}

void Modules::read(trace::Writer& writer) noexcept {
  os::LineReader maps(os::path_of_maps());
  for (std::string_view text; count_ < kMostModules && maps.next(text);) {
    os::CodeMapping mapping{};
    if (!os::parse_code_mapping(text, mapping)) continue;
    bool is_known = false;
    for (std::size_t i = 0; i < count_; ++i) {
      is_known |= ranges_[i].start == mapping.start && ranges_[i].end == mapping.end;
    }
    if (is_known) continue;
    ranges_[count_++] = {mapping.start, mapping.end};
    char build_id[129];
    os::Path written;
    written.add(mapping.path);
    const char* const path = maps.with_newlines(mapping.path).data();
    const std::size_t digits = os::read_build_id(path, build_id, sizeof build_id);
    Text line;
    line.hex(mapping.start).add(" ").hex(mapping.end).add(" ").hex(mapping.offset).add(" ");
    line.add(digits == 0 ? std::string_view("-") : std::string_view(build_id, digits));
    line.add(" ").value(written.view()).add("\n");
    writer.add_text(trace::BlockKind::kModules, line.view());
  }
}

}  // namespace strata::recorder
