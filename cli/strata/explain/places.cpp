#include "explain/places.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "output/text.h"
#include "profile/sites.h"

namespace strata::cli {

std::vector<std::string> Places::notes() const {
  std::vector<std::string> notes = files_.notes();
  for (const std::string& name : skipped_) {
    const auto has_it = [&](const auto& entry) {
      return std::ranges::find(entry.second, name, &Line::function) != entry.second.end();
    };
    if (std::ranges::any_of(lines_, has_it)) continue;
    notes.push_back(
        fmt::format("--skip {} has no effect: no call comes from a function of that name", name));
  }
  return notes;
}

std::vector<bool> Places::stacks_of(std::uint32_t place) const {
  std::vector<bool> stacks(known_.size());
  for (std::size_t i = 0; i < known_.size(); ++i) stacks[i] = known_[i] == place;
  return stacks;
}

std::uint32_t Places::find(std::uint32_t stack) {
  if (known_.size() <= stack) known_.resize(stack + 1, kUnknown);
  PlaceName name;
  Line instead{kNoStack, "", 0};
  for (std::uint32_t node = stack; node != 0; node = reader_.stacks()[node].parent) {
    const std::string library = standard_library_of(node);
    if (node == stack && !library.empty()) instead.function = library;
    if (!library.empty()) continue;
    for (const Line& line : lines_of(node)) {
      if (is_passed_over(line)) {
        // A library template instantiated for the program tells more than the library's name.
        if (line.function.starts_with("std::") && !instead.function.starts_with("std::")) {
          instead = line;
        }
      } else {
        name.line = line;
        break;
      }
    }
    if (!name.line.function.empty()) break;
  }
  if (name.line.function.empty()) name.line = instead;
  const auto [entry, is_new] =
      numbers_.try_emplace(name.line.text(), static_cast<std::uint32_t>(names_.size()));
  if (is_new) names_.push_back(std::move(name));
  return known_[stack] = entry->second;
}

void Places::add_callers(std::uint32_t place, std::uint32_t stack, double share) {
  std::vector<Line> found;
  bool is_beyond_place = false;
  for (std::uint32_t node = stack; node != 0 && found.size() < kMostCallers;
       node = reader_.stacks()[node].parent) {
    if (!standard_library_of(node).empty()) continue;
    for (const Line& line : lines_of(node)) {
      if (is_passed_over(line)) continue;
      if (is_beyond_place && found.size() < kMostCallers) found.push_back(line);
      is_beyond_place = true;
    }
  }
  if (found.empty()) return;
  std::vector<PlaceName::Callers>& callers = names_[place].callers;
  const auto same = std::ranges::find(callers, found, &PlaceName::Callers::lines);
  if (same == callers.end()) {
    callers.push_back({std::move(found), share});
  } else {
    same->share += share;
  }
}

/// \returns  The file's name if it is the C or C++ library or the dynamic linker, else nothing.
std::string Places::standard_library_of(std::uint32_t node) const {
  const std::uint32_t module = reader_.module_of(node);
  if (module == trace::Reader::kNoModule) return {};
  std::string file = std::filesystem::path(reader_.modules()[module].path).filename().string();
  for (const std::string_view library : {"libc.so", "libstdc++.so", "libc++.so", "libc++abi.so",
                                         "ld-linux", "ld-musl", "libpthread.so", "libgcc_s.so"}) {
    if (file.starts_with(library)) return file;
  }
  return {};
}

bool Places::is_passed_over(const Line& line) const {
  return is_library_function(line.function) ||
         std::ranges::find(skipped_, line.function) != skipped_.end();
}

const std::vector<Line>& Places::lines_of(std::uint32_t node) {
  // The call is the instruction before the return address.
  const std::uint64_t address = reader_.stacks()[node].return_address - 1;
  const std::uint32_t module = reader_.module_of(node);
  const auto [entry, is_new] = lines_.try_emplace({address, module});
  if (is_new) entry->second = look_up(address, module);
  return entry->second;
}

std::vector<Line> Places::look_up(std::uint64_t address, std::uint32_t number) {
  if (number == trace::Reader::kNoModule) return {{fmt::format("{:#x}", address), "", 0}};
  const trace::Module& module = reader_.modules()[number];
  return files_.lines_at(replaced(module.path, "\\012", "\n"), module.build_id,
                         address - module.start + module.offset);
}

}  // namespace strata::cli
