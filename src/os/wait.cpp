#include "os/wait.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

#include "os/errors.h"

namespace strata::os {
namespace {

long futex(const std::uint32_t* word, int operation, std::uint32_t value,
           const timespec* timeout) noexcept {
  return syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, timeout, nullptr, 0);
}

void wake(const std::uint32_t* word, std::uint32_t count) noexcept {
  const SavedErrno saved;
  futex(word, FUTEX_WAKE, count, nullptr);
}

}  // namespace

void wait_on(const std::uint32_t* word, std::uint32_t expected, std::uint64_t timeout_ns) noexcept {
  const SavedErrno saved;
  timespec timeout{static_cast<time_t>(timeout_ns / 1'000'000'000u),
                   static_cast<long>(timeout_ns % 1'000'000'000u)};
  futex(word, FUTEX_WAIT, expected, timeout_ns != 0 ? &timeout : nullptr);
}

void wake_one(const std::uint32_t* word) noexcept { wake(word, 1); }
void wake_all(const std::uint32_t* word) noexcept { wake(word, INT_MAX); }

bool is_still(const std::uint32_t* word, std::uint32_t expected) noexcept {
  const SavedErrno saved;
  const auto is_other = [] { return errno == EAGAIN || errno == EFAULT; };
  // Compares; then it wakes nobody, and moves nobody.
  if (syscall(SYS_futex, word, FUTEX_CMP_REQUEUE | FUTEX_PRIVATE_FLAG, 0, 0L, word, expected) >= 0)
    return true;
  if (is_other()) return false;
  // A filter may know only what each program needs. This compares, too; it may sleep for a moment.
  constexpr timespec kNow{0, 0};
  return futex(word, FUTEX_WAIT, expected, &kNow) == 0 || !is_other();
}

}  // namespace strata::os
