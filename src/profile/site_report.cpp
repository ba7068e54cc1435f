#include "profile/site_report.h"

#include <algorithm>

#include "base/text_writer.h"
#include "os/process.h"
#include "os/symbol.h"

namespace strata {
namespace {

struct LiveSite {
  std::uint64_t bytes;
  std::uint64_t objects;
  std::uint32_t id;
};

void end_line(TextWriter& line, TextSink& out) noexcept {
  out.write(line.text("\n").view());
  line.clear();
}

/// "12 bytes in 3 allocations"
TextWriter& append_amount(TextWriter& line, std::uint64_t bytes, std::uint64_t objects) noexcept {
  return line.decimal(bytes)
      .text(bytes == 1 ? " byte in " : " bytes in ")
      .decimal(objects)
      .text(objects == 1 ? " allocation" : " allocations");
}

void write_frame(unsigned index, std::uintptr_t return_address, TextSink& out) noexcept {
  TextWriter line;
  const std::uintptr_t address = return_address - 1;  // inside the call, not after it
  line.text("    #").decimal(index).text(index < 10 ? "  " : " ");
  os::CodePlace place;
  if (!os::find_code(reinterpret_cast<const void*>(address), place)) {
    line.hex(address);
  } else {
    if (place.function != nullptr)
      line.text(place.function).text("+").hex(place.function_offset).text("  ");
    line.text(place.module).text("+").hex(place.offset);
  }
  end_line(line, out);
}

void write_site(const Site& site, const LiveSite& live, TextSink& out) noexcept {
  TextWriter line;
  append_amount(line.text("strata: "), live.bytes, live.objects).text(" by");
  end_line(line, out);
  for (std::uint32_t i = 0; i < site.depth; ++i) write_frame(i, site.frames[i], out);
  if (site.depth == 0) end_line(line.text("    an unknown caller"), out);
}

}  // namespace

void write_live_sites(SiteTable& sites, std::size_t rate, std::size_t most_sites, TextSink& out,
                      os::PageSource& pages) noexcept {
  TextWriter line;
  const std::uint32_t last = sites.count();
  const std::size_t bytes =
      ((last + 1) * sizeof(LiveSite) + os::page_bytes() - 1) & ~(os::page_bytes() - 1);
  auto* const first = static_cast<LiveSite*>(pages.map(bytes));
  if (first == nullptr) {
    end_line(line.text("strata: no memory is left to report what is live"), out);
    return;
  }
  LiveSite* end = first;
  LiveSite total{};
  for (std::uint32_t id = 1; id <= last; ++id) {
    const Site& site = sites.site(id);
    if (site.rate != rate) continue;
    const Site::Sums sums = site.sums();
    if (sums.live_objects == 0) continue;
    *end++ = {sums.live_bytes, sums.live_objects, id};
    total.bytes += sums.live_bytes;
    total.objects += sums.live_objects;
  }
  const auto count = static_cast<std::size_t>(end - first);
  append_amount(line.text("strata: "), total.bytes, total.objects)
      .text(" of process ")
      .decimal(os::process_id())
      .text(" are live at exit, from ")
      .decimal(count)
      .text(count == 1 ? " place" : " places");
  end_line(line, out);
  std::sort(first, end, [](const LiveSite& a, const LiveSite& b) {
    if (a.bytes != b.bytes) return a.bytes > b.bytes;
    return a.objects != b.objects ? a.objects > b.objects : a.id < b.id;
  });
  const std::size_t written = std::min(count, most_sites);
  for (std::size_t i = 0; i < written; ++i) write_site(sites.site(first[i].id), first[i], out);
  if (written < count) {
    LiveSite rest{};
    for (const LiveSite* site = first + written; site != end; ++site) {
      rest.bytes += site->bytes;
      rest.objects += site->objects;
    }
    append_amount(line.text("strata: "), rest.bytes, rest.objects)
        .text(" from ")
        .decimal(count - written)
        .text(" other places; the profile has them all");
    end_line(line, out);
  }
  pages.unmap(first, bytes);
}

}  // namespace strata
