#include "profile/sites.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "input/usage_error.h"
#include "output/text.h"
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

std::size_t kind_or_refuse(const Profile& profile, const char* type) {
  const std::size_t kind = profile.find_kind(type);
  if (kind == Profile::kNone) {
    throw UsageError(fmt::format("'{}' is not a heap profile: it has no {}", profile.name, type));
  }
  return kind;
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

std::vector<StackSums> live_stacks(const Profile& profile) {
  const std::size_t bytes = kind_or_refuse(profile, "inuse_space");
  const std::size_t objects = kind_or_refuse(profile, "inuse_objects");
  std::map<std::string, StackSums> map;
  for (const Profile::Sample& sample : profile.samples) {
    if (sample.values[objects] == 0) continue;
    std::string key;
    std::vector<Line> lines;
    for (std::size_t location : sample.locations) {
      for (const Line& line : profile.locations[location].lines) {
        key += line.text() + '\n';
        lines.push_back(line);
      }
    }
    StackSums& stack = map[key];
    stack.lines = std::move(lines);
    stack.bytes += sample.values[bytes];
    stack.objects += sample.values[objects];
  }
  std::vector<StackSums> stacks;
  for (auto& [key, stack] : map) stacks.push_back(std::move(stack));
  std::ranges::stable_sort(stacks, std::greater(), &StackSums::bytes);
  return stacks;
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
  const auto size = static_cast<std::uint64_t>(std::abs(value));
  return sign + (unit == "bytes" ? bytes_text(size) : std::to_string(size));
}

std::string leak_report(const Profile& profile, const std::string& process, std::size_t most) {
  const std::vector<StackSums> stacks = live_stacks(profile);
  StackSums total;
  for (const StackSums& stack : stacks) {
    total.bytes += stack.bytes;
    total.objects += stack.objects;
  }
  const auto sums = [](const StackSums& stack) {
    return fmt::format("{} in {}", counted(stack.bytes, "byte"),
                       counted(stack.objects, "allocation"));
  };
  std::string text = fmt::format("strata: {} {} live at exit of {}{}\n", sums(total),
                                 total.objects == 1 ? "is" : "are", printable(process),
                                 stacks.empty() ? "" : ", from " + counted(stacks.size(), "place"));
  StackSums rest;
  for (std::size_t i = 0; i < stacks.size(); ++i) {
    if (i >= most) {
      rest.bytes += stacks[i].bytes;
      rest.objects += stacks[i].objects;
      continue;
    }
    text += fmt::format("strata: {} by\n", sums(stacks[i]));
    std::size_t number = 0;
    for (const Line& line : stacks[i].lines) {
      const std::string place = printable(line.place(false));
      text += fmt::format("    #{:<3}{}{}\n", number++, printable(line.function),
                          place.empty() ? "" : "  " + place);
    }
    if (number == 0) text += "    an unknown caller\n";
  }
  if (stacks.size() > most) {
    text += fmt::format("strata: {} from {}\n", sums(rest),
                        counted(stacks.size() - most, "other place"));
  }
  return text;
}

}  // namespace strata::cli
