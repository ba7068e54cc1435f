#include <fmt/format.h>
#include <string.h>

#include <cerrno>
#include <cmath>
#include <fstream>
#include <memory>
#include <new>
#include <ostream>

#include "commands/command.h"
#include "commands/trace_info.h"
#include "input/read_file.h"
#include "input/usage_error.h"
#include "output/warnings.h"
#include "output/whole_file.h"
#include "process/removed_if_interrupted.h"
#include "shared/trace/csv.h"
#include "shared/trace/cut.h"

namespace strata::cli {
namespace {

constexpr const char* kDescription = "Look at a trace, cut it, convert it to CSV and back";
constexpr const char* kExamples = R"(Examples:
  strata trace info trace.strata
  strata trace cut trace.strata -o part.strata --after 2.5 --for 1
  strata trace csv trace.strata -o trace.csv
  strata trace csv other-tool.csv -o trace.strata

A part that is cut out counts time from its own start, and does not know objects from before. CSV has a
line for each call; docs/trace-format.md describes its columns.)";

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
  explicit TraceCommand(CLI::App& app) : Command(app, "trace", kDescription, kExamples) {
    add_words(words_, "ACTION FILE", "info, cut or csv, and the trace");
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
    fmt::print("{}", trace_info(reader));
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
