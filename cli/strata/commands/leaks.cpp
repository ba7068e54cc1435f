#include "commands/leaks.h"

#include <fmt/format.h>
#include <string.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "input/usage_error.h"
#include "process/run_beside.h"
#include "process/temporary_folder.h"
#include "profile/sites.h"
#include "profile/symbols.h"

namespace strata::cli {
namespace {

// Chosen: what a person reads; a kept profile has all of them.
constexpr std::size_t kMostStacks = 50;

void report_file(const std::filesystem::path& file) {
  try {
    Profile profile = read_profile(file.string());
    for (const std::string& note : symbolise(profile)) {
      fmt::print(stderr, "strata: warning: {}\n", note);
    }
    // What has heaps beside another's malloc writes their profile apart.
    const bool is_of_heaps = file.stem().extension() == ".heaps";
    const std::string process = (is_of_heaps ? file.stem().stem() : file.stem()).string();
    fmt::print(stderr, "{}",
               leak_report(profile,
                           fmt::format("{} (process {}{})", profile.program(), process,
                                       is_of_heaps ? ", its heaps" : ""),
                           kMostStacks));
  } catch (const UsageError& error) {
    fmt::print(stderr, "strata: warning: {}\n", error.what());
  }
}

void report_all(const TemporaryFolder& folder, const BesideResult& result,
                const std::string& command) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    if (entry.path().extension() == ".pb") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const std::filesystem::path& file : files) report_file(file);
  if (std::filesystem::exists(folder.file(fmt::format("{}.pb", result.process)))) return;
  ProcessResult end;
  end.end = result.end;
  end.code = result.code;
  fmt::print(stderr,
             "strata: warning: what is live in '{}' is not known: it is reported at normal exit, "
             "but the program ended otherwise or without Strata ({})\n",
             command, describe_end(end, 0));
}

}  // namespace

int run_for_leaks(ProcessPlan plan, const std::string& profile) {
  TemporaryFolder folder("strata-leaks");
  plan.environment.set("STRATA_PROFILE", folder.file("%p.pb"));
  plan.environment.set("STRATA_PROFILE_RATE", "1");  // counted, not estimated
  const BesideResult result = run_beside(plan);
  if (result.end == ProcessResult::End::kNotStarted) {
    throw UsageError(fmt::format("could not start '{}': {}", plan.program, ::strerror(result.code)),
                     126);
  }
  report_all(folder, result, plan.arguments.front());
  if (!profile.empty()) {
    std::string path = profile;
    for (std::size_t at; (at = path.find("%p")) != std::string::npos;) {
      path.replace(at, 2, std::to_string(result.process));
    }
    std::error_code error;
    std::filesystem::copy_file(folder.file(fmt::format("{}.pb", result.process)), path,
                               std::filesystem::copy_options::overwrite_existing, error);
    if (error) {
      fmt::print(stderr, "strata: warning: the profile '{}' could not be written: {}\n", path,
                 error.message());
    }
  }
  if (result.end == ProcessResult::End::kKilled) {
    folder.remove();
    die_by_signal(result.code);
  }
  return result.code;
}

}  // namespace strata::cli
