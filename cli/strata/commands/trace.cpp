#include <fmt/format.h>
#include <string.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <new>
#include <ostream>

#include "commands/command.h"
#include "history/history.h"
#include "input/read_file.h"
#include "input/usage_error.h"
#include "output/say.h"
#include "output/text.h"
#include "output/units.h"
#include "output/whole_file.h"
#include "process/removed_if_interrupted.h"
#include "shared/trace/csv.h"
#include "shared/trace/cut.h"

namespace strata::cli {
namespace {

constexpr const char* kTraceExamples = R"(Examples:
  strata trace info trace.strata
  strata trace cut trace.strata -o part.strata --after 2.5 --for 1
  strata trace csv trace.strata -o trace.csv
  strata trace csv other-tool.csv -o trace.strata

A part that is cut out counts time from its own start, and does not know objects from before. CSV has a
line for each call; docs/trace-format.md describes its columns.)";

using trace::Event;

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
    return "unknown: the program was killed, or replaced itself by exec, or the disk was full, or "
           "a seccomp filter killed the recorder's thread";
  const std::string reason = trace::property(trace.ending(), "reason");
  if (reason == "exit") return "with the program";
  if (reason == "time") return "after the time given by --for";
  if (reason == "signal") return "by the signal given by --on-signal";
  return reason;
}

/// Summarizes a trace in some lines. Reads it to its end.
/// \errors  TraceError
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
    append_item(calls, fmt::format("{} {}", trace::kOperationNames[i], counts.by_operation[i]));
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

bool write_to(void* file, const void* bytes, std::size_t count) {
  return static_cast<WholeFile*>(file)->write({static_cast<const char*>(bytes), count});
}

/// Lets `fill` write a trace from `input`.
template <typename Fill>
void write_trace(const std::string& path, const std::string& input, Fill fill) {
  WholeFile file("-o", path, {input});
  const RemovedIfInterrupted guard(file);
  const auto writer = std::make_unique<trace::Writer>(write_to, &file);
  if (!writer->begin()) throw std::bad_alloc();
  fill(*writer);
  file.commit();
}

std::uint64_t nanoseconds(double seconds) {
  return static_cast<std::uint64_t>(std::llround(seconds * 1e9));
}

class TraceCommand final : public Command {
 public:
  explicit TraceCommand(CLI::App& app)
      : Command(app, "trace", "Look at a trace, cut it, convert it to CSV and back",
                kTraceExamples) {
    add_words(words_, "ACTION", "info, cut or csv, then the trace");
    add_option("-o,--output", output_, "FILE", "Write here (csv: standard output if not given)");
    add_option("--after", after_, "SECONDS",
               "cut: where the part begins, from the start of the trace");
    add_option("--for", for_, "SECONDS", "cut: how long the part is");
  }

  const char* synopsis() const override { return "info|cut|csv FILE [options]"; }

  int execute(const CommandLine&) override {
    if (words_.empty()) throw UsageError("name an action: info, cut or csv");
    const std::string& action = words_.front();
    if (action != "info" && action != "cut" && action != "csv") {
      throw UsageError(
          fmt::format("unknown action '{}'; the actions are info, cut and csv", action));
    }
    if (words_.size() != 2) {
      throw UsageError(
          fmt::format("name one trace, as in: strata trace {} {}", action, "trace.strata"));
    }
    if (action != "cut" && (is_given("--after") || is_given("--for"))) {
      throw UsageError(fmt::format("--after and --for are for 'cut', not for '{}'", action));
    }
    if (action == "info") return info(words_[1]);
    return action == "cut" ? cut(words_[1]) : csv(words_[1]);
  }

 private:
  int info(const std::string& path) const {
    if (is_given("--output")) throw UsageError("-o has no effect on 'info'");
    trace::Reader reader(path);
    fmt::print("{}", with_plain_spaces(trace_info(reader)));
    return 0;
  }

  int cut(const std::string& path) const {
    if (output_.empty()) throw UsageError("name the new trace with -o FILE");
    if (!is_given("--after") && !is_given("--for")) {
      throw UsageError("name the part: give --after SECONDS, --for SECONDS, or both");
    }
    const double after = is_given("--after") ? parse_seconds("--after", after_) : 0;
    const std::uint64_t from = nanoseconds(after);
    const std::uint64_t until =
        is_given("--for") ? nanoseconds(after + parse_seconds("--for", for_)) : trace::kNoObject;
    trace::Reader reader(path);
    write_trace(output_, path, [&](trace::Writer& out) {
      trace::cut(reader, out, from, until);
      if (out.events() == 0) {
        throw UsageError(fmt::format("that part of '{}' has no events", path));
      }
    });
    return 0;
  }

  int csv(const std::string& path) const {
    std::ifstream in(path, std::ios::binary);  // read once: it may be a pipe
    const int first = in.peek();
    if (!in.is_open() || in.bad()) {
      throw UsageError(fmt::format("could not read '{}': {}", path, ::strerror(errno)));
    }
    if (first != static_cast<unsigned char>(trace::kFileMagic[0])) {
      if (output_.empty()) throw UsageError("name the new trace with -o FILE");
      write_trace(output_, path, [&](trace::Writer& out) {
        trace::read_csv(path, in, out, [&](const std::string& column) {
          warn_of(
              {fmt::format("'{}' has a column '{}', which is ignored: a trace has none of that "
                           "name (docs/trace-format.md)",
                           path, column)});
        });
      });
      return 0;
    }
    refuse_pipe(path);
    trace::Reader reader(path);
    WholeFile file("-o", output_.empty() ? "-" : output_, {path});
    const RemovedIfInterrupted guard(file);
    std::ostream out(&file);
    trace::write_csv(reader, out);
    file.commit();
    return 0;
  }

  std::vector<std::string> words_;
  std::string output_;
  std::string after_;
  std::string for_;
};

}  // namespace

std::unique_ptr<Command> make_trace_command(CLI::App& app) {
  return std::make_unique<TraceCommand>(app);
}

}  // namespace strata::cli
