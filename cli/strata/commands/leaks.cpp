#include "commands/leaks.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "input/usage_error.h"
#include "output/say.h"
#include "output/whole_file.h"
#include "process/removed_if_interrupted.h"
#include "process/run_beside.h"
#include "process/temporary_folder.h"
#include "profile/leak_report.h"
#include "profile/symbols.h"

namespace strata::cli {
namespace {

// Chosen: what a person reads. A kept profile has all stacks.
constexpr std::size_t kMostStacks = 50;

namespace fs = std::filesystem;

/// A profile written by the command or a program that it started.
struct WrittenProfile {
  explicit WrittenProfile(const fs::path& written)
      // A program with heaps beside another malloc writes the heaps' profile separately.
      : file(written), is_of_heaps(written.stem().extension() == ".heaps") {
    process = (is_of_heaps ? file.stem().stem() : file.stem()).string();
  }

  fs::path file;
  bool is_of_heaps;
  std::string process;
};

void report_file(const WrittenProfile& written) {
  try {
    Profile profile = read_profile(written.file.string());
    warn_of(symbolise(profile));
    say("{}", leak_report(profile,
                          fmt::format("{} (process {}{})", profile.program(), written.process,
                                      written.is_of_heaps ? ", its heaps" : ""),
                          kMostStacks));
  } catch (const UsageError& error) {
    say("strata: warning: {}\n", error.what());
  }
}

/// A profile to keep, and its final path.
struct Kept {
  std::string path;
  std::string contents;
};

/// Nothing if the profile cannot be read: the user's existing file is worth more.
std::optional<Kept> keep(const WrittenProfile& written, fs::path to) {
  if (written.is_of_heaps) {
    const std::string name = to.filename().string();
    const std::size_t dot = std::min(name.find('.', 1), name.size());
    to.replace_filename(name.substr(0, dot) + ".heaps" + name.substr(dot));
  }
  std::ostringstream contents;
  std::ifstream file(written.file, std::ios::binary);
  if (!file.is_open() || !(contents << file.rdbuf())) {
    say("strata: warning: could not read '{}'\n", written.file.string());
    return {};
  }
  return Kept{name_for_process(fs::absolute(to).string(), written.process),
              std::move(contents).str()};
}

void write(const Kept& kept) {
  try {
    WholeFile file("--profile", kept.path);
    write_whole(file, kept.contents);
  } catch (const std::exception& error) {
    say("strata: warning: {}\n", error.what());
  }
}

/// \param profile  where to keep profiles; empty: nowhere. Without %p in the name, only the
///                 command's own profile is kept.
/// \returns  The profiles to keep.
std::vector<Kept> report_all(TemporaryFolder& folder, const ProcessResult& result,
                             const std::string& command, const std::string& profile) {
  SignalWatch signals;
  std::vector<fs::path> files;
  std::vector<Kept> kept;
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    if (entry.path().extension() == ".pb") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  const std::string first = std::to_string(result.process);
  bool has_first = false;
  for (const fs::path& file : files) {
    end_if_interrupted(signals, folder);
    const WrittenProfile written(file);
    has_first |= written.process == first && !written.is_of_heaps;
    report_file(written);
    if (profile.empty()) continue;
    if (written.process == first || profile.find("%p") != std::string::npos) {
      if (std::optional<Kept> one = keep(written, profile)) kept.push_back(*std::move(one));
    }
  }
  end_if_interrupted(signals, folder);
  if (has_first) return kept;
  say("strata: warning: what is live in '{}' is not known: it is reported at normal exit, "
      "but the program ended otherwise or without Strata ({})\n",
      command, describe_end(result, 0));
  return kept;
}

}  // namespace

int run_for_leaks(ProcessPlan plan, const std::string& profile) {
  std::optional<TemporaryFolder> folder;
  std::vector<Kept> kept;
  RunMoments moments;
  moments.before_start = [&] {
    folder.emplace("strata-leaks");
    plan.environment.set("STRATA_PROFILE", folder->file("%p.pb"));
    plan.environment.set("STRATA_PROFILE_RATE", "1");  // exact counts, not estimates
  };
  moments.at_end = [&](const ProcessResult& end) {
    if (end.end != ProcessResult::End::kNotStarted) {
      kept = report_all(*folder, end, plan.arguments.front(), profile);
    }
    folder.reset();
  };
  const ProcessResult result = run_beside(plan, moments);
  // Signals are unblocked by now, because opening a pipe may wait for its reader.
  for (const Kept& one : kept) write(one);
  if (result.end == ProcessResult::End::kKilled) die_by_signal(result.code);
  return result.code;
}

}  // namespace strata::cli
