#include "process/elf_file.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>  // ElfW: the structures of our own word size
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cstring>
#include <fstream>

namespace strata::cli {
namespace {

using Header = ElfW(Ehdr);
using Segment = ElfW(Phdr);
using Section = ElfW(Shdr);
using Symbol = ElfW(Sym);
using DynamicEntry = ElfW(Dyn);

constexpr unsigned char kOurClass = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
constexpr unsigned char kOurOrder =
    std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;

/// The instruction set, from this very program's header.
decltype(Header::e_machine) our_machine() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  Header header{};
  file.read(reinterpret_cast<char*>(&header), sizeof header);
  return header.e_machine;
}

}  // namespace

ElfFile::ElfFile(const std::string& path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  struct stat status {};
  if (::fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) {
    is_readable_ = true;
    if (status.st_size > 0) {
      void* map =
          ::mmap(nullptr, static_cast<std::size_t>(status.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
      if (map != MAP_FAILED) {
        bytes_ = static_cast<const char*>(map);
        size_ = static_cast<std::size_t>(status.st_size);
      }
    }
  }
  ::close(fd);
  read_header();
  if (is_for_this_machine_) read_dynamic_section();
}

ElfFile::~ElfFile() {
  if (bytes_ != nullptr) ::munmap(const_cast<char*>(bytes_), size_);
}

/// Zeros where the file ends too early, so that no count or offset of a broken file leads outside.
template <typename T>
T ElfFile::read_at(std::size_t offset) const {
  T value{};
  if (offset <= size_ && sizeof(T) <= size_ - offset) {
    std::memcpy(&value, bytes_ + offset, sizeof(T));
  }
  return value;
}

std::string_view ElfFile::text_at(std::size_t offset, std::size_t end) const {
  if (end > size_) end = size_;
  if (offset >= end) return {};
  return {bytes_ + offset, ::strnlen(bytes_ + offset, end - offset)};
}

void ElfFile::read_header() {
  auto header = read_at<Header>(0);
  is_elf_ = std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0;
  is_for_this_machine_ = is_elf_ && header.e_ident[EI_CLASS] == kOurClass &&
                         header.e_ident[EI_DATA] == kOurOrder && header.e_machine == our_machine();
  if (!is_for_this_machine_) return;
  is_shared_object_ = header.e_type == ET_DYN;
  for (std::size_t i = 0; i < header.e_phnum; ++i) {
    auto segment = read_at<Segment>(header.e_phoff + i * sizeof(Segment));
    if (segment.p_type != PT_INTERP) continue;
    has_interpreter_ = true;
    interpreter_ = text_at(segment.p_offset, segment.p_offset + segment.p_filesz);
  }
}

void ElfFile::read_dynamic_section() {
  auto header = read_at<Header>(0);
  for (std::size_t i = 0; i < header.e_shnum; ++i) {
    auto section = read_at<Section>(header.e_shoff + i * sizeof(Section));
    if (section.sh_type != SHT_DYNAMIC) continue;
    auto strings = read_at<Section>(header.e_shoff + section.sh_link * sizeof(Section));
    std::size_t end = strings.sh_offset + strings.sh_size;
    for (std::size_t at = 0; at + sizeof(DynamicEntry) <= section.sh_size;
         at += sizeof(DynamicEntry)) {
      auto entry = read_at<DynamicEntry>(section.sh_offset + at);
      if (entry.d_tag == DT_NULL) break;
      std::size_t name = strings.sh_offset + entry.d_un.d_val;
      if (entry.d_tag == DT_SONAME) soname_ = text_at(name, end);
      if (entry.d_tag == DT_NEEDED) needed_.emplace_back(text_at(name, end));
    }
  }
}

bool ElfFile::defines(std::string_view symbol) const {
  if (!is_for_this_machine_) return false;
  auto header = read_at<Header>(0);
  for (std::size_t i = 0; i < header.e_shnum; ++i) {
    auto section = read_at<Section>(header.e_shoff + i * sizeof(Section));
    if (section.sh_type != SHT_DYNSYM) continue;
    auto strings = read_at<Section>(header.e_shoff + section.sh_link * sizeof(Section));
    std::size_t end = strings.sh_offset + strings.sh_size;
    for (std::size_t at = 0; at + sizeof(Symbol) <= section.sh_size && at < size_;
         at += sizeof(Symbol)) {
      auto entry = read_at<Symbol>(section.sh_offset + at);
      if (entry.st_shndx != SHN_UNDEF && text_at(strings.sh_offset + entry.st_name, end) == symbol)
        return true;
    }
  }
  return false;
}

}  // namespace strata::cli
