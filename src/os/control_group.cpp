#include "os/control_group.h"

#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "os/errors.h"
#include "os/file.h"
#include "os/path.h"
#include "os/text_parts.h"

namespace strata::os {
namespace {

constexpr std::size_t kNoLimit = ~std::size_t{0};

/// Adds a field of mountinfo, where the kernel writes some characters as a backslash and three
/// octal digits: backslashes, as systemd has them in names of groups, and spaces.
Path& add_unescaped(Path& path, std::string_view field) noexcept {
  const auto is_octal = [&](std::size_t at) { return field[at] >= '0' && field[at] <= '7'; };
  while (!field.empty()) {
    const bool is_escape =
        field.size() >= 4 && field[0] == '\\' && is_octal(1) && is_octal(2) && is_octal(3);
    const char c =
        is_escape ? static_cast<char>((field[1] - '0') * 64 + (field[2] - '0') * 8 + field[3] - '0')
                  : field[0];
    path.add({&c, 1});
    field.remove_prefix(is_escape ? 4 : 1);
  }
  return path;
}

bool has_word(std::string_view list, std::string_view word) noexcept {
  while (!list.empty()) {
    if (take_part(list, ',') == word) return true;
  }
  return false;
}

/// Reads a number of bytes from the first line of a file that begins so, behind that; "max" and
/// anything but a number is no limit.
std::size_t read_limit(const char* path, std::string_view start = {}) noexcept {
  LineReader lines(path);
  std::string_view line;
  do {
    if (!lines.next(line)) return kNoLimit;
  } while (!begins_with(line, start));
  line.remove_prefix(start.size());
  std::size_t value = 0;
  return is_number(line, value) ? value : kNoLimit;
}

/// One of the two kinds of hierarchies that may limit memory.
struct Hierarchy {
  const char* mount_type;  // in mountinfo
  const char* controller;  // in /proc/self/cgroup, and an option of the mount; "" for version 2
  const char* limit_file;
};
constexpr Hierarchy kHierarchies[] = {{"cgroup2", "", "/memory.max"},
                                      {"cgroup", "memory", "/memory.limit_in_bytes"}};

// Not on the stack, which may be a small thread's.
constinit Path g_group;   // of this process, as the kernel names it from the hierarchy's root
constinit Path g_folder;  // where that group is
constinit Path g_other;   // for one step

/// Finds g_group in the hierarchy.
bool find_group(const char* root, const Hierarchy& hierarchy) noexcept {
  LineReader lines(g_other.clear().add(root).add("/proc/self/cgroup").c_str());
  std::string_view line;
  while (lines.next(line)) {
    take_part(line, ':');
    const std::string_view controllers = take_part(line, ':');
    const bool is_ours = *hierarchy.controller == '\0'
                             ? controllers.empty()
                             : has_word(controllers, hierarchy.controller);
    if (!is_ours) continue;
    g_group.clear().add(line);
    return true;
  }
  return false;
}

/// Takes from the start of a group's path the one that a mount shows as its root.
/// \returns  false if the group is not there: with ".." the kernel names what is outside of the
///           process's namespace of groups.
bool take_shown(std::string_view& group, std::string_view shown) noexcept {
  if (shown == "/") shown = {};
  if (!begins_with(group, shown)) return false;
  std::string_view inside = group;
  inside.remove_prefix(shown.size());
  const bool is_there =
      (inside.empty() || inside[0] == '/') && !begins_with(inside, "/../") && inside != "/..";
  if (is_there) group = inside;
  return is_there;
}

/// Finds where the hierarchy is mounted, which becomes g_folder. Of several mounts, which may show
/// other groups than this process's (the host's, or another container's), takes the first one that
/// has its group.
/// \param group  becomes its path from the mount's root; empty if no mount has it
bool find_mount(const char* root, const Hierarchy& hierarchy, std::string_view& group) noexcept {
  LineReader lines(g_other.clear().add(root).add("/proc/self/mountinfo").c_str());
  std::string_view line;
  bool is_found = false;
  while (lines.next(line)) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    std::string_view behind = line;
    behind.remove_prefix(dash + 3);
    if (take_part(behind, ' ') != hierarchy.mount_type) continue;
    take_part(behind, ' ');  // its source
    if (*hierarchy.controller != '\0' && !has_word(behind, hierarchy.controller)) continue;
    for (int field = 0; field < 3; ++field) take_part(line, ' ');
    const bool has_group =
        take_shown(group, add_unescaped(g_other.clear(), take_part(line, ' ')).view());
    if (has_group || !is_found) add_unescaped(g_folder.clear().add(root), take_part(line, ' '));
    if (has_group) return true;
    is_found = true;
  }
  group = {};
  return is_found;
}

/// Reads a file of the group that g_folder is.
std::size_t read_limit_in_folder(const char* file, std::string_view start = {}) noexcept {
  return read_limit(g_other.clear().add(g_folder.view()).add(file).c_str(), start);
}

/// The smallest limit from the group up to the root of the mount.
std::size_t limit_in(const char* root, const Hierarchy& hierarchy) noexcept {
  if (!find_group(root, hierarchy)) return kNoLimit;
  std::string_view inside = g_group.view();
  if (!find_mount(root, hierarchy, inside)) return kNoLimit;
  const std::size_t top = g_folder.view().size();
  if (inside != "/") g_folder.add(inside);
  std::size_t least = kNoLimit;
  // Version 1 says what the groups above allow, even those that the mount does not show.
  if (*hierarchy.controller != '\0')
    least = read_limit_in_folder("/memory.stat", "hierarchical_memory_limit ");
  do {
    least = std::min(least, read_limit_in_folder(hierarchy.limit_file));
  } while (g_folder.view().size() > top && g_folder.cut_last_part(top));
  return least;
}

std::size_t machine_memory_bytes() noexcept {
  struct sysinfo machine;
  if (syscall(SYS_sysinfo, &machine) != 0) return kNoLimit;
  return std::size_t{machine.totalram} * machine.mem_unit;
}

}  // namespace

std::size_t allowed_memory_bytes(const char* root) noexcept {
  const SavedErrno saved;
  std::size_t least = machine_memory_bytes();
  for (const Hierarchy& hierarchy : kHierarchies)
    least = std::min(least, limit_in(root, hierarchy));
  return least != kNoLimit ? least : 0;
}

}  // namespace strata::os
