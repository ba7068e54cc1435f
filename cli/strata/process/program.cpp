#include "process/program.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "input/usage_error.h"
#include "output/say.h"
#include "output/text.h"
#include "process/elf_file.h"
#include "process/run_process.h"

namespace strata::cli {
namespace {

constexpr int kNotFound = 127;
constexpr int kNotExecutable = 126;
/// The kernel's limit of nested interpreters.
constexpr int kMostInterpreters = 5;

bool is_directory(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

bool is_executable(const std::string& path) {
  return ::access(path.c_str(), X_OK) == 0 && !is_directory(path);
}

/// The interpreter in a script's first line, "#!/bin/sh -e" -> "/bin/sh"; empty if it has none.
std::string script_interpreter(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  char line[256] = {};
  file.read(line, sizeof line - 1);
  std::string_view text(line);
  if (!text.starts_with("#!")) return {};
  text = text.substr(2, text.find('\n') - 2);
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  return std::string(text.substr(0, text.find_first_of(" \t")));
}

/// The binary that finally runs.
std::string final_program(std::string program) {
  for (int i = 0; i < kMostInterpreters; ++i) {
    std::string interpreter = script_interpreter(program);
    if (interpreter.empty()) break;
    program = interpreter;
  }
  return program;
}

/// \errors  UsageError if it is a script whose interpreter is missing: the kernel would report the
///          script as missing.
std::string with_interpreter(std::string program) {
  const std::string missing = final_program(program);
  if (missing == program || exists(missing)) return program;
  throw UsageError(
      fmt::format("'{}' needs the interpreter '{}', which is not there; {}", program,
                  printable(missing),
                  missing.ends_with('\r') ? "end the lines of the script with \\n alone"
                                          : "install it, or correct the first line of the script"),
      kNotExecutable);
}

}  // namespace

std::string find_program(std::string_view name) {
  if (name.empty()) throw UsageError("the command's name is empty; give a program", kNotFound);
  if (name.find('/') != std::string_view::npos) {
    std::string path(name);
    if (!exists(path)) {
      throw UsageError(fmt::format("there is no program '{}'; check the path", name), kNotFound);
    }
    if (is_directory(path)) {
      throw UsageError(fmt::format("'{}' is a directory; give a program in it", name),
                       kNotExecutable);
    }
    if (!is_executable(path)) {
      throw UsageError(fmt::format("'{}' is not executable; chmod +x it, or run it through its "
                                   "interpreter",
                                   name),
                       kNotExecutable);
    }
    return with_interpreter(path);
  }
  const char* variable = std::getenv("PATH");
  std::string_view path = variable != nullptr ? variable : "/usr/local/bin:/usr/bin:/bin";
  std::string forbidden;
  for (;;) {
    std::size_t colon = path.find(':');
    std::string folder(path.substr(0, colon));
    std::string candidate = fmt::format("{}/{}", folder.empty() ? "." : folder, name);
    if (is_executable(candidate)) return with_interpreter(candidate);
    if (exists(candidate) && !is_directory(candidate)) forbidden = candidate;
    if (colon == std::string_view::npos) break;
    path.remove_prefix(colon + 1);
  }
  if (!forbidden.empty()) {
    throw UsageError(fmt::format("'{}' is not executable; chmod +x it", forbidden), kNotExecutable);
  }
  throw UsageError(fmt::format("there is no program '{}' in PATH; check its spelling, install it, "
                               "or give its path",
                               name),
                   kNotFound);
}

std::string why_not_preloadable(const std::string& program) {
  std::string binary = final_program(program);
  ElfFile elf(binary);
  if (!elf.is_elf) return {};  // a script without "#!" goes to /bin/sh; others fail to start
  if (!elf.is_for_this_machine) {
    return "is built for another kind of processor than this strata";
  }
  if (!elf.has_interpreter) {
    return "is statically linked, so the dynamic linker cannot put another malloc under it";
  }
  struct stat status {};
  if (::stat(binary.c_str(), &status) == 0) {
    bool changes_user = (status.st_mode & S_ISUID) != 0 && status.st_uid != ::geteuid();
    bool changes_group = (status.st_mode & S_ISGID) != 0 && status.st_gid != ::getegid();
    if (changes_user || changes_group) {
      return "is set-user-ID or set-group-ID, so the dynamic linker ignores preloaded libraries";
    }
  }
  const bool has_capabilities = ::getxattr(binary.c_str(), "security.capability", nullptr, 0) > 0;
  if (has_capabilities && ::getuid() != 0) {  // root gains nothing from them
    return "has file capabilities, so the dynamic linker ignores preloaded libraries";
  }
  return {};
}

void warn_of_own_malloc(const std::string& program, std::string_view name) {
  if (!ElfFile(final_program(program)).defines("malloc")) return;
  say("strata: warning: {} has a malloc of its own, so a preloaded one may never be called\n",
      name);
}

std::string linked_allocator(const std::string& program) {
  ElfFile elf(final_program(program));
  for (const std::string& library : elf.needed) {
    for (std::string_view name : {"jemalloc", "mimalloc", "tcmalloc", "tbbmalloc", "strata"}) {
      if (library.find(name) != std::string::npos) return library;
    }
  }
  return {};
}

std::string linked_library(const std::string& program) {
  const std::string binary = final_program(program);
  const std::string linker = ElfFile(binary).interpreter;
  const std::string name = linked_allocator(binary);
  if (linker.empty() || name.empty()) return {};
  // ldd prints "libx.so.1 => /path/libx.so.1 (0x7f…)".
  const std::string list =
      ask_program(linker, {linker, "--list", binary}, Environment::inherited());
  const std::size_t start = list.find(name + " => /");
  if (start == std::string::npos) return {};
  const std::size_t path = list.find('/', start);
  const std::string line = list.substr(path, list.find('\n', path) - path);
  return line.substr(0, line.rfind(" ("));
}

}  // namespace strata::cli
