#pragma once

#include <gelf.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace strata::cli {

/// What the dynamic linker would see in a file, found out without running any of it: is it made for
/// this machine, does it start through the dynamic linker, which functions does it define. A file
/// that is missing, cut short or no ELF at all is an answer, not an error; files of a foreign word
/// size or byte order are not read beyond that fact.
class ElfFile {
 public:
  explicit ElfFile(const std::string& path);

  bool is_readable() const noexcept { return is_readable_; }
  bool is_elf() const noexcept { return is_elf_; }
  /// Same word size, byte order and instruction set as this program.
  bool is_for_this_machine() const noexcept { return is_for_this_machine_; }
  /// A library or a position-independent program.
  bool is_shared_object() const noexcept { return is_shared_object_; }
  /// Starts through the dynamic linker: only such a program can be given a library.
  bool has_interpreter() const noexcept { return has_interpreter_; }
  /// That linker.
  const std::string& interpreter() const noexcept { return interpreter_; }
  /// The name it was linked to be known by; empty if none.
  const std::string& soname() const noexcept { return soname_; }
  /// The libraries it asks for by name.
  const std::vector<std::string>& needed() const noexcept { return needed_; }

  /// Whether the file defines this dynamic symbol itself.
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
