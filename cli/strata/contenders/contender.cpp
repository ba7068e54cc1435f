#include "contenders/contender.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "contenders/library_search.h"
#include "contenders/peers.h"
#include "input/arguments.h"
#include "input/usage_error.h"

namespace strata::cli {
namespace {

bool is_name(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
    return c > ' ' && c != 0x7f && c != '/';
  });
}

/// Makes a path absolute, because the command may change its folder before it starts others.
std::string absolute(const std::string& path) {
  return std::filesystem::absolute(path).lexically_normal().string();
}

bool has_name(const std::vector<Contender>& contenders, const std::string& name) {
  return std::ranges::find(contenders, name, &Contender::name) != contenders.end();
}

}  // namespace

std::vector<std::string> known_contenders() {
  std::vector<std::string> names = {kSystem, kStrata};
  for (const Peer& peer : peers()) names.emplace_back(peer.name);
  return names;
}

Contender parse_contender(const std::string& text, const std::string& strata_library) {
  std::size_t equals = text.find('=');
  if (equals != std::string::npos) {
    std::string name = text.substr(0, equals);
    std::string path = text.substr(equals + 1);
    if (!is_name(name) || path.empty()) {
      throw UsageError(
          fmt::format("allocator '{}' is not name=/path/to/lib.so; give both sides", text));
    }
    return {name, absolute(path), {}};
  }
  if (text == kSystem) return {kSystem, {}, {}};
  if (text == kStrata) {
    return {kStrata, strata_library.empty() ? find_strata() : absolute(strata_library), {}};
  }
  for (const Peer& peer : peers()) {
    if (peer.name != text) continue;
    std::string library = find_peer(peer, library_folders());
    if (library.empty()) {
      throw UsageError(fmt::format(
          "{} is not on this machine; install it (Debian: apt install {}), or give its path: "
          "{}=/path/to/{}",
          text, peer.debian_package, text, peer.libraries[0]));
    }
    return {text, library, {}};
  }
  throw UsageError(fmt::format(
      "unknown allocator '{}'; known are {}; or give name=/path/to/lib.so; pools and heaps "
      "take part in strata bench alone",
      text, fmt::join(known_contenders(), ", ")));
}

bool names_strata(std::string_view name) { return name.substr(0, name.find(' ')) == kStrata; }

void add_named(std::vector<Contender>& contenders, Contender contender) {
  if (has_name(contenders, contender.name)) {
    throw UsageError(
        fmt::format("allocator '{}' is given twice; to compare two libraries, give them two names",
                    contender.name));
  }
  contenders.push_back(std::move(contender));
}

void add_group(std::vector<Contender>& contenders, std::vector<Contender> group) {
  for (Contender& contender : group) {
    if (!has_name(contenders, contender.name)) contenders.push_back(std::move(contender));
  }
}

void expect_use_of(const std::string& strata_library, const std::vector<Contender>& contenders) {
  const auto is_it = [&](const Contender& contender) {
    return contender.name == kStrata && contender.library == absolute(strata_library);
  };
  if (strata_library.empty() || std::ranges::any_of(contenders, is_it)) return;
  throw UsageError("--library has no effect: it is for the allocator 'strata', which is not named");
}

std::vector<Contender> parse_contenders(const std::string& list,
                                        const std::string& strata_library) {
  std::vector<Contender> contenders;
  for (const std::string& text : split_list("--allocators", list)) {
    if (text == kGeneral) {
      add_group(contenders, default_contenders(strata_library));
    } else {
      add_named(contenders, parse_contender(text, strata_library));
    }
  }
  expect_use_of(strata_library, contenders);
  return contenders;
}

std::vector<Contender> default_contenders(const std::string& strata_library) {
  std::vector<Contender> contenders = {{kSystem, {}, {}}, parse_contender(kStrata, strata_library)};
  std::vector<std::string> folders = library_folders();
  for (const Peer& peer : peers()) {
    std::string library = find_peer(peer, folders);
    if (!library.empty()) contenders.push_back({std::string(peer.name), library, {}});
  }
  return contenders;
}

}  // namespace strata::cli
