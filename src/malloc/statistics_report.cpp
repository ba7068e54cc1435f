// Statistics as text for a person, and as JSON for a program.

#include <cstdint>
#include <string_view>

#include "base/json_writer.h"
#include "base/text_writer.h"
#include "malloc/statistics.h"
#include "os/process.h"
#include "os/resources.h"

namespace strata {
namespace {

/// Writes one line at a time, with the library's name in front: others write to standard error,
/// too.
class Report {
 public:
  explicit Report(TextSink& sink) noexcept : sink_(sink) {}

  TextWriter& line() noexcept { return line_.text("strata: "); }
  TextWriter& line_so_far() noexcept { return line_; }
  void end_line() noexcept {
    sink_.write(line_.text("\n").view());
    line_.clear();
  }
  void figure(std::string_view name, std::uint64_t value, std::string_view meaning) noexcept {
    constexpr unsigned kWidth = 34;
    const auto used = static_cast<unsigned>(name.size());
    line().text(name).decimal(value, used < kWidth ? kWidth - used : 1).text("  ").text(meaning);
    end_line();
  }

 private:
  TextSink& sink_;
  TextWriter line_;
};

/// One figure of the process: its name in the text (empty: not in it), its place in the JSON, and
/// its value.
struct Figure {
  std::string_view name;
  std::string_view object;  ///< empty: at the top
  std::string_view key;
  std::uint64_t value;
  std::string_view meaning = {};
};

/// Visits every figure but those of size classes, in the order of both formats; the members of one
/// JSON object stand together. A table in code, since one of pointers would cost each process a
/// page.
template <typename Visit>
void for_each_figure(const Statistics& now, Visit visit) noexcept {
  const auto row = [&](std::string_view name, std::string_view object, std::string_view key,
                       std::uint64_t value, std::string_view meaning = {}) {
    visit(Figure{name, object, key, value, meaning});
  };
  const auto row_if = [&](bool is_in_text, std::string_view name, std::string_view object,
                          std::string_view key, std::uint64_t value, std::string_view meaning) {
    row(is_in_text ? name : std::string_view{}, object, key, value, meaning);
  };
  const bool has_guards = now.guards.reserved_bytes != 0;
  const bool has_soft = now.limit.soft_limit != 0;
  const bool has_hard = now.limit.hard_limit != 0;

  row("resident", "", "resident_bytes", os::resident_bytes(), "of the process, by the kernel");
  row("mapped", "bytes", "mapped", now.mapped, "= live + cached + free + metadata + returned");
  row("live", "bytes", "live", now.live, "owned by the program");
  row("cached", "bytes", "cached", now.cached, "free objects in caches and in the quarantine");
  row("free", "bytes", "free", now.free(), "free otherwise, and holding memory");
  row("metadata", "bytes", "metadata", now.metadata, "our bookkeeping");
  row("returned", "bytes", "returned", now.returned(), "address space that holds no memory");

  row("threads", "thread_caches", "threads", now.threads, "that have a cache");
  row("  in thread caches", "thread_caches", "bytes", now.in_threads, "part of cached");
  row("  in transfer caches", "transfer_caches", "bytes",
      now.cached - now.in_threads - now.quarantined, "part of cached");
  row_if(now.quarantined != 0, "  in quarantine", "quarantine", "bytes", now.quarantined,
         "part of cached, under full checks");

  row("spans", "spans", "bytes", now.small_spans, "pages that are cut into objects");
  row("  free in spans", "spans", "free_bytes", now.in_spans, "objects that are in their span");
  row("  tails", "spans", "tail_bytes", now.tails, "ends of spans too short for an object");
  row("  holes", "spans", "hole_bytes", now.holes, "the part of these two that went back");
  row("  kept spans", "spans", "kept_bytes", now.kept_spans, "spans without an object in use");
  row("shards", "central", "shards", now.shards, "of the spans and transfer caches");

  row("", "verified_frees", "is_on", now.verifies_frees);
  row_if(now.verifies_frees || now.verified_frees != 0, "frees verified", "verified_frees", "frees",
         now.verified_frees,
         now.verifies_frees ? "every one is; counted some thousands late"
                            : "then it took more than about 1%, and ended");
  row_if(now.state_bytes != 0, "  states of objects", "verified_frees", "state_bytes",
         now.state_bytes, "part of metadata");

  row("regions", "page_heap", "regions", now.regions, "of 2 MiB; not bytes");
  row("  with huge pages", "page_heap", "huge_regions", now.huge_regions, "not bytes");
  row("  large blocks", "page_heap", "large_bytes", now.large_blocks, "part of live");
  row("  idle pages", "page_heap", "idle_bytes", now.idle - now.huge_kept, "part of free");
  row("  clean pages", "page_heap", "clean_bytes", now.clean, "part of returned");

  row("huge blocks", "huge", "blocks", now.huge_blocks, "not bytes");
  row("  live in them", "huge", "live_bytes", now.huge_live, "part of live");
  row("  kept mappings", "huge", "kept_bytes", now.huge_kept, "part of free");

  row_if(has_guards, "guarded objects", "guards", "objects", now.guards.live_objects,
         "live ones between guard pages");
  row_if(has_guards, "  their pages", "guards", "live_bytes", now.guards.live_bytes,
         "part of live");
  row_if(has_guards, "  waiting", "guards", "waiting", now.guards.waiting_objects,
         "freed ones, inaccessible");
  row("", "guards", "waiting_bytes", now.guards.waiting_bytes);
  row("", "guards", "reserved_bytes", now.guards.reserved_bytes);
  row_if(has_guards, "  since the start", "guards", "allocations", now.guards.allocations,
         "guarded allocations");
  row("", "page_map", "reserved_bytes", now.page_map);

  row("held", "limits", "held_bytes", now.limit.held, "what limits are about: all but returned");
  row("held at most", "limits", "peak_bytes", now.limit.peak, "since the start");
  row_if(has_soft, "soft limit", "limits", "soft_bytes", now.limit.soft_limit, "of what is held");
  row_if(has_soft, "  passes", "limits", "soft_passes", now.limit.passes,
         "times that everything idle went back above it");
  row_if(has_soft, "  returned", "limits", "soft_returned_bytes", now.limit.returned,
         "bytes that those gave back");
  row_if(has_hard, "hard limit", "limits", "hard_bytes", now.limit.hard_limit, "of what is held");
  row_if(has_hard, "  refusals", "limits", "hard_refusals", now.limit.refusals,
         "times that it was out of memory");
  const SharedLimit::Statistics& process = now.limit.shared;
  const bool has_process = process.soft_limit != 0 || process.hard_limit != 0;
  row_if(has_process, "process holds", "limits", "process_held_bytes", process.held,
         "the malloc and all heaps: what STRATA_…_LIMIT is about");
  row_if(has_process, "process held at most", "limits", "process_peak_bytes", process.peak,
         "since the start");
  row_if(has_process, "  its soft limit", "limits", "process_soft_bytes", process.soft_limit,
         "0: none");
  row_if(has_process, "  its hard limit", "limits", "process_hard_bytes", process.hard_limit,
         "0: none");

  row("scavenger threads", "scavenger", "threads_started", now.scavenger.threads,
      "since the start");
  row("  rounds", "scavenger", "rounds", now.scavenger.rounds, "since the start");
  row("  gave back", "scavenger", "returned_bytes", now.scavenger.returned, "since the start");
  row("given back", "", "given_back_bytes", now.given_back,
      "to the kernel since the start, whatever the occasion");

  const Statistics::Waits& waits = now.waits;
  row("waits for locks", "lock_waits", "total", waits.total(), "times since the start");
  row("  thread registry", "lock_waits", "thread_registry", waits.thread_registry,
      "as threads begin and end");
  row("  central", "lock_waits", "central", waits.central, "by class below");
  row("  huge heap", "lock_waits", "huge_heap", waits.huge_heap, "blocks beyond 1 MiB");
  row("  page heap", "lock_waits", "page_heap", waits.page_heap, "spans and large blocks");
  row("  metadata", "lock_waits", "metadata", waits.metadata, "memory for bookkeeping");
}

void write_classes(const Statistics& now, Report& report) noexcept {
  report.line().text(
      "   class  bytes    spans     kept        live      cached        free    waits transfer");
  report.end_line();
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c) {
    const Statistics::Class& entry = now.classes[c];
    if (entry.spans == 0) continue;
    report.line()
        .decimal(c, 8)
        .decimal(SizeClassMap::bytes_of(c), 7)
        .decimal(entry.spans, 9)
        .decimal(entry.kept_spans, 9)
        .decimal(entry.live_objects, 12)
        .decimal(entry.cached_objects, 12)
        .decimal(entry.free_objects, 12)
        .decimal(entry.waits, 9)
        .decimal(entry.transfer_waits, 9);
    report.end_line();
  }
}

}  // namespace

