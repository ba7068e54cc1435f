#include "os/standard_error.h"

#include <algorithm>

#include "os/errors.h"
#include "os/system_call.h"

namespace strata::os {
namespace {

// Chosen: above the numbers that programs count on, below what select() can name: a table of so
// many descriptors costs the kernel 8 KiB.
constexpr rlim_t kHighest = 1024;
constexpr rlim_t kSpare = 16;

/// The kept descriptor, -1 if there is none.
int g_kept = -1;
/// The file of standard error at the start, if g_has_noted.
bool g_has_noted = false;
dev_t g_device;
ino_t g_inode;

/// The number from which to look for a free one; -1 if there are so few that the program may count
/// on them.
int first_number() noexcept {
  rlimit limit;
  if (system_call::read_limit(RLIMIT_NOFILE, limit) != 0) return -1;
  const rlim_t numbers = std::min(limit.rlim_cur, kHighest);
  return numbers >= 4 * kSpare ? static_cast<int>(numbers - kSpare) : -1;
}

bool is_as_noted(const struct stat& now) noexcept {
  return now.st_dev == g_device && now.st_ino == g_inode;
}

bool is_kept() noexcept {
  struct stat now;
  return g_kept >= 0 && system_call::look_at(g_kept, now) == 0 && is_as_noted(now);
}

/// Whether text of ours would be among the program's data there.
bool is_for_data(const struct stat& now) noexcept {
  return (S_ISREG(now.st_mode) || S_ISBLK(now.st_mode)) &&
         (system_call::control(STDERR_FILENO, F_GETFL) & O_APPEND) == 0;
}

}  // namespace

void note_standard_error() noexcept {
  if (g_has_noted) return;
  const SavedErrno saved;
  struct stat now;
  if (system_call::look_at(STDERR_FILENO, now) == 0) {
    g_device = now.st_dev;
    g_inode = now.st_ino;
  }
  g_has_noted = true;
}

void keep_standard_error() noexcept {
  if (g_kept >= 0) return;
  note_standard_error();
  const SavedErrno saved;
  const int number = first_number();
  if (number >= 0) g_kept = system_call::control(STDERR_FILENO, F_DUPFD_CLOEXEC, number);
}

void let_go_of_standard_error() noexcept {
  const SavedErrno saved;
  if (is_kept()) system_call::close(g_kept);
  g_kept = -1;
}

int standard_error() noexcept {
  const SavedErrno saved;
  struct stat now;
  const bool is_open = system_call::look_at(STDERR_FILENO, now) == 0;
  if (is_open && (!g_has_noted || is_as_noted(now) || !is_for_data(now))) return STDERR_FILENO;
  return is_kept() ? g_kept : -1;
}

}  // namespace strata::os
