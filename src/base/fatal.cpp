#include "base/fatal.h"

#include <atomic>

#include "base/lock.h"
#include "os/output.h"
#include "os/process.h"

namespace strata {
namespace {

// relaxed: it is a function, and what that reads is ordered by its own means.
std::atomic<AboutAddress> g_about_address{nullptr};

[[noreturn]] void die_saying(const TextWriter& line) noexcept {
  os::write_stderr(line.view());
  die();
}

}  // namespace

constinit std::atomic<bool> g_has_died_with_locks{false};

void die() noexcept {
  if (is_any_lock_held_here()) g_has_died_with_locks.store(true, std::memory_order_relaxed);
  os::abort_process();
}

void fatal(std::string_view sentence) noexcept {
  TextWriter line;
  line.text("strata: ").text(sentence).text("\n");
  die_saying(line);
}

void fatal_pointer(std::string_view before, const void* address, std::string_view after) noexcept {
  TextWriter sentence;
  fatal_about(address, sentence.text(before).pointer(address).text(after).view());
}

void fatal_call(std::string_view action, const void* pointer, std::string_view after,
                bool was_freed) noexcept {
  TextWriter before;
  before.text(was_freed && action == "free" ? "double " : "invalid ").text(action).text(" of ");
  fatal_pointer(before.view(), pointer, after);
}

void set_about_address(AboutAddress about) noexcept {
  g_about_address.store(about, std::memory_order_relaxed);
}

void add_about(const void* address, TextWriter& sentence) noexcept {
  if (const AboutAddress about = g_about_address.load(std::memory_order_relaxed))
    about(address, sentence);
}

void fatal_about(const void* address, std::string_view sentence) noexcept {
  TextWriter line;
  line.text("strata: ").text(sentence);
  add_about(address, line);
  die_saying(line.text("\n"));
}

}  // namespace strata
