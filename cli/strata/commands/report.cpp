#include <fmt/format.h>

#include <optional>
#include <string_view>
#include <utility>

#include "commands/command.h"
#include "input/read_file.h"
#include "input/usage_error.h"
#include "output/whole_file.h"
#include "process/removed_if_interrupted.h"
#include "profile/profile.h"
#include "profile/symbols.h"
#include "report/flame_graph.h"
#include "report/gnuplot.h"
#include "report/results_report.h"
#include "shared/trace/file_kind.h"

namespace strata::cli {
namespace {

constexpr const char* kReportExamples = R"(Examples:
  strata report results.json -o report.html
  strata report before.json after.json -o report.html --png plots --title "Before and after"
  strata report heap.pb.gz -o heap.html

The page is one file that needs no network. Rows of several files that did the same are shown side
by side; their labels, or the files' names, tell them apart. gnuplot draws the plots. A heap profile
becomes a flame graph.)";

/// Recognizes a profile by its content, not its name.
/// \returns  Nothing for results.
/// \errors   UsageError, which names the file, if it is neither.
std::optional<Profile> profile_in(const std::string& path, std::string_view text) {
  const FileKind kind = file_kind_of(text);
  if (kind == FileKind::kResults || kind == FileKind::kOtherJson) return {};
  return parse_profile(path, text,
                       "neither a result file, which --json writes, nor a heap profile");
}

class ReportCommand final : public Command {
 public:
  explicit ReportCommand(CLI::App& app)
      : Command(app, "report", "Make a page from result files or from a heap profile",
                kReportExamples) {
    add_words(files_, "RESULTS.json", "Result files, written by --json of another command");
    add_option("-o,--output", output_, "FILE", "Write the page here (- for standard output)");
    add_option("--png", pictures_, "DIR", "Also write each plot as a picture into this folder");
    add_option("--title", title_, "TEXT", "Title of the page (default: what was measured)");
  }

  const char* synopsis() const override { return "[options] RESULTS.json..."; }

  int execute(const CommandLine&) override {
    if (files_.empty()) throw UsageError("no results given; name at least one file");
    bool wants_page = is_given("--output");
    bool wants_pictures = is_given("--png");
    if (!wants_page && !wants_pictures) {
      throw UsageError(
          "nothing to write; give -o FILE for the page, --png DIR for pictures, or both");
    }
    if (is_given("--title") && !wants_page) {
      throw UsageError("--title is for the page; give -o FILE");
    }
    ReportData data;
    for (const std::string& path : files_) {
      const std::string text = read_file(path);
      if (std::optional<Profile> profile = profile_in(path, text)) {
        return report_profile(path, *std::move(profile), wants_pictures);
      }
      data.add(path, text);
    }
    ResultsReport report(std::move(data));
    std::optional<WholeFile> page;
    if (wants_page) page.emplace("-o", output_, files_);
    if (wants_pictures) make_picture_folder(pictures_, page);
    std::vector<Plot> plots = report.plots();
    if (page) {
      const std::string title = title_.empty() ? report.default_title() : title_;
      write_whole(*page, report.page(title, draw(plots, report.styles())).to_html());
    }
    if (wants_pictures) write_pictures(plots, report.styles(), pictures_);
    return 0;
  }

 private:
  int report_profile(const std::string& path, Profile profile, bool wants_pictures) const {
    if (files_.size() > 1) {
      throw UsageError(fmt::format(
          "'{}' is a heap profile, which makes a page of its own; 'strata profile --diff' compares",
          path));
    }
    if (wants_pictures) throw UsageError("--png is for results; a heap profile has no plots");
    WholeFile page("-o", output_, files_);
    const std::vector<std::string> notes = symbolise(profile);
    write_whole(page, flame_page(profile, title_, notes).to_html());
    return 0;
  }

  std::vector<std::string> files_;
  std::string output_;
  std::string pictures_;
  std::string title_;
};

}  // namespace

std::unique_ptr<Command> make_report_command(CLI::App& app) {
  return std::make_unique<ReportCommand>(app);
}

}  // namespace strata::cli
