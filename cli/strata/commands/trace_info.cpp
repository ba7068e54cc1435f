#include "commands/trace_info.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <unordered_map>

#include "output/units.h"
#include "shared/trace/csv.h"

namespace strata::cli {
namespace {

using trace::Event;
using trace::Operation;

/// Live bytes, of the objects that the trace begins. Four bytes for each: sizes of 2^32 - 1 and
/// more stand beside.
class LiveBytes {
 public:
  void add(const Event& event) {
    if (event.ended < trace::kUnknownObject) now_ -= size_of(event.ended);
    if (event.object == trace::kNoObject) return;
    sizes_.push_back(static_cast<std::uint32_t>(std::min<std::uint64_t>(event.size_bytes, kLarge)));
    if (event.size_bytes >= kLarge) large_[event.object] = event.size_bytes;
    now_ += event.size_bytes;
    total_ += static_cast<double>(event.size_bytes);
    if (now_ <= peak_) return;
    peak_ = now_;
    peak_time_ns_ = event.time_ns;
  }
  std::uint64_t now() const { return now_; }
  std::uint64_t peak() const { return peak_; }
  std::uint64_t peak_time_ns() const { return peak_time_ns_; }
  double total() const { return total_; }

 private:
  static constexpr std::uint32_t kLarge = ~std::uint32_t{0};

  std::uint64_t size_of(std::uint64_t object) const {
    return sizes_[object] == kLarge ? large_.at(object) : sizes_[object];
  }

  std::vector<std::uint32_t> sizes_;
  std::unordered_map<std::uint64_t, std::uint64_t> large_;
  std::uint64_t now_ = 0;
  std::uint64_t peak_ = 0;
  std::uint64_t peak_time_ns_ = 0;
  double total_ = 0;
};

struct Counts {
  std::array<std::uint64_t, trace::kOperations> by_operation{};
  std::uint64_t failed = 0;
  std::uint64_t unknown = 0;
  std::uint64_t with_stack = 0;
  std::uint64_t begins = 0;

  void add(const Event& event) {
    ++by_operation[static_cast<unsigned>(event.operation)];
    if (event.ended == trace::kUnknownObject) ++unknown;
    if (!begins_object(event.operation)) return;
    ++begins;
    if (event.object == trace::kNoObject) ++failed;
    if (event.stack != 0) ++with_stack;
  }
};

std::string bytes(double value) { return brief(Quantity::kBytes, value); }

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
  LiveBytes live;
  Counts counts;
  for (Event event; trace.next(event);) {
    live.add(event);
    counts.add(event);
  }
  std::string text;
  const auto line = [&](const char* name, const std::string& value) {
    if (!value.empty()) text += fmt::format("{:<12}{}\n", name, value);
  };
  line("trace", trace.name());
  line("command", trace::property(trace.process(), "command"));
  line("process", trace::property(trace.process(), "pid"));
  line("allocator", trace::property(trace.process(), "allocator"));
  const auto file_bytes = static_cast<double>(trace.bytes());
  std::string events =
      fmt::format("{} in {:.3f} s, by {} thread{}; {} in the file", trace.events(),
                  static_cast<double>(trace.time_ns()) * 1e-9, trace.thread_count(),
                  trace.thread_count() == 1 ? "" : "s", bytes(file_bytes));
  if (trace.events() != 0) {
    events += fmt::format(", {:.2f} bytes each", file_bytes / static_cast<double>(trace.events()));
  }
  line("events", events);
  std::string calls;
  for (unsigned i = 0; i < trace::kOperations; ++i) {
    if (counts.by_operation[i] == 0) continue;
    calls += fmt::format("{}{} {}", calls.empty() ? "" : ", ",
                         trace::operation_name(static_cast<Operation>(i)), counts.by_operation[i]);
  }
  line("calls", calls);
  line("objects",
       fmt::format("{}, of {}; {} live at the end, {}", trace.objects(), bytes(live.total()),
                   trace.live_objects(), bytes(static_cast<double>(live.now()))));
  line("peak",
       fmt::format("{} live, {:.3f} s from the start", bytes(static_cast<double>(live.peak())),
                   static_cast<double>(live.peak_time_ns()) * 1e-9));
  line("stacks", trace.stacks().size() == 1 || counts.begins == 0
                     ? "none"
                     : fmt::format("for {:.1f}% of the allocations; {} different frames",
                                   100 * static_cast<double>(counts.with_stack) /
                                       static_cast<double>(counts.begins),
                                   trace.stacks().size() - 1));
  const auto count_line = [&](const char* name, std::uint64_t count, const char* meaning) {
    if (count != 0) line(name, fmt::format("{} {}", count, meaning));
  };
  count_line("failed", counts.failed, "calls that found no memory");
  count_line("unknown", counts.unknown, "frees of objects whose allocation was not recorded");
  count_line("dropped", trace.dropped_events(), "calls are missing: the disk was slower");
  if (const std::string cpu_ns = trace::property(trace.ending(), "writer_cpu_ns");
      !cpu_ns.empty()) {
    line("recorder", fmt::format("{:.3f} s of CPU time in its own thread",
                                 std::strtod(cpu_ns.c_str(), nullptr) * 1e-9));
  }
  line("ended", ending_of(trace));
  return text;
}

TraceBeginning beginning_of(const std::filesystem::path& trace) {
  TraceBeginning beginning;
  try {
    trace::Reader reader(trace.string());
    Event event;
    beginning.has_no_events = !reader.next(event);
    beginning.process = reader.process();
  } catch (const trace::TraceError&) {
  }
  return beginning;
}

}  // namespace strata::cli
