#include "base/fatal.h"

#include <atomic>

#include "base/lock.h"
#include "base/text_writer.h"
#include "os/output.h"
#include "os/process.h"

namespace strata {
namespace {

// relaxed: a thread that sees it late waits for a lock as it would have a moment before.
std::atomic<bool> g_has_died_with_locks{false};

[[noreturn]] void die_saying(const TextWriter& line) noexcept {
  os::write_stderr(line.view());
  die();
}

}  // namespace

void die() noexcept {
  if (is_any_lock_held_here()) g_has_died_with_locks.store(true, std::memory_order_relaxed);
  os::abort_process();
}

bool has_died_with_locks() noexcept {
  return g_has_died_with_locks.load(std::memory_order_relaxed);
}

void fatal(std::string_view sentence) noexcept {
  TextWriter line;
  line.text("strata: ").text(sentence).text("\n");
  die_saying(line);
}

void fatal_pointer(std::string_view before, const void* address, std::string_view after) noexcept {
  TextWriter line;
  line.text("strata: ").text(before).pointer(address).text(after).text("\n");
  die_saying(line);
}

}  // namespace strata
