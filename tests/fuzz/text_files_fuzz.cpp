// Small texts that people and programs write: sizes files, the plan and the findings of a cell,
// numbers on the command line.
#include <stdexcept>
#include <string>
#include <vector>

#include "input/arguments.h"
#include "input/usage_error.h"
#include "input_file.h"
#include "shared/cell_plan.h"
#include "shared/findings.h"
#include "shared/sizes.h"

namespace {

using namespace strata;
using fuzz::require;

void read_sizes(std::string_view text) {
  const fuzz::InputFile file(text);
  try {
    cell::Sizes sizes(file.path(), 64);
    require(sizes.smallest() >= 1 && sizes.smallest() <= sizes.largest(), "sizes have a range");
    constexpr double kRounding = 1e-9;
    require(sizes.mean() >= sizes.smallest() * (1 - kRounding) &&
                sizes.mean() <= sizes.largest() * (1 + kRounding),
            "the mean lies in it");
    std::mt19937_64 random(1);
    for (int i = 0; i < 20; ++i) {
      const std::uint32_t drawn = sizes.draw(random);
      require(drawn >= sizes.smallest() && drawn <= sizes.largest(), "and so does what is drawn");
    }
  } catch (const std::runtime_error& error) {
    require(std::string_view(error.what()).find(file.path()) != std::string_view::npos,
            "an error names the file");
  }
}

/// Reads a plan whose words are the lines of the text.
void read_plan(std::string_view text) {
  std::vector<std::string> words;
  for (std::size_t end = 0; end != std::string_view::npos;) {
    end = text.find('\n');
    words.emplace_back(text.substr(0, end));
    if (end != std::string_view::npos) text.remove_prefix(end + 1);
  }
  try {
    const cell::CellPlan plan = cell::CellPlan::from_words(words);
    require(cell::CellPlan::from_words(plan.words()) == plan, "a plan comes back from its words");
  } catch (const std::invalid_argument&) {
  }
}

template <typename Parse>
void refuses_or(Parse parse) {
  try {
    parse();
  } catch (const cli::UsageError& error) {
    require(std::string_view(error.what()).find("--it") != std::string_view::npos,
            "an error names the option");
  }
}

}  // namespace

STRATA_FUZZ(choices) {
  const std::size_t kind = choices.below(4);
  const std::string_view text = choices.rest();
  if (kind == 0) return read_sizes(text);
  if (kind == 1) {
    cell::parse_findings(text);
    return;
  }
  if (kind == 2) return read_plan(text);
  refuses_or([&] {
    const std::int64_t n = cli::parse_count("--it", text, -5, 1'000'000);
    require(n >= -5 && n <= 1'000'000, "a number is in range");
  });
  refuses_or([&] {
    const std::int64_t n = cli::parse_size("--it", text, 1, std::int64_t{1} << 40);
    require(n >= 1 && n <= std::int64_t{1} << 40, "a size is in range");
  });
  refuses_or([&] { require(cli::parse_seconds("--it", text) >= 0, "time goes on"); });
  refuses_or([&] {
    const double share = cli::parse_share("--it", text);
    require(share >= 0 && share <= 1, "a share is one");
  });
  refuses_or([&] { cli::split_list("--it", text); });
  refuses_or([&] {
    std::string joined;
    for (const std::string& name : cli::split_names("--it", text)) joined += name + ',';
    require(joined == std::string(text) + ',', "names are parts of the text");
  });
  try {
    const auto [name, value] = cli::parse_setting("--set", text);
    require(name.starts_with("STRATA_"), "a setting is the library's");
  } catch (const cli::UsageError&) {
  }
}
