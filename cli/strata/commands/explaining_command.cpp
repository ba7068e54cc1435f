#include "commands/explaining_command.h"

#include <fmt/format.h>

#include "input/usage_error.h"

namespace strata::cli {

ExplainingCommand::ExplainingCommand(CLI::App& app, const char* name, const char* description,
                                     const char* examples)
    : Command(app, name, description, examples) {
  add_words(files_, "FILE", "A trace that strata record wrote");
}

void ExplainingCommand::add_reading_options() {
  add_option("--skip", skip_, "NAME,...",
             "Functions to look past, such as a program's wrappers of malloc");
  add_library_option(library_, "Use this libstrata.so as strata");
  add_flag("--quiet", is_quiet_, "No progress");
}

const std::string& ExplainingCommand::trace_file() const {
  if (files_.empty()) throw UsageError("name a trace; to make one: strata record -- ...");
  if (files_.size() > 1) throw UsageError("one trace at a time");
  return files_.front();
}

ExplainingCommand::Explained ExplainingCommand::read_trace(Progress& progress) const {
  return {trace_file(),
          is_given("--skip") ? split_names("--skip", skip_) : std::vector<std::string>(),
          [&](std::uint64_t events) {
            progress.step(fmt::format("reading: {:.0f} million calls ...",
                                      static_cast<double>(events) / 1e6));
          }};
}

void ExplainingCommand::expect_events(const Explanation& explanation, const char* purpose) const {
  if (explanation.events() != 0) return;
  throw UsageError(fmt::format("'{}' has no events to {}", trace_file(), purpose));
}

}  // namespace strata::cli
