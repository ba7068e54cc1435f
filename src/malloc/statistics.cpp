#include "malloc/statistics.h"

#include "base/text_writer.h"
#include "malloc/process.h"
#include "os/process.h"

namespace strata {
namespace {

void print(TextWriter& line) noexcept {
  os::write_stderr(line.text("\n").view());
  line.clear();
}

void print_bytes(std::string_view name, std::size_t bytes, std::string_view meaning) noexcept {
  TextWriter line;
  line.text("strata: ")
      .text(name)
      .decimal(bytes, 22 - static_cast<unsigned>(name.size()))
      .text("  ")
      .text(meaning);
  print(line);
}

}  // namespace

void collect_statistics(Engine& engine, Statistics& out) noexcept {
  out = Statistics{};
  std::size_t small_pages = 0;
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c) {
    const std::size_t bytes = SizeClassMap::bytes_of(c);
    const std::size_t in_threads = engine.registry().count_objects(c);
    const Central::ClassStatistics from = engine.central().statistics(c);
    Statistics::Class& entry = out.classes[c];
    entry.spans = from.spans.spans;
    entry.cached_objects = in_threads + from.in_transfer;
    // A thread that is busy may be counted late: never below zero.
    const std::size_t claimed = from.spans.claimed_objects;
    entry.live_objects = claimed > entry.cached_objects ? claimed - entry.cached_objects : 0;
    entry.free_objects = from.spans.free_objects;
    small_pages += from.spans.pages;
    out.live += entry.live_objects * bytes;
    out.cached += entry.cached_objects * bytes;
    out.in_spans += entry.free_objects * bytes;
    out.tails += from.spans.pages * kPageBytes - (claimed + from.spans.free_objects) * bytes;
  }
  const PageHeap::Statistics pages = engine.page_heap().statistics();
  const HugeHeap::Statistics huge = engine.huge().statistics();
  if (pages.used_pages > small_pages) out.live += (pages.used_pages - small_pages) * kPageBytes;
  out.live += huge.live_bytes;
  out.idle = pages.idle_pages * kPageBytes + huge.kept_bytes;
  out.clean = (pages.regions * kPagesPerRegion - pages.used_pages - pages.idle_pages) * kPageBytes;
  out.mapped = pages.regions * kRegionBytes + huge.live_bytes + huge.kept_bytes;
  out.metadata = engine.metadata().mapped_bytes();
  out.returned = pages.returned_pages * kPageBytes;
  out.threads = engine.registry().live_threads();
  out.regions = pages.regions;
  out.huge_regions = pages.huge_regions;
  out.huge_blocks = huge.live_blocks;
}

void print_statistics() noexcept {
  Statistics now;
  collect_statistics(g_process.engine, now);
  TextWriter line;
  print(line.text("strata: statistics, in bytes"));
  print_bytes("resident", os::resident_bytes(), "of the whole process, as the kernel counts");
  print_bytes("mapped", now.mapped, "= live + cached + in spans + tails + idle + clean");
  print_bytes("live", now.live, "owned by the program");
  print_bytes("cached", now.cached, "free objects in thread caches and ready batches");
  print_bytes("in spans", now.in_spans, "free objects of spans in use");
  print_bytes("tails", now.tails, "ends of spans too short for an object");
  print_bytes("idle", now.idle, "free pages that hold memory");
  print_bytes("clean", now.clean, "free pages that hold none");
  print_bytes("metadata", now.metadata, "our bookkeeping, beside mapped");
  print_bytes("returned", now.returned, "given back to the kernel since the start");
  print(line.text("strata: ")
            .decimal(now.threads)
            .text(" threads, ")
            .decimal(now.regions)
            .text(" regions (")
            .decimal(now.huge_regions)
            .text(" with huge pages), ")
            .decimal(now.huge_blocks)
            .text(" huge blocks"));
  print(line.text("strata:     class bytes    spans        live      cached        free"));
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c) {
    const Statistics::Class& entry = now.classes[c];
    if (entry.spans == 0) continue;
    print(line.text("strata: ")
              .decimal(c, 9)
              .decimal(SizeClassMap::bytes_of(c), 6)
              .decimal(entry.spans, 9)
              .decimal(entry.live_objects, 12)
              .decimal(entry.cached_objects, 12)
              .decimal(entry.free_objects, 12));
  }
}

}  // namespace strata
