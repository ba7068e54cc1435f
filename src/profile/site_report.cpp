#include "profile/site_report.h"

#include <algorithm>

#include "base/scratch.h"
#include "base/text_writer.h"
#include "os/process.h"
#include "os/symbol.h"

namespace strata {
namespace {

/// Live memory of one site, or of one heap: then the ID is 0.
struct Live {
  std::uint64_t bytes;
  std::uint64_t objects;
  const HeapLabel* heap;
  std::uint32_t id;
};

void sort_by_size(Live* first, Live* end) noexcept {
  std::sort(first, end, [](const Live& a, const Live& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.id < b.id;
  });
}

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

TextWriter& append_heap(TextWriter& line, const HeapLabel* heap) noexcept {
  return heap == nullptr ? line.text("the malloc")
                         : line.text("the heap '").name(heap->text).text("'");
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
      line.cut_name(place.function).text("+").hex(place.function_offset).text("  ");
    line.cut_name(place.module).text("+").hex(place.offset);
  }
  end_line(line, out);
}

void write_site(const Site& site, const Live& live, bool tells_all_apart, TextSink& out) noexcept {
  TextWriter line;
  append_amount(line.text("strata: "), live.bytes, live.objects);
  if (site.heap != nullptr) append_heap(line.text(" in "), site.heap);
  line.text(" by");
  end_line(line, out);
  for (std::uint32_t i = 0; i < site.depth; ++i) write_frame(i, site.frames[i], out);
  if (site.depth == 0)
    end_line(line.text(tells_all_apart ? "    an unknown caller"
                                       : "    unknown callers: there were "
                                         "too many to tell them apart, or no memory was left"),
             out);
}

/// Writes the part of each heap, the largest first; nothing if all is the malloc's.
/// \param heaps  room for as many as there are sites
void write_heaps(const Live* first, const Live* end, std::size_t most, Live* heaps,
                 TextSink& out) noexcept {
  Live* heaps_end = heaps;
  for (const Live* site = first; site != end; ++site) {
    Live* const known =
        std::find_if(heaps, heaps_end, [&](const Live& each) { return each.heap == site->heap; });
    if (known == heaps_end) *heaps_end++ = {0, 0, site->heap, 0};
    known->bytes += site->bytes;
    known->objects += site->objects;
  }
  if (heaps_end - heaps == 0 || (heaps_end - heaps == 1 && heaps->heap == nullptr)) return;
  sort_by_size(heaps, heaps_end);
  const auto count = static_cast<std::size_t>(heaps_end - heaps);
  TextWriter line;
  for (std::size_t i = 0; i < std::min(count, most); ++i) {
    append_amount(line.text("strata: of these "), heaps[i].bytes, heaps[i].objects).text(" in ");
    append_heap(line, heaps[i].heap);
    end_line(line, out);
  }
  if (count > most)
    end_line(line.text("strata: and the rest in ")
                 .decimal(count - most)
                 .text(count - most == 1 ? " other heap" : " other heaps"),
             out);
}

}  // namespace

void write_live_sites(SiteTable& sites, std::size_t rate, std::size_t most_sites, TextSink& out,
                      os::PageSource& pages) noexcept {
  TextWriter line;
  const std::uint32_t last = sites.count();
  const Scratch scratch(pages, std::size_t{last} * 2 * sizeof(Live));
  auto* const first = static_cast<Live*>(scratch.memory());
  if (first == nullptr) {
    end_line(line.text("strata: no memory is left to report what is live"), out);
    return;
  }
  Live* end = first;
  Live total{};
  for (std::uint32_t id = 1; id <= last; ++id) {
    const Site& site = sites.site(id);
    if (site.rate != rate) continue;
    const Site::Sums sums = site.sums();
    if (sums.live_objects == 0) continue;
    *end++ = {sums.live_bytes, sums.live_objects, site.heap, id};
    total.bytes += sums.live_bytes;
    total.objects += sums.live_objects;
  }
  const auto count = static_cast<std::size_t>(end - first);
  append_amount(line.text("strata: "), total.bytes, total.objects)
      .text(" of process ")
      .decimal(os::process_id())
      .text(total.objects == 1 ? " is live at exit, from " : " are live at exit, from ")
      .decimal(count)
      .text(count == 1 ? " place" : " places");
  end_line(line, out);
  write_heaps(first, end, most_sites, first + last, out);
  sort_by_size(first, end);
  const std::size_t written = std::min(count, most_sites);
  for (std::size_t i = 0; i < written; ++i) {
    write_site(sites.site(first[i].id), first[i], sites.tells_all_apart(), out);
  }
  if (written < count) {
    Live rest{};
    for (const Live* site = first + written; site != end; ++site) {
      rest.bytes += site->bytes;
      rest.objects += site->objects;
    }
    append_amount(line.text("strata: "), rest.bytes, rest.objects)
        .text(" from ")
        .decimal(count - written)
        .text(count - written == 1 ? " other place" : " other places")
        .text("; the profile has them all");
    end_line(line, out);
  }
}

}  // namespace strata
