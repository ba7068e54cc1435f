#include <fmt/format.h>
#include <gnu/libc-version.h>

#include <filesystem>
#include <map>
#include <sstream>

#include "contenders/contender.h"
#include "contenders/library_search.h"
#include "input/usage_error.h"
#include "process/elf_file.h"
#include "process/program.h"
#include "process/run_process.h"

namespace strata::cli {
namespace {

/// The answer of dpkg-query; empty on a machine without it.
std::string ask_packages(std::vector<std::string> arguments) {
  try {
    std::string program = find_program("dpkg-query");
    arguments.insert(arguments.begin(), "dpkg-query");
    return ask_program(program, std::move(arguments), Environment::inherited());
  } catch (const UsageError&) {
    return {};
  }
}

/// Parses lines "libjemalloc2:amd64: /usr/lib/…/libjemalloc.so.2" into {path: package}.
std::map<std::string, std::string> packages_of(const std::vector<std::string>& files) {
  std::map<std::string, std::string> packages;
  if (files.empty()) return packages;
  std::vector<std::string> arguments = {"--search"};
  arguments.insert(arguments.end(), files.begin(), files.end());
  std::istringstream answer(ask_packages(arguments));
  for (std::string line; std::getline(answer, line);) {
    std::size_t separator = line.find(": /");
    if (separator == std::string::npos) continue;
    packages[line.substr(separator + 2)] = line.substr(0, separator);
  }
  return packages;
}

std::string canonical(const std::string& path) {
  std::error_code ignored;
  std::string result = std::filesystem::canonical(path, ignored).string();
  return result.empty() ? path : result;
}

bool is_our_own(const std::string& library) {
  try {
    return canonical(library) == canonical(find_strata());
  } catch (const UsageError&) {
    return false;
  }
}

}  // namespace

void find_versions(std::vector<Contender>& contenders) {
  std::vector<std::string> packaged;
  for (Contender& contender : contenders) {
    if (contender.is_in_process) continue;
    if (contender.library.empty()) {
      contender.version = fmt::format("glibc {}", ::gnu_get_libc_version());
    } else if (is_our_own(contender.library)) {
      contender.version = STRATA_VERSION;
    } else {
      contender.version = ElfFile(contender.library).soname;
      std::string file = canonical(contender.library);
      if (file.starts_with("/usr/") || file.starts_with("/lib")) packaged.push_back(file);
    }
  }
  for (const auto& [file, package] : packages_of(packaged)) {
    std::string version = ask_packages({"--show", "--showformat=${Version}", package});
    for (Contender& contender : contenders) {
      if (!version.empty() && canonical(contender.library) == file) contender.version = version;
    }
  }
}

}  // namespace strata::cli