void write_statistics(const Statistics& now, TextSink& sink) noexcept {
  Report report(sink);
  report.line().text("statistics");
  if (!now.name.empty() && now.name != "malloc")
    report.line_so_far().text(" of the heap '").name(now.name).text("'");
  report.line_so_far().text(" of process ").decimal(os::process_id()).text(", in bytes");
  report.end_line();
  for_each_figure(now, [&](const Figure& figure) {
    if (!figure.name.empty()) report.figure(figure.name, figure.value, figure.meaning);
  });
  write_classes(now, report);
}

void write_statistics_json(const Statistics& now, TextSink& sink) noexcept {
  JsonWriter json(sink);
  json.begin_object().text("schema", "strata-stats/1").text("name", now.name);
  std::string_view open;
  const auto close = [&] {
    if (!open.empty()) json.end_object();
    open = {};
  };
  for_each_figure(now, [&](const Figure& figure) {
    if (figure.object != open) {
      close();
      if (!figure.object.empty()) json.begin_object(figure.object);
      open = figure.object;
    }
    json.number(figure.key, figure.value);
  });
  close();
  json.begin_array("classes");
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c) {
    const Statistics::Class& entry = now.classes[c];
    if (entry.spans == 0) continue;
    json.begin_object()
        .number("class", c)
        .number("object_bytes", SizeClassMap::bytes_of(c))
        .number("spans", entry.spans)
        .number("kept_spans", entry.kept_spans)
        .number("live", entry.live_objects)
        .number("cached", entry.cached_objects)
        .number("free", entry.free_objects)
        .number("waits", entry.waits)
        .number("transfer_waits", entry.transfer_waits)
        .end_object();
  }
  json.end_array().end_object();
}

}  // namespace strata
