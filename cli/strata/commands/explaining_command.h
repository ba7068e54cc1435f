#pragma once

#include <string>
#include <utility>
#include <vector>

#include "commands/command.h"
#include "explain/explanation.h"
#include "output/progress.h"

namespace strata::cli {

/// A command that explains one trace. Owns the trace's name and the options for reading it.
class ExplainingCommand : public Command {
 public:
  const char* synopsis() const override { return "FILE [options]"; }

 protected:
  /// A trace, fully read.
  struct Explained {
    Explained(const std::string& file, std::vector<std::string> skipped, const OnEvents& on_events)
        : reader(file), history(reader), explanation(history, std::move(skipped), on_events) {}

    trace::Reader reader;
    History history;
    Explanation explanation;
  };

  ExplainingCommand(CLI::App& app, const char* name, const char* description, const char* examples);
  /// Call it after adding the command's own options, so that the help lists those first.
  void add_reading_options();

  /// \errors  UsageError unless exactly one was given.
  const std::string& trace_file() const;
  const std::string& library() const noexcept { return library_; }
  bool is_quiet() const noexcept { return is_quiet_; }

  /// \errors  TraceError
  Explained read_trace(Progress& progress) const;
  /// \errors  UsageError if the trace has no events; `purpose` says what needs them.
  void expect_events(const Explanation& explanation, const char* purpose) const;

 private:
  std::vector<std::string> files_;
  std::string skip_;
  std::string library_;
  bool is_quiet_ = false;
};

}  // namespace strata::cli
