#include "process/environment.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>

#include "output/text.h"
#include "process/elf_file.h"

namespace strata::cli {
namespace {

constexpr const char* kPreload = "LD_PRELOAD";

/// The entries of a list like LD_PRELOAD, in which the dynamic linker accepts colons and blanks.
std::vector<std::string> libraries_in(std::string list) {
  std::ranges::replace(list, ':', ' ');
  std::istringstream entries(list);
  return {std::istream_iterator<std::string>(entries), {}};
}

/// Resolves an inherited entry of LD_PRELOAD. Only the dynamic linker can resolve names without a
/// slash, $LIB and the like; it has preloaded the entry into this process, too.
/// \returns  Empty if it found no such file; it has then reported that.
std::string preloaded_file(const std::string& entry) {
  const bool is_path = entry.find('/') != std::string::npos && entry.find('$') == std::string::npos;
  if (is_path) return entry;
  void* const library = ::dlopen(entry.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return {};
  const link_map* loaded = nullptr;
  ::dlinfo(library, RTLD_DI_LINKMAP, &loaded);
  std::string file = loaded != nullptr ? loaded->l_name : "";
  ::dlclose(library);
  return file;
}

}  // namespace

Environment Environment::inherited() {
  Environment environment;
  for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry) {
    std::string_view text(*entry);
    std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    // Like getenv, keep the first of two equal names.
    environment.variables_.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

Environment Environment::with_allocator(const std::string& library) {
  Environment environment = inherited();
  environment.drop_preloaded_allocators();
  if (!library.empty()) environment.preload(library);
  return environment;
}

std::string Environment::get(const std::string& name) const {
  auto found = variables_.find(name);
  return found == variables_.end() ? std::string() : found->second;
}

void Environment::preload(const std::string& library) {
  std::string present = get(kPreload);
  set(kPreload, present.empty() ? library : library + ":" + present);
}

void Environment::drop_preloaded_allocators() {
  std::string kept;
  for (const std::string& library : libraries_in(get(kPreload))) {
    const std::string file = preloaded_file(library);
    if (!file.empty() && !ElfFile(file).defines("malloc")) append_item(kept, library, ":");
  }
  if (kept.empty()) {
    variables_.erase(kPreload);
  } else {
    set(kPreload, kept);
  }
}

std::vector<std::string> Environment::entries() const {
  std::vector<std::string> result;
  for (const auto& [name, value] : variables_) result.push_back(name + "=" + value);
  return result;
}

std::string preloaded_everywhere(const std::string& list) {
  std::ifstream file(list);
  for (std::string line; std::getline(file, line);) {
    for (const std::string& entry : libraries_in(line.substr(0, line.find('#')))) {
      const std::string library = preloaded_file(entry);
      if (ElfFile(library).defines("malloc")) return library;
    }
  }
  return {};
}

}  // namespace strata::cli
