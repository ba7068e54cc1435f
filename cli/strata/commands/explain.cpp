#include <fmt/format.h>

#include <cstdio>
#include <optional>

#include "bench/catalogue.h"
#include "bench/run_cells.h"
#include "commands/explaining_command.h"
#include "explain/address_map.h"
#include "explain/explain_page.h"
#include "explain/explain_text.h"
#include "input/read_file.h"
#include "input/usage_error.h"
#include "output/progress.h"
#include "output/say.h"
#include "output/table.h"
#include "output/whole_file.h"
#include "process/removed_if_interrupted.h"
#include "process/temporary_folder.h"
#include "replay/replay.h"
#include "report/gnuplot.h"

namespace strata::cli {
namespace {

constexpr const char* kExplainExamples = R"(Examples:
  strata record -o app.trace -- ./app
  strata explain app.trace
  strata explain app.trace -o app.html --map system,strata
  strata explain app.trace --skip xmalloc,xrealloc

A place is the innermost line of the stack outside the C and C++ libraries; --skip names a program's own
wrappers of malloc. --map replays the calls up to the peak under each allocator, and shows on the page
how full the OS pages are.)";

class ExplainCommand final : public ExplainingCommand {
 public:
  explicit ExplainCommand(CLI::App& app)
      : ExplainingCommand(app, "explain", "Say what a recorded program does with memory",
                          kExplainExamples) {
    add_option("-o,--output", output_, "FILE", "Write a page here (- for standard output)");
    add_option("--png", pictures_, "DIR", "Also write the plots as pictures into this folder");
    add_option("--map", map_, "A,B,...", "Show the OS pages at the peak under these allocators");
    add_option("--top", top_, "N", "How many places to list (default 20; 0: all)");
    add_option("--title", title_, "TEXT", "The page's title");
    add_reading_options();
  }

  int execute(const CommandLine&) override {
    trace_file();  // refuse bad names before reading or writing
    const auto top = static_cast<std::size_t>(parse_count("--top", top_, 0, 1'000'000));
    const bool wants_page = is_given("--output");
    for (const char* const option : {"--map", "--title"}) {
      if (wants_page || !is_given(option)) continue;
      throw UsageError(fmt::format("{} is for the page; give -o FILE", option));
    }
    std::vector<Contender> contenders;
    if (is_given("--map")) contenders = parse_contenders(map_, library());
    expect_use_of(library(), contenders);
    for (const Contender& contender : contenders) check_preload(contender);
    if (!contenders.empty()) refuse_pipe(trace_file());
    std::optional<WholeFile> page;
    if (wants_page) page.emplace("-o", output_, std::vector{trace_file()});
    if (is_given("--png")) make_picture_folder(pictures_, page);
    if (wants_page) expect_gnuplot();

    Progress progress(!is_quiet());
    const Explained explained = read_trace(progress);
    const Explanation& explanation = explained.explanation;
    expect_events(explanation, "explain");
    const std::vector<AddressMap> maps = make_maps(contenders, explanation, progress);
    progress.clear();
    if (!page || !page->is_standard_output()) {
      // A failure here is reported at the end; the page is still made.
      std::fputs(
          explain_text(explanation, top, wants_colour(stdout), terminal_columns(stdout)).c_str(),
          stdout);
    }
    warn_of(explanation.places().notes());
    if (page) write_whole(*page, explain_page(explanation, maps, page_title()).to_html());
    if (is_given("--png")) {
      write_pictures(explain_plots(explanation), explain_styles(), pictures_);
    }
    return 0;
  }

 private:
  std::string page_title() const { return title_.empty() ? "Memory of " + trace_file() : title_; }

  std::vector<AddressMap> make_maps(const std::vector<Contender>& contenders,
                                    const Explanation& explanation, Progress& progress) const {
    std::vector<AddressMap> maps;
    if (contenders.empty()) return maps;
    const Catalogue catalogue = read_catalogue();
    SignalWatch signals;
    TemporaryFolder folder("strata-explain");
    PlanOptions until_peak;
    until_peak.until_event = explanation.history().peak_event();
    const Planned planned =
        write_plan(trace_file(), folder.file("plan"), until_peak, [&](double share) {
          progress.step(fmt::format("planning: {:.0f}% ...", 100 * share));
          end_if_interrupted(signals, folder);
        });
    ReplayOptions options;
    options.map = folder.file("map");
    BenchPlan plan;
    plan.catalogue = &catalogue;
    plan.runs = 1;
    plan.cells = {replay_cell(plan, planned, options)};
    for (const Contender& contender : contenders) {
      plan.contenders = {contender};
      progress.step(fmt::format("replaying under {} ...", contender.name));
      const BenchOutcome outcome = run_cells(plan, signals, {});
      end_if_interrupted(signals, folder);
      if (!outcome.rows.front().ok) {
        throw std::runtime_error(fmt::format("the replay under {} failed: {}", contender.name,
                                             outcome.rows.front().reason));
      }
      maps.emplace_back(contender.name, options.map);
    }
    return maps;
  }

  std::string output_;
  std::string pictures_;
  std::string map_;
  std::string top_ = "20";
  std::string title_;
};

}  // namespace

std::unique_ptr<Command> make_explain_command(CLI::App& app) {
  return std::make_unique<ExplainCommand>(app);
}

}  // namespace strata::cli
