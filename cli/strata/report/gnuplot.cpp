#include "report/gnuplot.h"

#include <fmt/format.h>
#include <string.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string_view>

#include "input/usage_error.h"
#include "output/whole_file.h"
#include "process/output_capture.h"
#include "process/program.h"
#include "process/removed_if_interrupted.h"
#include "process/run_process.h"
#include "process/temporary_folder.h"
#include "report/gnuplot_script.h"
#include "report/svg.h"

namespace strata::cli {
namespace {

namespace fs = std::filesystem;

/// A hundred plots take a second or two.
constexpr double kTimeoutSeconds = 120;

std::string find_gnuplot() {
  try {
    return find_program("gnuplot");
  } catch (const UsageError&) {
    throw std::runtime_error(
        "gnuplot draws the plots and is not installed; on Debian: apt-get install gnuplot-nox");
  }
}

std::string contents_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// gnuplot reports no failed write.
bool is_whole(std::string_view drawing, Medium medium) {
  return medium == Medium::kSvg ? drawing.find("</svg>") != std::string_view::npos
                                : drawing.ends_with(std::string_view("IEND\xae\x42\x60\x82"));
}

/// Draws all plots in one run of gnuplot.
/// \returns  What gnuplot wrote, by plot.
std::vector<std::string> run_gnuplot(const std::vector<Plot>& plots,
                                     const std::vector<SeriesStyle>& styles, Medium medium) {
  SignalWatch signals;  // blocks signals while the folder exists
  TemporaryFolder folder("strata-report");
  std::string script = "set encoding utf8\n";
  for (const Plot& plot : plots) {
    script += gnuplot_script(plot, styles, medium, folder.file(plot.id));
  }
  std::string file = folder.file("plots.gp");
  std::ofstream(file) << script;
  OutputCapture output;
  ProcessPlan plan;
  plan.program = find_gnuplot();
  plan.arguments = {"gnuplot", "--default-settings", file};
  plan.environment = Environment::inherited();
  plan.environment.set("LC_ALL", "C.UTF-8");
  plan.output_fd = output.fd();
  plan.timeout_s = kTimeoutSeconds;
  const ProcessResult result = run_process(plan, signals);
  end_if_interrupted(signals, folder);
  if (!result.succeeded()) {
    throw std::runtime_error(fmt::format("gnuplot could not draw the plots ({}): {}",
                                         describe_end(result, kTimeoutSeconds), output.tail(3)));
  }
  std::vector<std::string> drawings;
  for (const Plot& plot : plots) {
    drawings.push_back(contents_of(folder.file(plot.id)));
    if (is_whole(drawings.back(), medium)) continue;
    throw std::runtime_error(fmt::format("gnuplot produced no {} {}; is there room in '{}'?",
                                         medium == Medium::kSvg ? "SVG for" : "picture of", plot.id,
                                         folder.path()));
  }
  return drawings;
}

}  // namespace

Drawings draw(const std::vector<Plot>& plots, const std::vector<SeriesStyle>& styles) {
  Drawings drawings;
  if (plots.empty()) return drawings;
  const std::vector<std::string> drawn = run_gnuplot(plots, styles, Medium::kSvg);
  drawings.shapes = shape_definitions(drawn.front());
  for (std::size_t i = 0; i < plots.size(); ++i) {
    drawings.svgs.push_back(tidy_svg(drawn[i], plots[i]));
  }
  return drawings;
}

void expect_gnuplot() { find_gnuplot(); }

void make_picture_folder(const std::string& folder, const std::optional<WholeFile>& page) {
  if (folder.empty()) throw UsageError("--png names no folder; give a path");
  for (fs::path part = (fs::path(folder) / "").parent_path(); page && part.has_relative_path();
       part = part.parent_path()) {
    if (!page->is_same_as(part.string())) continue;
    throw UsageError(
        fmt::format("'{}' cannot be both the page of -o and a folder of --png; give one of them "
                    "another name",
                    part.string()));
  }
  expect_gnuplot();
  std::error_code error;
  fs::create_directories(folder, error);
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) {
    throw UsageError(
        fmt::format("--png cannot make the folder '{}': {}; give one that you may write", folder,
                    error ? error.message() : "there is a file of that name"));
  }
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    throw UsageError(
        fmt::format("--png cannot write into the folder '{}': {}; give one that you may write",
                    folder, ::strerror(errno)));
  }
}

void write_pictures(const std::vector<Plot>& plots, const std::vector<SeriesStyle>& styles,
                    const std::string& folder) {
  if (plots.empty()) return;
  const std::vector<std::string> pictures = run_gnuplot(plots, styles, Medium::kPng);
  for (std::size_t i = 0; i < plots.size(); ++i) {
    WholeFile file("--png", fs::path(folder) / (plots[i].id + ".png"));
    write_whole(file, pictures[i]);
  }
}

}  // namespace strata::cli
