#include "profile/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "commands/command.h"
#include "input/usage_error.h"
#include "output/say.h"
#include "output/table.h"
#include "output/text.h"
#include "output/units.h"
#include "profile/sites.h"
#include "profile/symbols.h"

namespace strata::cli {
namespace {

constexpr const char* kProfileExamples = R"(Examples:
  strata run --profile app.pb.gz -- ./app
  strata profile app.pb.gz
  strata profile app.pb.gz --sample alloc_space --top 50
  strata profile later.pb.gz --diff earlier.pb.gz

Flat is what was allocated at the line itself; cumulative includes what it calls. Library code (std::,
operator new) counts for the line that called it. --diff subtracts an older profile: what has grown.)";

class ProfileCommand final : public Command {
 public:
  explicit ProfileCommand(CLI::App& app)
      : Command(app, "profile", "Show where a program's memory went, by place", kProfileExamples) {
    add_words(files_, "FILE", "A heap profile in pprof's format");
    add_option("--diff", older_, "OLDER", "Show the difference to this earlier profile");
    add_option("--sample", kind_, "KIND",
               "inuse_space (the default), inuse_objects, alloc_space or alloc_objects");
    add_option("--top", top_, "N", "How many places to show (default 30; 0: all)");
  }

  const char* synopsis() const override { return "FILE [options]"; }

  int execute(const CommandLine&) override {
    if (files_.size() != 1) {
      throw UsageError(files_.empty() ? "no profile given; name one file"
                                      : "one profile at a time; --diff OLDER compares two");
    }
    const auto top = static_cast<std::size_t>(parse_count("--top", top_, 0, 1'000'000));
    Profile profile = load(files_.front());
    const std::size_t kind = chosen_kind(profile);
    std::optional<Profile> older;
    if (is_given("--diff")) older = load(older_);
    print(profile, kind, older ? &*older : nullptr, top);
    return 0;
  }

 private:
  static Profile load(const std::string& path) {
    Profile profile = read_profile(path);
    warn_of(symbolise(profile));
    return profile;
  }

  std::size_t chosen_kind(const Profile& profile) const {
    if (!is_given("--sample")) return profile.default_kind;
    const std::size_t kind = profile.find_kind(kind_);
    if (kind != Profile::kNone) return kind;
    std::string known;
    for (const Profile::Kind& each : profile.kinds) append_item(known, each.type);
    throw UsageError(
        fmt::format("--sample '{}' is not in '{}', which has {}", kind_, profile.name, known));
  }

  static void print(const Profile& profile, std::size_t kind, const Profile* older,
                    std::size_t top) {
    const Profile::Kind& shown = profile.kinds[kind];
    std::size_t older_kind = 0;
    if (older != nullptr) {
      older_kind = older->find_kind(shown.type);
      if (older_kind == Profile::kNone) {
        throw UsageError(fmt::format("'{}' has no {} to compare with", older->name, shown.type));
      }
    }
    const std::vector<SiteSums> sites = sum_sites(profile, kind, older, older_kind);
    const bool is_growth = older != nullptr;
    std::int64_t total = 0;
    std::int64_t moved = 0;
    for (const SiteSums& site : sites) {
      total += site.flat;
      moved += std::abs(site.flat);
    }
    const std::string title = fmt::format(
        "{}{}: {}{}, {}\n", profile.program().empty() ? "" : profile.program() + ", ", shown.type,
        amount(total, shown.unit, is_growth),
        is_growth ? fmt::format(" since {}", older->name) : "",
        profile.period <= 1 ? "every allocation counted"
                            : fmt::format("estimated from samples, one per {} on average",
                                          bytes_text(static_cast<std::uint64_t>(profile.period))));
    fmt::print("{}", with_plain_spaces(title));
    Table table({{"where", false}, {"flat"}, {"share"}, {"cumulative"}, {"share"}});
    const bool colour = wants_colour(stdout);
    const std::size_t count = top == 0 ? sites.size() : std::min(top, sites.size());
    const auto share = [&](std::int64_t value) {
      return moved == 0 ? std::string()
                        : format_percent(static_cast<double>(value) / static_cast<double>(moved));
    };
    for (std::size_t i = 0; i < count; ++i) {
      const SiteSums& site = sites[i];
      table.add_row({site.line.short_text(), amount(site.flat, shown.unit, is_growth),
                     share(site.flat), amount(site.cumulative, shown.unit, is_growth),
                     share(site.cumulative)});
    }
    if (count > 0) fmt::print("{}", table.to_text(colour, terminal_columns(stdout)));
    if (sites.empty() && !is_growth) print_why_empty(profile, shown);
    if (count < sites.size()) {
      fmt::print("{}; --top 0 shows all\n", counted(sites.size() - count, "more place"));
    }
  }

  static void print_why_empty(const Profile& profile, const Profile::Kind& shown) {
    const std::size_t allocated = profile.find_kind("alloc_space");
    if (profile.samples.empty()) {
      fmt::print("{}\n", profile.period <= 1
                             ? "Nothing was allocated"
                             : "Nothing was sampled; a smaller --profile-rate of strata run "
                               "samples more, and 1 all");
    } else if (allocated != Profile::kNone && shown.type.starts_with("inuse_")) {
      fmt::print(
          "Nothing that was sampled is live; --sample alloc_space shows what was allocated\n");
    }
  }

  std::vector<std::string> files_;
  std::string older_;
  std::string kind_;
  std::string top_ = "30";
};

}  // namespace

std::unique_ptr<Command> make_profile_command(CLI::App& app) {
  return std::make_unique<ProfileCommand>(app);
}

}  // namespace strata::cli
