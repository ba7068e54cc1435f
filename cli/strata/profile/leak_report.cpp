#include "profile/leak_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "input/usage_error.h"
#include "output/text.h"

namespace strata::cli {
namespace {

std::size_t kind_or_refuse(const Profile& profile, const char* type) {
  const std::size_t kind = profile.find_kind(type);
  if (kind == Profile::kNone) {
    throw UsageError(fmt::format("'{}' is not a heap profile: it has no {}", profile.name, type));
  }
  return kind;
}

}  // namespace

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
