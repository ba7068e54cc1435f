// What the command reads from programs and libraries before it starts any.
#include "input_file.h"
#include "process/elf_file.h"

STRATA_FUZZ(choices) {
  const strata::fuzz::InputFile file(choices.rest());
  const strata::cli::ElfFile elf(file.path());
  strata::fuzz::require(elf.is_readable || !elf.is_elf, "what is not readable is no ELF file");
  elf.defines("malloc");
  for (const std::string& name : elf.needed)
    strata::fuzz::require(name.find('\0') == std::string::npos, "a name ends at its end");
}
