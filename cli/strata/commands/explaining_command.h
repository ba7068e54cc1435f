#pragma once

#include <string>
#include <utility>
#include <vector>

#include "commands/command.h"
#include "explain/explanation.h"
#include "output/progress.h"

namespace strata::cli {

/// A command that reads one trace and tells what it says: its file, and the options for reading.
class ExplainingCommand : public Command {
 public:
  const char* synopsis() const override { return "FILE [options]"; }

 protected:
  /// A trace, read to its end.
  struct Explained {
    Explained(const std::string& file, std::vector<std::string> skipped, const Advance& advance)
        : reader(file), history(reader), explanation(history, std::move(skipped), advance) {}

    trace::Reader reader;
    History history;
    Explanation explanation;
  };

  ExplainingCommand(CLI::App& app, const char* name, const char* description, const char* examples);
  /// To be called after the command's own options, so that the help lists those first.
  void add_reading_options();

  /// \errors  UsageError if none was given, or more than one.
  const std::string& trace_file() const;
  const std::string& library() const noexcept { return library_; }
  bool is_quiet() const noexcept { return is_quiet_; }

  /// \errors  TraceError
  Explained read_trace(Progress& progress) const;
  /// \errors  UsageError if the trace has no events; `purpose` says what they are wanted for.
  void expect_events(const Explanation& explanation, const char* purpose) const;

 private:
  std::vector<std::string> files_;
  std::string skip_;
  std::string library_;
  bool is_quiet_ = false;
};

}  // namespace strata::cli
