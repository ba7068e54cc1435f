#include "os/file.h"

#include <elf.h>
#include <errno.h>
#include <link.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "os/errors.h"
#include "os/output.h"
#include "os/process.h"
#include "os/system_call.h"
#include "os/text_parts.h"

namespace strata::os {
namespace {

bool read_at(int fd, std::uint64_t offset, void* out, std::size_t bytes) noexcept {
  return system_call::read_at(fd, out, bytes, static_cast<off_t>(offset)) ==
         static_cast<ssize_t>(bytes);
}

/// Reads a hexadecimal number and the one character after it.
bool take_hex(std::string_view& text, std::uint64_t& value, char end) noexcept {
  const std::string_view digits = start_of(text, text.find(end));
  if (digits.size() == text.size() || !is_number(digits, value, 16)) return false;
  text.remove_prefix(digits.size() + 1);
  return true;
}

/// Finds the build ID among the notes of one segment.
std::size_t find_build_id(const char* notes, std::size_t size, char* out,
                          std::size_t capacity) noexcept {
  constexpr std::size_t kHeader = sizeof(ElfW(Nhdr));
  const auto padded = [](std::size_t bytes) { return (bytes + 3) & ~std::size_t{3}; };
  while (size >= kHeader) {
    ElfW(Nhdr) note;
    std::memcpy(&note, notes, kHeader);
    const std::size_t name_bytes = padded(note.n_namesz);
    const std::size_t bytes = kHeader + name_bytes + padded(note.n_descsz);
    if (bytes > size) return 0;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
        std::memcmp(notes + kHeader, "GNU", 4) == 0) {
      const std::size_t count = std::min<std::size_t>(note.n_descsz, capacity / 2);
      for (std::size_t i = 0; i < count; ++i) {
        const auto byte = static_cast<unsigned char>(notes[kHeader + name_bytes + i]);
        out[2 * i] = "0123456789abcdef"[byte >> 4];
        out[2 * i + 1] = "0123456789abcdef"[byte & 15];
      }
      return 2 * count;
    }
    notes += bytes;
    size -= bytes;
  }
  return 0;
}

std::size_t read_build_id(int fd, char* out, std::size_t capacity) noexcept {
  ElfW(Ehdr) header;
  if (!read_at(fd, 0, &header, sizeof header)) return 0;
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return 0;
  if (header.e_phentsize != sizeof(ElfW(Phdr))) return 0;
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    ElfW(Phdr) segment;
    if (!read_at(fd, header.e_phoff + i * sizeof segment, &segment, sizeof segment)) return 0;
    if (segment.p_type != PT_NOTE) continue;
    char notes[1024];
    const std::size_t size = std::min<std::size_t>(segment.p_filesz, sizeof notes);
    if (!read_at(fd, segment.p_offset, notes, size)) continue;
    if (const std::size_t digits = find_build_id(notes, size, out, capacity)) return digits;
  }
  return 0;
}

}  // namespace

int open_to_append(const char* path) noexcept {
  const SavedErrno saved;
  const int fd = system_call::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  return fd < 0 ? -errno : fd;
}

int write_file(int file, std::string_view text) noexcept {
  const SavedErrno saved;
  return write_all(file, text);
}

void close_file(int file) noexcept {
  const SavedErrno saved;
  system_call::close(file);
}

bool NewFile::open(const char* path) noexcept {
  SavedErrno saved;
  temporary_.clear();
  error_ = path_.clear().add(path).fits() ? 0 : ENAMETOOLONG;
  if (error_ != 0) return false;
  struct stat there;
  const bool is_in_the_way = system_call::look_at(path, there) == 0 && !S_ISREG(there.st_mode);
  fd_ = is_in_the_way ? system_call::open(path, O_WRONLY | O_TRUNC | O_NOCTTY | O_CLOEXEC)
                      : open_beside();
  if (fd_ < 0 && error_ == 0) error_ = errno;
  return fd_ >= 0;
}

/// Opens a file that no other process writes, and stores its name in temporary_.
int NewFile::open_beside() noexcept {
  // relaxed: each file of this process takes another number.
  static constinit std::atomic<std::uint32_t> files{0};
  for (;;) {
    temporary_.clear().add(path_.view()).add(".").add(process_id()).add(".");
    temporary_.add(files.fetch_add(1, std::memory_order_relaxed)).add(".new");
    if (!temporary_.fits()) {
      error_ = ENAMETOOLONG;
      return -1;
    }
    const int fd =
        system_call::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    // What is there was left by a process that had our number and came to a sudden end.
    if (fd >= 0 || errno != EEXIST) return fd;
  }
}

NewFile::~NewFile() {
  if (fd_ < 0) return;
  SavedErrno saved;
  system_call::close(fd_);
  if (!temporary_.view().empty()) system_call::remove(temporary_.c_str());
}

void NewFile::write(std::string_view bytes) noexcept {
  SavedErrno saved;
  if (error_ == 0) error_ = write_all(fd_, bytes);
}

