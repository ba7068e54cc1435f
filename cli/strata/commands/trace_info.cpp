#include "commands/trace_info.h"

#include <fmt/format.h>

#include <array>
#include <cstdlib>

#include "history/history.h"
#include "output/text.h"
#include "output/units.h"
#include "shared/trace/csv.h"

namespace strata::cli {
namespace {

using trace::Event;
using trace::Operation;

struct Counts {
  std::array<std::uint64_t, trace::kOperations> by_operation{};
  std::uint64_t failed = 0;
  std::uint64_t unknown = 0;
  std::uint64_t with_stack = 0;
  std::uint64_t begins = 0;
  double bytes = 0;  ///< of all objects

  void add(const Event& event) {
    ++by_operation[static_cast<unsigned>(event.operation)];
    if (event.ended == trace::kUnknownObject) ++unknown;
    if (!begins_object(event.operation)) return;
    ++begins;
    if (event.stack != 0) ++with_stack;
    if (event.object == trace::kNoObject) {
      ++failed;
    } else {
      bytes += static_cast<double>(event.size_bytes);
    }
  }
};

std::string ending_of(const trace::Reader& trace) {
  if (trace.is_cut())
    return "unknown: the program was killed, or replaced itself by exec, or the disk was full";
  const std::string reason = trace::property(trace.ending(), "reason");
  if (reason == "exit") return "with the program";
  if (reason == "time") return "after the time given by --for";
  if (reason == "signal") return "by the signal given by --on-signal";
  return reason;
}

}  // namespace

std::string trace_info(trace::Reader& trace) {
  History history(trace);
  Counts counts;
  while (history.next()) counts.add(history.event());
  std::string text;
  const auto line = [&](const char* name, const std::string& value) {
    if (!value.empty()) text += fmt::format("{:<12}{}\n", name, value);
  };
  line("trace", trace.name());
  line("command", trace::property(trace.process(), "command"));
  line("process", trace::property(trace.process(), "pid"));
  line("allocator", trace::property(trace.process(), "allocator"));
  std::string events =
      fmt::format("{} in {:.3f} s, by {}; {} in the file", trace.events(),
                  static_cast<double>(trace.time_ns()) * 1e-9,
                  counted(trace.thread_count(), "thread"), bytes_text(trace.bytes()));
  if (trace.events() != 0) {
    events += fmt::format(", {:.2f} bytes each",
                          static_cast<double>(trace.bytes()) / static_cast<double>(trace.events()));
  }
  line("events", events);
  std::string calls;
  for (unsigned i = 0; i < trace::kOperations; ++i) {
    if (counts.by_operation[i] == 0) continue;
    append_item(calls, fmt::format("{} {}", trace::operation_name(static_cast<Operation>(i)),
                                   counts.by_operation[i]));
  }
  line("calls", calls);
  line("objects", fmt::format("{}, of {}; {} live at the end, {}", trace.objects(),
                              brief(Quantity::kBytes, counts.bytes), history.live().objects,
                              bytes_text(history.live().bytes)));
  line("peak", fmt::format("{} live, {:.3f} s from the start", bytes_text(history.peak().bytes),
                           static_cast<double>(history.peak().time_ns) * 1e-9));
  line("stacks", trace.stacks().size() == 1 || counts.begins == 0
                     ? "none"
                     : fmt::format("for {:.1f}% of the allocations; {} different frames",
                                   100 * static_cast<double>(counts.with_stack) /
                                       static_cast<double>(counts.begins),
                                   trace.stacks().size() - 1));
  const auto count_line = [&](const char* name, std::uint64_t count, const char* one,
                              const char* many) {
    if (count != 0) line(name, fmt::format("{} {}", count, count == 1 ? one : many));
  };
  count_line("failed", counts.failed, "call that found no memory", "calls that found no memory");
  count_line("unknown", counts.unknown, "free of an object whose allocation was not recorded",
             "frees of objects whose allocation was not recorded");
  count_line("dropped", trace.dropped_events(),
             "call is missing: the disk was slower, or the recorder had no memory",
             "calls are missing: the disk was slower, or the recorder had no memory");
  if (const std::string cpu_ns = trace::property(trace.ending(), "writer_cpu_ns");
      !cpu_ns.empty()) {
    line("recorder", fmt::format("{:.3f} s of CPU time in its own thread",
                                 std::strtod(cpu_ns.c_str(), nullptr) * 1e-9));
  }
  line("ended", ending_of(trace));
  return text;
}

}  // namespace strata::cli
