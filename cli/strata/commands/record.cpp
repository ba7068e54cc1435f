#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <system_error>

#include "commands/command.h"
#include "commands/earlier_traces.h"
#include "contenders/contender.h"
#include "input/arguments.h"
#include "input/usage_error.h"
#include "output/say.h"
#include "output/text.h"
#include "output/units.h"
#include "output/whole_file.h"
#include "process/program.h"
#include "process/run_beside.h"
#include "shared/record_settings.h"

namespace strata::cli {
namespace {

namespace settings = record_settings;
namespace fs = std::filesystem;

constexpr const char* kRecordExamples = R"(Examples:
  strata record -- python3 app.py                     (then: strata trace info trace.strata)
  strata record -o build.strata -- g++ -c big.cpp     (the programs that it starts: build.strata.PID)
  strata record --stacks off --allocator jemalloc -- ./server
  strata record --after 10 --for 5 -- ./server
  strata record --on-signal USR2 -- ./server          (kill -USR2 PID starts it, and a second one ends it)

The command keeps its allocator, or gets the one that --allocator names. Each process writes its own
trace: the first to FILE, the others to FILE.PID; %p in FILE stands for the process ID. Traces of an
earlier recording to FILE are replaced once the command has started; those of others stay.
If the disk is slower than the command, the command waits; with --drop, calls are lost instead.)";

/// The command of the process that wrote the trace, shortened for a terminal line.
std::string command_of(const fs::path& path) {
  constexpr std::size_t kMostBytes = 60;
  const std::string command = trace::property(beginning_of(path).process, "command");
  if (command.empty()) return "";
  return fmt::format(" ({}{})", head_of(command, kMostBytes),
                     command.size() > kMostBytes ? "…" : "");
}

/// \param given        FILE as the user named it
/// \param files        the traces
/// \param why_nothing  what to report if no trace has an event; empty if only the command can know
void tell(const fs::path& file, const std::vector<fs::path>& files, const fs::path& given,
          const std::string& command, const std::string& why_nothing) {
  std::error_code error;
  if (fs::exists(file, error) && !fs::is_regular_file(file, error)) return;  // a device or a pipe
  if (files.empty()) {
    say("strata record: '{}' wrote no trace\n", command);
    return;
  }
  std::uintmax_t bytes = 0;
  const fs::path* largest = &files.front();
  for (const fs::path& path : files) {
    bytes += fs::file_size(path, error);
    if (fs::file_size(path, error) > fs::file_size(*largest, error)) largest = &path;
  }
  if (!why_nothing.empty() &&
      std::ranges::all_of(files, &TraceBeginning::has_no_events, beginning_of)) {
    say("strata record: nothing was recorded: {}\n", why_nothing);
    return;
  }
  const std::string size = bytes_text(bytes);
  const std::string name = (given.parent_path() / largest->filename()).string();
  if (files.size() == 1) {
    say("strata record: {} in '{}'\n", size, name);
    return;
  }
  say("strata record: {} in {} traces; most in '{}'{}\n", size, files.size(), name,
      command_of(*largest));
}

/// The traces of one process where the name has %p: FILE, and FILE.2 and so on if it became another
/// program. Those of its children are not known.
std::vector<fs::path> traces_of_process(const fs::path& file) {
  std::vector<fs::path> traces;
  std::error_code ignored;
  fs::path next = file;
  for (int program = 2; fs::exists(next, ignored); ++program) {
    traces.push_back(next);
    next = file.string() + "." + std::to_string(program);
  }
  return traces;
}

class RecordCommand final : public Command {
 public:
  explicit RecordCommand(CLI::App& app)
      : Command(app, "record", "Record every allocation call of a command", kRecordExamples) {
    add_option("-o,--output", output_, "FILE", "Write the trace here (default trace.strata)");
    add_option(
        "--stacks", stacks_, "N",
        "Take the innermost N frames of each call's stack (default 64, at most 128), or off");
    add_option("--allocator", allocator_, "NAME[=FILE]",
               "Record above this allocator (default: the command's own)");
    add_option("--after", after_, "SECONDS", "Start recording this long after the command starts");
    add_option("--for", for_, "SECONDS", "Stop recording after this long");
    add_option("--on-signal", signal_, "NAME",
               "Start recording at this signal, and stop at the next one");
    add_flag("--drop", drops_, "Lose calls rather than make the command wait for the disk");
  }

