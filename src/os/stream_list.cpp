#include "os/stream_list.h"

#include "os/threads.h"

// glibc exports these for libraries that fork; the lock is recursive.
extern "C" {
[[gnu::weak]] void _IO_list_lock();
[[gnu::weak]] void _IO_list_unlock();
[[gnu::weak]] void _IO_list_resetlock();
}

namespace strata::os {
namespace {

// How many times this holds the lock, which guards the count: a signal handler may fork in between.
unsigned g_holds = 0;

}  // namespace

void hold_stream_list() noexcept {
  // A process with one thread does without, as glibc's fork: it may fork in a signal handler.
  if (_IO_list_lock == nullptr || is_single_threaded()) return;
  _IO_list_lock();
  ++g_holds;
}

void let_go_of_stream_list() noexcept {
  if (g_holds == 0) return;
  --g_holds;
  _IO_list_unlock();
}

void reset_stream_list_in_child() noexcept {
  if (g_holds == 0) return;
  g_holds = 0;
  _IO_list_resetlock();
}

}  // namespace strata::os
