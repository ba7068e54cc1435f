// Statistics as text for a person, and as JSON for a program.

#include "base/json_writer.h"
#include "base/text_writer.h"
#include "malloc/statistics.h"
#include "os/resources.h"

namespace strata {
namespace {

/// One line at a time, each with the library's name in front: it shares standard error with others.
class Report {
 public:
  explicit Report(TextSink& sink) noexcept : sink_(sink) {}

  TextWriter& line() noexcept { return line_.text("strata: "); }
  void end_line() noexcept {
    sink_.write(line_.text("\n").view());
    line_.clear();
  }
  void figure(std::string_view name, std::size_t value, std::string_view meaning) noexcept {
    constexpr unsigned kWidth = 24;
    const auto used = static_cast<unsigned>(name.size());
    line().text(name).decimal(value, used < kWidth ? kWidth - used : 1).text("  ").text(meaning);
    end_line();
  }

 private:
  TextSink& sink_;
  TextWriter line_;
};

void write_limit(const MemoryLimit::Statistics& limit, Report& report) noexcept {
  if (limit.soft_limit != 0) {
    report.figure("soft limit", limit.soft_limit, "of what is held");
    report.figure("  passes", limit.passes, "times that everything idle went back above it");
    report.figure("  returned", limit.returned, "bytes that those gave back");
  }
  if (limit.hard_limit == 0) return;
  report.figure("hard limit", limit.hard_limit, "of what is held");
  report.figure("  refusals", limit.refusals, "times that it was out of memory");
}

void write_classes(const Statistics& now, Report& report) noexcept {
  report.line().text("    class bytes    spans        live      cached        free");
  report.end_line();
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c) {
    const Statistics::Class& entry = now.classes[c];
    if (entry.spans == 0) continue;
    report.line()
        .decimal(c, 9)
        .decimal(SizeClassMap::bytes_of(c), 6)
        .decimal(entry.spans, 9)
        .decimal(entry.live_objects, 12)
        .decimal(entry.cached_objects, 12)
        .decimal(entry.free_objects, 12);
    report.end_line();
  }
}

}  // namespace

void write_statistics(const Statistics& now, TextSink& sink) noexcept {
  Report report(sink);
  report.line().text("statistics, in bytes");
  report.end_line();
  report.figure("resident", os::resident_bytes(), "of the whole process, as the kernel counts");
  report.figure("mapped", now.mapped, "= live + cached + free + metadata + returned");
  report.figure("live", now.live, "owned by the program");
  if (now.guards.reserved_bytes != 0)
    report.figure("  guarded", now.guards.live_bytes, "the part that stands between guard pages");
  report.figure("cached", now.cached, "free objects in thread caches and transfer caches");
  if (now.quarantined != 0)
    report.figure("  quarantine", now.quarantined, "the part that waits, for full checks");
  report.figure("free", now.free(), "free otherwise, and holding memory");
  report.figure("  in spans", now.in_spans, "free objects of spans in use");
  report.figure("  tails", now.tails, "ends of spans too short for an object");
  report.figure("  holes", now.holes, "the part of these two that went back: not in free");
  report.figure("  idle", now.idle, "free pages and kept mappings");
  report.figure("metadata", now.metadata, "our bookkeeping");
  report.figure("returned", now.returned(), "address space that holds no memory: holes and clean");
  report.figure("held", now.limit.held, "what the limits are about: all but returned");
  report.figure("held at most", now.limit.peak, "since the start");
  report.figure("given back", now.given_back, "to the kernel since the start");
  write_limit(now.limit, report);
  report.line()
      .decimal(now.threads)
      .text(" threads, ")
      .decimal(now.regions)
      .text(" regions (")
      .decimal(now.huge_regions)
      .text(" with huge pages), ")
      .decimal(now.huge_blocks)
      .text(" huge blocks");
  report.end_line();
  if (now.guards.reserved_bytes != 0) {
    report.line()
        .text("guards: ")
        .decimal(now.guards.live_objects)
        .text(" objects live, ")
        .decimal(now.guards.waiting_objects)
        .text(" waiting, ")
        .decimal(now.guards.allocations)
        .text(" since the start");
    report.end_line();
  }
  report.line()
      .text("scavenger: ")
      .decimal(now.scavenger.threads)
      .text(" threads, ")
      .decimal(now.scavenger.rounds)
      .text(" rounds, ")
      .decimal(now.scavenger.returned)
      .text(" bytes");
  report.end_line();
  write_classes(now, report);
}

void write_statistics_json(const Statistics& now, TextSink& sink) noexcept {
  JsonWriter json(sink);
  json.begin_object().text("schema", "strata-stats/1");
  json.number("resident_bytes", os::resident_bytes());
  json.begin_object("bytes")
      .number("mapped", now.mapped)
      .number("live", now.live)
      .number("cached", now.cached)
      .number("free", now.free())
      .number("metadata", now.metadata)
      .number("returned", now.returned())
      .end_object();
  json.begin_object("thread_caches")
      .number("threads", now.threads)
      .number("bytes", now.in_threads)
      .end_object();
  json.begin_object("ready_batches")
      .number("bytes", now.cached - now.in_threads - now.quarantined)
      .end_object();
  json.begin_object("quarantine").number("bytes", now.quarantined).end_object();
  json.begin_object("spans")
      .number("bytes", now.small_spans)
      .number("free_bytes", now.in_spans)
      .number("tail_bytes", now.tails)
      .number("hole_bytes", now.holes)
      .end_object();
  json.begin_object("page_heap")
      .number("regions", now.regions)
      .number("huge_regions", now.huge_regions)
      .number("large_bytes", now.large_blocks)
      .number("idle_bytes", now.idle - now.huge_kept)
      .number("clean_bytes", now.clean)
      .end_object();
  json.begin_object("huge")
      .number("blocks", now.huge_blocks)
      .number("live_bytes", now.huge_live)
      .number("kept_bytes", now.huge_kept)
      .end_object();
  json.begin_object("guards")
      .number("objects", now.guards.live_objects)
      .number("live_bytes", now.guards.live_bytes)
      .number("waiting", now.guards.waiting_objects)
      .number("waiting_bytes", now.guards.waiting_bytes)
      .number("reserved_bytes", now.guards.reserved_bytes)
      .number("allocations", now.guards.allocations)
      .end_object();
  json.begin_object("page_map").number("reserved_bytes", now.page_map).end_object();
  json.begin_object("limits")
      .number("held_bytes", now.limit.held)
      .number("peak_bytes", now.limit.peak)
      .number("soft_bytes", now.limit.soft_limit)
      .number("soft_passes", now.limit.passes)
      .number("soft_returned_bytes", now.limit.returned)
      .number("hard_bytes", now.limit.hard_limit)
      .number("hard_refusals", now.limit.refusals)
      .end_object();
  json.begin_object("scavenger")
      .number("threads_started", now.scavenger.threads)
      .number("rounds", now.scavenger.rounds)
      .number("returned_bytes", now.scavenger.returned)
      .end_object();
  json.number("given_back_bytes", now.given_back);
  json.begin_array("classes");
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c) {
    const Statistics::Class& entry = now.classes[c];
    if (entry.spans == 0) continue;
    json.begin_object()
        .number("class", c)
        .number("object_bytes", SizeClassMap::bytes_of(c))
        .number("spans", entry.spans)
        .number("live", entry.live_objects)
        .number("cached", entry.cached_objects)
        .number("free", entry.free_objects)
        .end_object();
  }
  json.end_array().end_object();
}

}  // namespace strata
