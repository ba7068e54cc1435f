#pragma once

#include <gelf.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace strata::cli {

/// What the dynamic linker would see in a file, read without running it: whether it is for this
/// machine, whether it starts through the dynamic linker, which functions it defines. A missing,
/// truncated or non-ELF file is an answer, not an error. Files of another word size or byte order
/// are not read further.
class ElfFile {
 public:
  explicit ElfFile(const std::string& path);

  bool is_readable() const noexcept { return is_readable_; }
  bool is_elf() const noexcept { return is_elf_; }
  /// Same word size, byte order and instruction set as this program.
  bool is_for_this_machine() const noexcept { return is_for_this_machine_; }
  /// A library or a position-independent program.
  bool is_shared_object() const noexcept { return is_shared_object_; }
  /// Whether it starts through the dynamic linker, and so can have libraries preloaded.
  bool has_interpreter() const noexcept { return has_interpreter_; }
  /// The path of that dynamic linker.
  const std::string& interpreter() const noexcept { return interpreter_; }
  /// Its DT_SONAME; empty if none.
  const std::string& soname() const noexcept { return soname_; }
  /// The libraries it is linked with, by name.
  const std::vector<std::string>& needed() const noexcept { return needed_; }

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
  bool is_readable_ = false;
  bool is_elf_ = false;
  bool is_for_this_machine_ = false;
  bool is_shared_object_ = false;
  bool has_interpreter_ = false;
  std::string interpreter_;
  std::string soname_;
  std::vector<std::string> needed_;
};

}  // namespace strata::cli
