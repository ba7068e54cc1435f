#include "base/fatal.h"

#include <atomic>

#include "base/lock.h"
#include "os/output.h"
#include "os/process.h"

namespace strata {
namespace {

// relaxed: it is a function, which orders what it reads by its own means.
std::atomic<AboutAddress> g_about_address{nullptr};

}  // namespace

constinit std::atomic<bool> g_has_died_with_locks{false};

void die() noexcept {
  if (is_any_lock_held_here()) g_has_died_with_locks.store(true, std::memory_order_relaxed);
  os::abort_process();
}

void fatal(std::string_view sentence) noexcept {
  TextWriter line;
  os::write_stderr(line.text("strata: ").text(sentence).text("\n").view());
  die();
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

void print_about(const void* address, std::string_view sentence) noexcept {
  TextWriter line;
  line.text("strata: ").text(sentence);
  if (const AboutAddress about = g_about_address.load(std::memory_order_relaxed))
    about(address, line);
  os::write_stderr(line.text("\n").view());
}

void fatal_about(const void* address, std::string_view sentence) noexcept {
  print_about(address, sentence);
  die();
}

}  // namespace strata
