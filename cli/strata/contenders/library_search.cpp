#include "contenders/library_search.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>
#include <string.h>

#include <filesystem>
#include <fstream>
#include <system_error>

#include "input/usage_error.h"
#include "process/run_process.h"

namespace strata::cli {
namespace {

namespace fs = std::filesystem;

void append_linker_folders(std::vector<std::string>& folders) {
  void* self = ::dlopen(nullptr, RTLD_LAZY);
  Dl_serinfo size{};
  if (self == nullptr || ::dlinfo(self, RTLD_DI_SERINFOSIZE, &size) != 0) return;
  std::vector<std::max_align_t> memory(size.dls_size / sizeof(std::max_align_t) + 1);
  auto* info = reinterpret_cast<Dl_serinfo*>(memory.data());
  info->dls_size = size.dls_size;
  info->dls_cnt = size.dls_cnt;
  if (::dlinfo(self, RTLD_DI_SERINFO, info) == 0) {
    const Dl_serpath* paths = info->dls_serpath;
    for (unsigned i = 0; i < info->dls_cnt; ++i) folders.emplace_back(paths[i].dls_name);
  }
  ::dlclose(self);
}

void append_configured_folders(std::vector<std::string>& folders) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/etc/ld.so.conf.d", ignored)) {
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with('/')) folders.push_back(line.substr(0, line.find_first_of(" \t\r")));
    }
  }
}

}  // namespace

std::vector<std::string> library_folders() {
  std::vector<std::string> folders;
  append_linker_folders(folders);
  append_configured_folders(folders);
  return folders;
}

std::string find_library(std::string_view name, const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) {
    std::string newest;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
      std::string file = entry.path().filename();
      bool is_it =
          file.starts_with(name) && (file.size() == name.size() || file[name.size()] == '.');
      if (!is_it || entry.is_directory(ignored)) continue;
      // Compares versions by number: .so.10 is newer than .so.9. Skips debugger scripts and
      // archives with the same prefix ("libx.so.2-gdb.py"), whose names contain other characters.
      bool is_version = file.find_first_not_of("0123456789.", name.size()) == std::string::npos;
      if (is_version && (newest.empty() || ::strverscmp(file.c_str(), newest.c_str()) > 0)) {
        newest = file;
      }
    }
    if (!newest.empty()) return (fs::path(folder) / newest).string();
  }
  return {};
}

std::string find_strata() {
  const fs::path prefix = fs::path(own_path()).parent_path().parent_path();
  std::vector<std::string> candidates;
  for (const char* folder : {"lib", "lib/" STRATA_LIBRARY_ARCHITECTURE, "lib64"}) {
    candidates.push_back((prefix / folder / STRATA_LIBRARY_NAME).lexically_normal().string());
  }
  std::error_code ignored;
  for (const std::string& candidate : candidates) {
    if (fs::exists(candidate, ignored)) return candidate;
  }
  throw UsageError(
      fmt::format("there is no {} beside this program (looked for {}); build "
                  "or install it, or give its path with --library",
                  STRATA_LIBRARY_NAME, candidates.front()));
}

}  // namespace strata::cli