  int execute(const CommandLine& line) override {
    const std::vector<std::string>& command = measured_command(line);
    expect_trace_or_nothing(output_);
    expect_writable("-o", output_);
    std::error_code ignored;
    const bool is_special = fs::exists(output_, ignored) && !fs::is_regular_file(output_, ignored);
    const fs::path file = is_special ? fs::absolute(output_) : behind_links(output_);
    ProcessPlan plan;
    plan.environment = Environment::inherited();
    plan.program = find_program(command.front());
    plan.arguments = command;
    if (const std::string why = why_not_preloadable(plan.program); !why.empty()) {
      throw UsageError(fmt::format("'{}' cannot be recorded: it {}", command.front(), why));
    }
    warn_of_own_malloc(plan.program, command.front());
    set_settings(plan.environment, file);
    set_libraries(plan.environment);
    return run(plan, file);
  }

 private:
  void set_settings(Environment& environment, const fs::path& file) const {
    environment.set(settings::kFile, file.string());
    environment.set(settings::kStacks, stacks_ == "off" ? "0" : frames());
    const auto set_ms = [&](const char* name, const char* option, const std::string& text) {
      const double seconds = is_given(option) ? parse_seconds(option, text) : 0;
      environment.set(name, std::to_string(std::llround(seconds * 1000)));
      return seconds;
    };
    set_ms(settings::kAfterMs, "--after", after_);
    if (set_ms(settings::kForMs, "--for", for_) < 0.001 && is_given("--for")) {
      throw UsageError("--for: at least a millisecond");
    }
    if (is_given("--on-signal") && is_given("--after")) {
      throw UsageError("--after and --on-signal both say when to start; give one of them");
    }
    environment.set(settings::kSignal, std::to_string(toggling_signal()));
    environment.set(settings::kDrop, drops_ ? "1" : "0");
  }

  /// The signal of --on-signal; 0 if none.
  int toggling_signal() const {
    return is_given("--on-signal") ? parse_signal("--on-signal", signal_) : 0;
  }

  std::string why_nothing() const {
    if (is_given("--after")) {
      return fmt::format("the command made no call after the {} seconds of --after", after_);
    }
    if (is_given("--on-signal")) {
      return fmt::format(
          "the signal {} of --on-signal did not come, or no call after it, "
          "or the program handles it itself",
          signal_);
    }
    return "";
  }

  std::string frames() const {
    try {
      return std::to_string(parse_count("--stacks", stacks_, 1, settings::kMostFrames));
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("{}, or off", error.what()));
    }
  }

  void set_libraries(Environment& environment) const {
    if (is_given("--allocator")) {
      environment.drop_preloaded_allocators();
      const Contender allocator = parse_contender(allocator_);
      if (!allocator.library.empty()) {
        check_preload(allocator);
        environment.preload(allocator.library);
      }
    }
    const Contender recorder{"the recorder", helper_path(settings::kLibrary), {}};
    check_preload(recorder);
    environment.preload(recorder.library);
  }

  int run(const ProcessPlan& plan, const fs::path& file) const {
    std::optional<EarlierTraces> earlier;
    RunMoments moments;
    moments.before_start = [&] { earlier.emplace(file); };
    moments.after_start = [&] { earlier->remove(); };
    moments.at_end = [&](const ProcessResult& end) {
      if (end.end == ProcessResult::End::kNotStarted) earlier.reset();
    };
    const ProcessResult result = run_beside(plan, moments, toggling_signal());
    const std::string process = std::to_string(result.process);
    const fs::path own = name_for_process(file.string(), process);
    std::vector<fs::path> traces = earlier->later_traces();
    if (own != file) traces = traces_of_process(own);
    tell(own, traces, name_for_process(output_, process), plan.arguments.front(), why_nothing());
    if (result.end == ProcessResult::End::kKilled) die_by_signal(result.code);
    return result.code;
  }

  std::string output_ = "trace.strata";
  std::string stacks_ = "64";
  std::string allocator_;
  std::string after_;
  std::string for_;
  std::string signal_;
  bool drops_ = false;
};

}  // namespace

std::unique_ptr<Command> make_record_command(CLI::App& app) {
  return std::make_unique<RecordCommand>(app);
}

}  // namespace strata::cli
