// Heap profiles as pprof writes them, compressed or not: each reference leads somewhere, and the
// reports add up whatever the numbers are.
#include "choices.h"
#include "input/usage_error.h"
#include "profile/leak_report.h"
#include "profile/profile.h"
#include "profile/sites.h"

STRATA_FUZZ(choices) {
  using namespace strata::cli;
  using strata::fuzz::require;
  try {
    const Profile profile = parse_profile("input", choices.rest());
    for (const Profile::Sample& sample : profile.samples) {
      require(sample.values.size() == profile.kinds.size(), "a value for each kind");
      for (const std::size_t location : sample.locations)
        require(location < profile.locations.size(), "stacks are known");
    }
    for (const Profile::Location& location : profile.locations)
      require(location.mapping == Profile::kNone || location.mapping < profile.mappings.size(),
              "mappings are known");
    require(profile.kinds.empty() || profile.default_kind < profile.kinds.size(),
            "the default is one of the kinds");
    for (std::size_t kind = 0; kind < profile.kinds.size(); ++kind)
      sum_sites(profile, kind, &profile, kind);
    leak_report(profile, "program", 3);
  } catch (const UsageError& error) {
    require(std::string_view(error.what()).find("input") != std::string_view::npos ||
                std::string_view(error.what()).find("profile") != std::string_view::npos,
            "an error names what it is about");
  }
}
