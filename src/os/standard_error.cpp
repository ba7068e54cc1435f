#include "os/standard_error.h"

#include <algorithm>

#include "os/errors.h"
#include "os/system_call.h"

namespace strata::os {
namespace {

// Chosen: above what programs count on being theirs, below what select() can name: a table of so
// many descriptors costs the kernel 8 KiB.
constexpr rlim_t kHighest = 1024;
constexpr rlim_t kSpare = 16;

/// The kept descriptor, -1 if there is none, and the file it was then.
int g_kept = -1;
dev_t g_device;
ino_t g_inode;

/// A number from which to look for a free one.
int first_number() noexcept {
  rlimit limit;
  if (system_call::read_limit(RLIMIT_NOFILE, limit) != 0) return STDERR_FILENO + 1;
  const rlim_t numbers = std::min(limit.rlim_cur, kHighest);
  return static_cast<int>(numbers > 2 * kSpare ? numbers - kSpare : STDERR_FILENO + 1);
}

bool is_kept() noexcept {
  struct stat now;
  return g_kept >= 0 && system_call::look_at(g_kept, now) == 0 && now.st_dev == g_device &&
         now.st_ino == g_inode;
}

}  // namespace

void keep_standard_error() noexcept {
  if (g_kept >= 0) return;
  const SavedErrno saved;
  struct stat now;
  if (system_call::look_at(STDERR_FILENO, now) == 0) {
    g_device = now.st_dev;
    g_inode = now.st_ino;
    g_kept = system_call::control(STDERR_FILENO, F_DUPFD_CLOEXEC, first_number());
  }
}

void let_go_of_standard_error() noexcept {
  const SavedErrno saved;
  if (is_kept()) system_call::close(g_kept);
  g_kept = -1;
}

int standard_error() noexcept {
  const SavedErrno saved;
  const bool is_open = system_call::control(STDERR_FILENO, F_GETFD) >= 0;
  const int where = !is_open && is_kept() ? g_kept : STDERR_FILENO;
  return where;
}

}  // namespace strata::os