bool NewFile::commit() noexcept {
  if (fd_ < 0) return false;
  SavedErrno saved;
  if (system_call::close(fd_) != 0 && error_ == 0) error_ = errno;
  fd_ = -1;
  if (temporary_.view().empty()) return error_ == 0;
  if (error_ == 0 && system_call::rename(temporary_.c_str(), path_.c_str()) == 0) return true;
  if (error_ == 0) error_ = errno;
  system_call::remove(temporary_.c_str());
  return false;
}

const char* NewFile::reason() const noexcept { return text_of_error(error_); }

LineReader::LineReader(const char* path) noexcept {
  SavedErrno saved;
  fd_ = system_call::open(path, O_RDONLY | O_CLOEXEC);
  has_failed_ = fd_ < 0;
}

LineReader::~LineReader() {
  SavedErrno saved;
  if (fd_ >= 0) system_call::close(fd_);
}

bool LineReader::next(std::string_view& line) noexcept {
  const SavedErrno saved;
  bool is_too_long = false;
  for (;;) {
    const std::string_view held(buffer_ + begin_, end_ - begin_);
    const std::size_t length = held.find('\n');
    if (length != std::string_view::npos) {
      line = start_of(held, length);
      buffer_[begin_ + length] = '\0';
      begin_ += length + 1;
      if (!std::exchange(is_too_long, false)) return true;
      continue;
    }
    is_too_long |= held.size() == sizeof buffer_;
    end_ = is_too_long ? 0 : held.size();
    std::memmove(buffer_, held.data(), end_);
    begin_ = 0;
    const ssize_t count =
        fd_ < 0 ? 0 : system_call::read(fd_, buffer_ + end_, sizeof buffer_ - end_);
    if (count < 0 && errno == EINTR) continue;
    has_failed_ |= count < 0;
    if (count <= 0) {
      line = {buffer_, end_};
      if (end_ < sizeof buffer_) buffer_[end_] = '\0';
      begin_ = end_;
      return !line.empty() && !is_too_long;
    }
    end_ += static_cast<std::size_t>(count);
  }
}

std::string_view LineReader::with_newlines(std::string_view part) noexcept {
  constexpr std::string_view kNewline = "\\012";
  char* const text = buffer_ + (part.data() - buffer_);
  for (std::size_t at; (at = part.find(kNewline)) != std::string_view::npos;) {
    const std::size_t end = at + kNewline.size();
    text[at] = '\n';
    std::memmove(text + at + 1, text + end, part.size() - end + 1);
    part.remove_suffix(kNewline.size() - 1);
  }
  return part;
}

[[gnu::cold, gnu::noinline]] const char* path_of_maps() noexcept {
  constexpr const char* kOfProcess = "/proc/self/maps";
  const SavedErrno saved;
  const int fd = system_call::open(kOfProcess, O_RDONLY | O_CLOEXEC);
  char first;
  const bool has_lines = fd >= 0 && system_call::read(fd, &first, 1) == 1;
  if (fd >= 0) system_call::close(fd);
  return has_lines ? kOfProcess : "/proc/thread-self/maps";
}

void find_mapping(const void* address, Mapping& out) noexcept {
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  LineReader lines(path_of_maps());
  bool has_lines = false;
  for (std::string_view line; lines.next(line);) {
    has_lines = true;
    std::uint64_t start;
    std::uint64_t end;
    if (!take_hex(line, start, '-') || !take_hex(line, end, ' ')) continue;
    if (wanted < start || wanted >= end) continue;
    const std::size_t name = line.find_first_of("/[");
    out.kind = name == std::string_view::npos ? Mapping::Kind::kAnonymous : Mapping::Kind::kNamed;
    if (name == std::string_view::npos) return;
    line.remove_prefix(name);
    const std::size_t length = std::min(line.size(), sizeof out.name - 1);
    std::memcpy(out.name, line.data(), length);
    out.name[length] = '\0';
    return;
  }
  if (has_lines && !lines.has_failed()) out.kind = Mapping::Kind::kNothing;
}

bool parse_code_mapping(std::string_view line, CodeMapping& out) noexcept {
  std::uint64_t start;
  std::uint64_t end;
  if (!take_hex(line, start, '-') || !take_hex(line, end, ' ')) return false;
  if (line.size() < 5 || line[2] != 'x') return false;
  line.remove_prefix(5);
  if (!take_hex(line, out.offset, ' ')) return false;
  const std::size_t path = line.find('/');
  if (path == std::string_view::npos) return false;
  out.start = static_cast<std::uintptr_t>(start);
  out.end = static_cast<std::uintptr_t>(end);
  line.remove_prefix(path);
  out.path = line;
  return true;
}

std::size_t read_build_id(const char* path, char* out, std::size_t capacity) noexcept {
  SavedErrno saved;
  const int fd = system_call::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const std::size_t digits = read_build_id(fd, out, capacity);
  system_call::close(fd);
  return digits;
}

}  // namespace strata::os
