#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "contenders/contender.h"
#include "input/usage_error.h"
#include "process/elf_file.h"
#include "process/run_process.h"

namespace strata::cli {
namespace {

/// The dynamic linker's error when asked to list, not run, a program with the library preloaded;
/// empty if it accepts the library.
std::string linker_refusal(const std::string& library) {
  Environment environment = Environment::inherited();
  environment.set("LD_PRELOAD", library);
  environment.set("LD_TRACE_LOADED_OBJECTS", "1");
  std::string text =
      ask_program(helper_path("strata-launch"), {"strata-launch"}, std::move(environment));
  // "ERROR: ld.so: object 'L' from LD_PRELOAD cannot be preloaded (reason): ignored."
  constexpr std::string_view kRefusal = "cannot be preloaded (";
  std::size_t at = text.find(kRefusal);
  if (at != std::string::npos) {
    at += kRefusal.size();
    return text.substr(at, text.find("): ignored", at) - at);
  }
  // "       libx.so.1 => not found": a dependency of the library is missing.
  std::size_t missing = text.find(" => not found");
  if (missing != std::string::npos) {
    std::size_t line = text.rfind('\n', missing);
    line = line == std::string::npos ? 0 : line + 1;
    line = text.find_first_not_of(" \t", line);
    return text.substr(line, missing - line) + ", which it needs, is not found";
  }
  return {};
}

}  // namespace

void check_preload(const Contender& contender) {
  const std::string& library = contender.library;
  if (library.empty()) return;
  auto refuse = [&](std::string_view why) {
    throw UsageError(fmt::format("{}: {} {}", contender.name, library, why));
  };
  std::error_code ignored;
  if (std::filesystem::is_directory(library, ignored)) {
    refuse("is a folder; give the library in it");
  }
  ElfFile elf(library);
  if (!elf.is_readable) refuse("does not exist or cannot be read; check the path");
  if (!elf.is_elf) refuse("is not an ELF file; give a shared library");
  if (!elf.is_for_this_machine) {
    refuse("is built for another kind of processor; give a library for this machine");
  }
  // The C library can also be started, so an interpreter alone proves nothing.
  if (!elf.is_shared_object || (elf.has_interpreter && elf.soname.empty())) {
    refuse("is a program, not a shared library; give the .so");
  }
  if (!elf.defines("malloc")) {
    refuse(
        "does not define malloc, so preloading it would measure the system's; give the library "
        "that replaces malloc");
  }
  if (contender.name == kStrata && !is_strata(contender)) {
    refuse("lists no options; it is not Strata's library; give a libstrata.so");
  }
  if (library.find_first_of(" :") != std::string::npos) {
    refuse("has a space or a colon in its path, which LD_PRELOAD cannot hold; move or link it");
  }
  std::string refusal = linker_refusal(library);
  if (!refusal.empty()) refuse(fmt::format("cannot be preloaded: {}", refusal));
}

bool is_strata(const Contender& contender) {
  return ElfFile(contender.library).defines("strata_options_json");
}

bool was_not_preloaded(const Contender& contender, std::string_view output) {
  return !contender.library.empty() &&
         output.find(fmt::format("object '{}' from LD_PRELOAD cannot be", contender.library)) !=
             std::string_view::npos;
}

}  // namespace strata::cli
