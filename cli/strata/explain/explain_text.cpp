#include "explain/explain_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "output/table.h"
#include "output/text.h"
#include "output/units.h"

namespace strata::cli {
namespace {

std::string head(const Explanation& explanation) {
  const trace::Reader& reader = explanation.history().reader();
  const Moment& live = explanation.history().live();
  const std::uint64_t deaths = explanation.births() - live.objects;
  std::uint64_t temporaries = 0;
  std::uint64_t reallocs = 0;
  std::uint64_t foreign_deaths = 0;
  for (const PlaceSums& place : explanation.sums()) {
    temporaries += place.temporaries;
    reallocs += place.reallocs;
    foreign_deaths += place.foreign_deaths;
  }
  std::string text;
  const std::string command = trace::property(reader.process(), "command");
  if (!command.empty()) text += command + "\n";
  text += fmt::format("{}: {}, {} in all\n", calls_text(explanation),
                      counted_briefly(explanation.births(), "object"),
                      bytes_text(explanation.allocated_bytes()));
  const Moment& peak = explanation.peak();
  text += fmt::format("Peak: {} in {}, after {}\n", bytes_text(peak.bytes),
                      counted_briefly(peak.objects, "object"),
                      time_text(static_cast<double>(peak.time_ns) * 1e-9));
  text += fmt::format("Never freed: {} in {}\n", bytes_text(live.bytes),
                      counted_briefly(live.objects, "object"));
  text += fmt::format("Temporaries, freed before their thread allocated again: {} of those freed\n",
                      format_percent(share_of(temporaries, deaths)));
  text += fmt::format("Freed by another thread: {} of those freed\n",
                      format_percent(share_of(foreign_deaths, deaths)));
  if (reallocs > 0) text += fmt::format("Resized: {}\n", counted_briefly(reallocs, "time"));
  if (explanation.failures() > 0) {
    text += fmt::format("Refused: {}\n", counted_briefly(explanation.failures(), "allocation"));
  }
  if (reader.dropped_events() > 0) {
    text += fmt::format("The recorder dropped {} calls: the numbers are too small\n",
                        reader.dropped_events());
  }
  if (reader.is_cut()) text += "The recording ends before the program did\n";
  return text;
}

}  // namespace

double share_of(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

std::string calls_text(const Explanation& explanation) {
  const std::size_t threads = explanation.history().reader().thread_count();
  return fmt::format("{} of {} in {}", counted_briefly(explanation.events(), "call"),
                     counted_briefly(threads, "thread"),
                     time_text(static_cast<double>(explanation.duration_ns()) * 1e-9));
}

std::string life_text(std::size_t bucket) {
  if (bucket == LifeScale::kNever) return "never";
  if (bucket + 1 < LifeScale::kBuckets) {
    return fmt::format("<{}", time_text(LifeScale::upper_s(bucket)));
  }
  // there is no bucket above it
  return fmt::format("≥{}", time_text(LifeScale::upper_s(bucket - 1)));
}

std::string typical_life(const LifeCounts& lives) {
  const std::uint64_t all = std::accumulate(lives.begin(), lives.end(), std::uint64_t{0});
  if (all == 0) return {};
  std::uint64_t below = 0;
  std::size_t bucket = 0;
  while (bucket < LifeScale::kBuckets && 2 * (below += lives[bucket]) < all) ++bucket;
  return life_text(bucket);
}

std::vector<std::size_t> places_by_peak(const Explanation& explanation) {
  const std::vector<PlaceSums>& sums = explanation.sums();
  std::vector<std::size_t> order(sums.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t place) {
    return std::pair(sums[place].at_peak_bytes, sums[place].bytes);
  });
  return order;
}

std::string explain_text(const Explanation& explanation, std::size_t most_places, bool colour,
                         std::optional<std::size_t> width) {
  std::string text = head(explanation);
  const std::vector<std::size_t> order = places_by_peak(explanation);
  Table table({{"what holds the peak", false},
               {"at peak"},
               {"objects"},
               {"allocated"},
               {"calls"},
               {"size"},
               {"lives"},
               {"temporary"},
               {"never freed"}});
  const std::size_t count = most_places == 0 ? order.size() : std::min(most_places, order.size());
  for (std::size_t i = 0; i < count; ++i) {
    const PlaceSums& place = explanation.sums()[order[i]];
    table.add_row(
        {explanation.places().names()[order[i]].line.short_text(), bytes_text(place.at_peak_bytes),
         count_text(place.at_peak), bytes_text(place.bytes), count_text(place.births),
         place.smallest == place.largest
             ? bytes_text(place.largest)
             : fmt::format("~{}", bytes_text(static_cast<std::uint64_t>(place.mean_bytes()))),
         typical_life(place.lives), format_percent(share_of(place.temporaries, place.deaths)),
         bytes_text(place.live_bytes)});
  }
  text += fmt::format("\n{}", table.to_text(colour, width));
  if (count < order.size()) {
    text += fmt::format("{}; --top 0 shows all\n", counted(order.size() - count, "more place"));
  }
  return with_plain_spaces(text);
}

}  // namespace strata::cli
