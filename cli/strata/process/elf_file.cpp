#include "process/elf_file.h"

#include <fcntl.h>
#include <link.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>

/// This program's own header; the linker defines the symbol.
extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

namespace strata::cli {
namespace {

/// Calls the function with the data of each section of a type, and with the number of its string
/// section.
template <typename Function>
void for_each_section(Elf* elf, GElf_Word type, Function&& function) {
  for (Elf_Scn* section = ::elf_nextscn(elf, nullptr); section != nullptr;
       section = ::elf_nextscn(elf, section)) {
    GElf_Shdr header;
    if (::gelf_getshdr(section, &header) == nullptr || header.sh_type != type) continue;
    function(::elf_getdata(section, nullptr), header.sh_link);
  }
}

std::string_view text_at(Elf* elf, GElf_Word section, std::size_t offset) {
  const char* text = ::elf_strptr(elf, section, offset);
  return text == nullptr ? std::string_view() : text;
}

}  // namespace

ElfFile::ElfFile(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return;  // opening a pipe could block
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  is_readable = true;
  ::elf_version(EV_CURRENT);  // required before any use of libelf
  elf_.reset(::elf_begin(fd, ELF_C_READ_MMAP, nullptr));
  ::elf_cntl(elf_.get(), ELF_C_FDREAD);  // from here on libelf does not need the descriptor
  ::close(fd);
  read_headers();
  if (is_for_this_machine) read_dynamic_section();
}

void ElfFile::read_headers() {
  GElf_Ehdr header;
  is_elf = ::gelf_getehdr(elf_.get(), &header) != nullptr;
  if (!is_elf) return;
  is_for_this_machine = header.e_ident[EI_CLASS] == __ehdr_start.e_ident[EI_CLASS] &&
                        header.e_ident[EI_DATA] == __ehdr_start.e_ident[EI_DATA] &&
                        header.e_machine == __ehdr_start.e_machine;
  is_shared_object = header.e_type == ET_DYN;
  GElf_Phdr segment;
  for (int i = 0; ::gelf_getphdr(elf_.get(), i, &segment) != nullptr; ++i) {
    if (segment.p_type != PT_INTERP) continue;
    has_interpreter = true;
    const auto offset = static_cast<std::int64_t>(segment.p_offset);
    const Elf_Data* path = ::elf_getdata_rawchunk(elf_.get(), offset, segment.p_filesz, ELF_T_BYTE);
    if (path == nullptr || path->d_buf == nullptr) continue;
    const auto* text = static_cast<const char*>(path->d_buf);
    interpreter.assign(text, ::strnlen(text, path->d_size));
  }
}

void ElfFile::read_dynamic_section() {
  for_each_section(elf_.get(), SHT_DYNAMIC, [this](Elf_Data* data, GElf_Word names) {
    GElf_Dyn entry;
    for (int i = 0; ::gelf_getdyn(data, i, &entry) != nullptr && entry.d_tag != DT_NULL; ++i) {
      if (entry.d_tag == DT_SONAME) soname = text_at(elf_.get(), names, entry.d_un.d_val);
      if (entry.d_tag == DT_NEEDED) {
        needed.emplace_back(text_at(elf_.get(), names, entry.d_un.d_val));
      }
    }
  });
}

bool ElfFile::defines(std::string_view symbol) const {
  if (!is_for_this_machine) return false;
  bool is_defined = false;
  for_each_section(elf_.get(), SHT_DYNSYM, [&](Elf_Data* data, GElf_Word names) {
    GElf_Sym entry;
    for (int i = 0; ::gelf_getsym(data, i, &entry) != nullptr; ++i) {
      if (entry.st_shndx != SHN_UNDEF && text_at(elf_.get(), names, entry.st_name) == symbol)
        is_defined = true;
    }
  });
  return is_defined;
}

}  // namespace strata::cli
