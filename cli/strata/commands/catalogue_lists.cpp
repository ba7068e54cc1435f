#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "commands/result_tables.h"
#include "contenders/contender.h"
#include "contenders/library_search.h"
#include "contenders/peers.h"
#include "output/table.h"
#include "output/text.h"

namespace strata::cli {
namespace {

void print_title(std::string_view text) {
  fmt::print("{}\n", styled(text, Style::kBold, wants_colour(stdout)));
}

/// Prints a name and, beside it or in a narrow terminal below it, a sentence.
void print_entry(std::string_view name, std::string_view sentence) {
  constexpr std::size_t kBeside = 28;
  constexpr std::size_t kBelow = 6;
  constexpr std::size_t kLeastRoom = 30;
  const std::size_t columns = terminal_columns(stdout).value_or(std::string::npos);
  const bool is_beside = columns >= kBeside + kLeastRoom;
  const std::string indent(is_beside ? kBeside : kBelow, ' ');
  std::string before = is_beside ? fmt::format("  {:<{}}", name, kBeside - 2)
                                 : fmt::format("  {}\n{}", name, indent);
  for (const std::string& part :
       wrapped(sentence, std::max(columns, kBelow + kLeastRoom) - indent.size())) {
    fmt::print("{}{}\n", before, part);
    before = indent;
  }
}

}  // namespace

void print_scenarios(const std::vector<const cell::Scenario*>& scenarios) {
  for (const cell::Scenario* scenario : scenarios) {
    print_title(scenario->name);
    fmt::print("  {}\n", scenario->purpose);
    if (!scenario->origin.empty()) fmt::print("  Origin: {}\n", scenario->origin);
    for (const cell::Option& option : scenario->options) {
      fmt::print("  --{}{}{}\n      {}{}{}\n", option.name, option.is_flag() ? "" : " ",
                 option.is_flag() ? "" : option.value_name(), option.sentence,
                 option.is_flag() ? "" : "; ", option.range());
    }
    if (!scenario->takes_threads) fmt::print("  --threads has no effect on it.\n");
    if (!scenario->takes_seconds) fmt::print("  --seconds has no effect on it.\n");
    fmt::print("\n");
  }
}

void print_catalogue(const Catalogue& catalogue) {
  print_title("Scenarios");
  for (const cell::Scenario& scenario : catalogue.scenarios) {
    print_entry(scenario.name, scenario.purpose);
  }
  fmt::print("\n");
  print_title("Allocators, preloaded, for every scenario");
  print_entry(kSystem, "the malloc of the C library");
  print_entry(kStrata, "the malloc of this project");
  const std::vector<std::string> folders = library_folders();
  for (const Peer& peer : peers()) {
    const bool is_here = !find_peer(peer, folders).empty();
    print_entry(peer.name, is_here ? std::string(peer.sentence)
                                   : fmt::format("{}; not on this machine: apt install {}",
                                                 peer.sentence, peer.debian_package));
  }
  for (const auto& [kind, text] :
       {std::pair{cell::Fits::kBlocks, "Pools, blocks of one size (group: pools)"},
        std::pair{cell::Fits::kHeaps, "Heaps, any size (group: heaps)"}}) {
    fmt::print("\n");
    print_title(text);
    for (const cell::InProcessContender& contender : catalogue.contenders) {
      if (contender.kind == kind) print_entry(contender.name, contender.sentence);
    }
    fmt::print("  for:");
    for (const cell::Scenario& scenario : catalogue.scenarios) {
      if (scenario.fits == cell::Fits::kAll || scenario.fits == kind)
        fmt::print(" {}", scenario.name);
    }
    fmt::print("\n");
  }
}

}  // namespace strata::cli
