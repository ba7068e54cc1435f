#include "profile/sites.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "output/units.h"

namespace strata::cli {
namespace {

using SiteMap = std::unordered_map<std::string, SiteSums>;

void add_samples(const Profile& profile, std::size_t kind, std::int64_t sign, SiteMap& sites) {
  for (const Profile::Sample& sample : profile.samples) {
    const std::int64_t value = sign * sample.values[kind];
    if (value == 0) continue;
    const Line* innermost = nullptr;
    SiteSums* flat = nullptr;
    std::unordered_set<const SiteSums*> counted;  // counts a recursive function once
    for (std::size_t location : sample.locations) {
      for (const Line& line : profile.locations[location].lines) {
        if (innermost == nullptr) innermost = &line;
        if (is_library_function(line.function)) continue;
        SiteSums& site = sites[line.text()];
        site.line = line;
        if (flat == nullptr) flat = &site;
        if (counted.insert(&site).second) site.cumulative += value;
      }
    }
    if (flat == nullptr) {  // library code only: charge its own line
      const Line line = innermost == nullptr ? Line{"unknown caller", "", 0} : *innermost;
      flat = &sites[line.text()];
      flat->line = line;
      flat->cumulative += value;
    }
    flat->flat += value;
  }
}

}  // namespace

std::vector<SiteSums> sum_sites(const Profile& profile, std::size_t kind, const Profile* older,
                                std::size_t older_kind) {
  SiteMap map;
  add_samples(profile, kind, 1, map);
  if (older != nullptr) add_samples(*older, older_kind, -1, map);
  std::vector<SiteSums> sites;
  for (auto& [text, site] : map) {
    if (site.flat != 0 || site.cumulative != 0) sites.push_back(std::move(site));
  }
  std::ranges::sort(sites, [](const SiteSums& a, const SiteSums& b) {
    if (a.flat != b.flat) {
      const bool is_equal = std::abs(a.flat) == std::abs(b.flat);
      return is_equal ? a.flat > b.flat : std::abs(a.flat) > std::abs(b.flat);
    }
    if (a.cumulative != b.cumulative) return std::abs(a.cumulative) > std::abs(b.cumulative);
    return a.line.text() < b.line.text();
  });
  return sites;
}

bool is_library_function(std::string_view name) {
  for (std::string_view prefix : {"std::", "__gnu_cxx::", "operator new", "__gnu_debug::"}) {
    if (name.starts_with(prefix)) return true;
  }
  for (std::string_view function :
       {"malloc", "calloc", "realloc", "strdup", "strndup", "_start", "__libc_start_main_impl",
        "__libc_start_call_main", "start_thread", "reallocarray", "aligned_alloc",
        "posix_memalign"}) {
    if (name == function) return true;
  }
  return false;
}

std::string amount(std::int64_t value, const std::string& unit, bool is_growth) {
  const std::string sign = value < 0 ? "-" : is_growth && value > 0 ? "+" : "";
  const auto bits = static_cast<std::uint64_t>(value);
  const std::uint64_t size = value < 0 ? -bits : bits;
  return sign + (unit == "bytes" ? bytes_text(size) : std::to_string(size));
}

}  // namespace strata::cli
