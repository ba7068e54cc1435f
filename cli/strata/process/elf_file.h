#pragma once

#include <gelf.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace strata::cli {

/// What the dynamic linker would see in a file, read without running it. A missing, truncated or
/// non-ELF file is an answer, not an error. Files of another word size or byte order are not read
/// further.
class ElfFile {
 public:
  explicit ElfFile(const std::string& path);

  bool is_readable = false;
  bool is_elf = false;
  bool is_for_this_machine = false;  ///< word size, byte order and instruction set of this program
  bool is_shared_object = false;     ///< a library or a position-independent program
  /// It starts through the dynamic linker, and so can have libraries preloaded.
  bool has_interpreter = false;
  std::string interpreter;          ///< the path of that dynamic linker
  std::string soname;               ///< its DT_SONAME; empty if none
  std::vector<std::string> needed;  ///< the libraries it is linked with, by name

  /// Whether the file itself defines this dynamic symbol.
  /// \cost  linear in its symbols.
  bool defines(std::string_view symbol) const;

 private:
  struct End {
    void operator()(Elf* elf) const { ::elf_end(elf); }
  };

  void read_headers();
  void read_dynamic_section();

  std::unique_ptr<Elf, End> elf_;
};

}  // namespace strata::cli
