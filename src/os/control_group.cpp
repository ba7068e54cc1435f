#include "os/control_group.h"

#include <errno.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "os/system_call.h"

namespace strata::os {
namespace {

constexpr std::size_t kNoLimit = ~std::size_t{0};

/// A path put together in place; one that does not fit is empty, and cannot be opened.
class Path {
 public:
  Path& add(std::string_view part) noexcept {
    if (failed_ || part.size() >= sizeof text_ - size_) {
      failed_ = true;
      size_ = 0;
    } else {
      std::memcpy(text_ + size_, part.data(), part.size());
      size_ += part.size();
    }
    text_[size_] = '\0';
    return *this;
  }
  /// Removes what follows the last slash, from `least` on. False if there is none.
  bool cut_last_part(std::size_t least) noexcept {
    const std::size_t slash = view().rfind('/');
    if (slash == std::string_view::npos || slash < least) return false;
    size_ = slash;
    text_[size_] = '\0';
    return true;
  }
  std::string_view view() const noexcept { return {text_, size_}; }
  const char* c_str() const noexcept { return text_; }

 private:
  char text_[4096] = "";
  std::size_t size_ = 0;
  bool failed_ = false;
};

/// The lines of a file, one after the other; those that are longer than the buffer are skipped.
class Lines {
 public:
  explicit Lines(const char* path) noexcept : fd_(system_call::open(path, O_RDONLY | O_CLOEXEC)) {}
  ~Lines() {
    if (fd_ >= 0) system_call::close(fd_);
  }
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;

  bool next(std::string_view& line) noexcept {
    for (;;) {
      if (const void* end = std::memchr(buffer_ + begin_, '\n', end_ - begin_)) {
        const auto length = static_cast<std::size_t>(static_cast<const char*>(end) - buffer_);
        line = {buffer_ + begin_, length - begin_};
        begin_ = length + 1;
        if (!is_too_long_) return true;
        is_too_long_ = false;
        continue;
      }
      if (begin_ == 0 && end_ == sizeof buffer_) {
        is_too_long_ = true;
        end_ = 0;
      }
      std::memmove(buffer_, buffer_ + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
      const ssize_t n =
          fd_ >= 0 ? system_call::read(fd_, buffer_ + end_, sizeof buffer_ - end_) : 0;
      if (n < 0 && errno == EINTR) continue;
      if (n > 0) {
        end_ += static_cast<std::size_t>(n);
        continue;
      }
      line = {buffer_, end_};
      const bool has_rest = end_ != 0 && !is_too_long_;
      end_ = 0;
      return has_rest;
    }
  }

 private:
  int fd_;
  char buffer_[4096];
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  bool is_too_long_ = false;
};

/// The part of `text` up to the separator, which is taken off with it.
std::string_view take_part(std::string_view& text, char separator) noexcept {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

bool has_word(std::string_view list, std::string_view word) noexcept {
  while (!list.empty()) {
    if (take_part(list, ',') == word) return true;
  }
  return false;
}

/// A number of bytes in a file of one line; "max" and what is no number are no limit.
std::size_t read_limit(const char* path) noexcept {
  Lines lines(path);
  std::string_view line;
  if (!lines.next(line) || line.empty()) return kNoLimit;
  std::size_t value = 0;
  for (const char c : line) {
    if (c < '0' || c > '9') return kNoLimit;
    if (__builtin_mul_overflow(value, std::size_t{10}, &value) ||
        __builtin_add_overflow(value, static_cast<std::size_t>(c - '0'), &value))
      return kNoLimit;
  }
  return value;
}

/// One of the two kinds of hierarchies that may limit memory.
struct Hierarchy {
  const char* mount_type;  // in mountinfo
  const char* controller;  // in /proc/self/cgroup, and an option of the mount; "" for version 2
  const char* limit_file;
};
constexpr Hierarchy kHierarchies[] = {{"cgroup2", "", "/memory.max"},
                                      {"cgroup", "memory", "/memory.limit_in_bytes"}};

/// This process's group in the hierarchy, as the kernel names it from the hierarchy's root.
bool find_group(const char* root, const Hierarchy& hierarchy, Path& group) noexcept {
  Lines lines(Path().add(root).add("/proc/self/cgroup").c_str());
  std::string_view line;
  while (lines.next(line)) {
    take_part(line, ':');
    const std::string_view controllers = take_part(line, ':');
    const bool is_ours = *hierarchy.controller == '\0'
                             ? controllers.empty()
                             : has_word(controllers, hierarchy.controller);
    if (!is_ours) continue;
    group.add(line);
    return true;
  }
  return false;
}

/// Where the hierarchy is mounted, and which of its groups the mount shows as its root.
bool find_mount(const char* root, const Hierarchy& hierarchy, Path& mount, Path& shown) noexcept {
  Lines lines(Path().add(root).add("/proc/self/mountinfo").c_str());
  std::string_view line;
  while (lines.next(line)) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    std::string_view behind = line;
    behind.remove_prefix(dash + 3);
    if (take_part(behind, ' ') != hierarchy.mount_type) continue;
    take_part(behind, ' ');  // its source
    if (*hierarchy.controller != '\0' && !has_word(behind, hierarchy.controller)) continue;
    for (int field = 0; field < 3; ++field) take_part(line, ' ');
    shown.add(take_part(line, ' '));
    mount.add(take_part(line, ' '));
    return true;
  }
  return false;
}

/// The smallest limit from the group up to the root of the mount.
std::size_t limit_in(const char* root, const Hierarchy& hierarchy) noexcept {
  Path group;
  Path mount;
  Path shown;
  if (!find_group(root, hierarchy, group) || !find_mount(root, hierarchy, mount, shown))
    return kNoLimit;
  // A container's mount may show its own group as the root: then the part above is not there.
  std::string_view inside = group.view();
  if (shown.view() != "/" && inside.starts_with(shown.view()))
    inside.remove_prefix(shown.view().size());
  Path folder;
  folder.add(root).add(mount.view());
  const std::size_t top = folder.view().size();
  if (inside != "/") folder.add(inside);
  std::size_t least = kNoLimit;
  do {
    Path file;
    least = std::min(least, read_limit(file.add(folder.view()).add(hierarchy.limit_file).c_str()));
  } while (folder.view().size() > top && folder.cut_last_part(top));
  return least;
}

std::size_t machine_memory_bytes() noexcept {
  struct sysinfo machine;
  if (syscall(SYS_sysinfo, &machine) != 0) return kNoLimit;
  return std::size_t{machine.totalram} * machine.mem_unit;
}

}  // namespace

std::size_t allowed_memory_bytes(const char* root) noexcept {
  const int saved = errno;
  std::size_t least = machine_memory_bytes();
  for (const Hierarchy& hierarchy : kHierarchies)
    least = std::min(least, limit_in(root, hierarchy));
  errno = saved;
  return least != kNoLimit ? least : 0;
}

}  // namespace strata::os
