#include "recorder/next.h"

#include <dlfcn.h>

#include <atomic>
#include <cstring>

#include "os/process.h"
#include "os/threads.h"
#include "os/wait.h"
#include "recorder/system.h"

namespace strata::recorder {

Next g_next;
NextOperators g_next_operators;

alignas(64) char g_first_memory[kFirstMemory];

namespace {

std::atomic<std::size_t> g_first_used{0};
std::atomic<bool> g_is_found{false};
std::atomic<std::uint32_t> g_finder{0};

template <typename Function>
void look_up(Function& out, const char* name) noexcept {
  out = reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

bool find_next() noexcept {
  // acquire pairs with the release below: g_next is complete.
  if (g_is_found.load(std::memory_order_acquire)) return true;
  std::uint32_t finder = 0;
  const std::uint32_t self = os::thread_id();
  if (!g_finder.compare_exchange_strong(finder, self, std::memory_order_acq_rel)) {
    if (finder == self) return false;
    // A second thread is rare before main.
    while (!g_is_found.load(std::memory_order_acquire)) os::relax_processor();
    return true;
  }
  look_up(g_next.malloc, "malloc");
  look_up(g_next.free, "free");
  look_up(g_next.calloc, "calloc");
  look_up(g_next.realloc, "realloc");
  look_up(g_next.reallocarray, "reallocarray");
  look_up(g_next.posix_memalign, "posix_memalign");
  look_up(g_next.aligned_alloc, "aligned_alloc");
  look_up(g_next.memalign, "memalign");
  look_up(g_next.valloc, "valloc");
  look_up(g_next.pvalloc, "pvalloc");
  look_up(g_next.free_sized, "free_sized");
  look_up(g_next.free_aligned_sized, "free_aligned_sized");
  if (g_next.malloc == nullptr || g_next.free == nullptr || g_next.calloc == nullptr ||
      g_next.realloc == nullptr) {
    say("strata record: the program has no malloc to record\n");
    os::abort_process();
  }
  g_is_found.store(true, std::memory_order_release);
  return true;
}

bool find_next_operators() noexcept {
  static std::atomic<bool> is_found{false};
  if (is_found.load(std::memory_order_acquire)) return true;
  NextOperators found{};
  look_up(found.make, "_Znwm");
  look_up(found.drop, "_ZdlPv");
  if (found.make == nullptr || found.drop == nullptr) return false;
  look_up(found.make_array, "_Znam");
  look_up(found.make_nothrow, "_ZnwmRKSt9nothrow_t");
  look_up(found.make_array_nothrow, "_ZnamRKSt9nothrow_t");
  look_up(found.make_aligned, "_ZnwmSt11align_val_t");
  look_up(found.make_array_aligned, "_ZnamSt11align_val_t");
  look_up(found.make_aligned_nothrow, "_ZnwmSt11align_val_tRKSt9nothrow_t");
  look_up(found.make_array_aligned_nothrow, "_ZnamSt11align_val_tRKSt9nothrow_t");
  look_up(found.drop_array, "_ZdaPv");
  look_up(found.drop_sized, "_ZdlPvm");
  look_up(found.drop_array_sized, "_ZdaPvm");
  look_up(found.drop_aligned, "_ZdlPvSt11align_val_t");
  look_up(found.drop_array_aligned, "_ZdaPvSt11align_val_t");
  look_up(found.drop_sized_aligned, "_ZdlPvmSt11align_val_t");
  look_up(found.drop_array_sized_aligned, "_ZdaPvmSt11align_val_t");
  Dl_info place{};
  found.are_plain = dladdr(reinterpret_cast<void*>(found.make), &place) != 0 &&
                    (strstr(place.dli_fname, "/libstdc++.so") != nullptr ||
                     strstr(place.dli_fname, "/libc++.so") != nullptr);
  g_next_operators = found;
  is_found.store(true, std::memory_order_release);
  return true;
}

const char* next_library() noexcept {
  Dl_info place{};
  return dladdr(reinterpret_cast<void*>(g_next.malloc), &place) != 0 ? place.dli_fname : nullptr;
}

void* allocate_first(std::size_t bytes, std::size_t alignment) noexcept {
  if (alignment < 16) alignment = 16;
  if (bytes > sizeof g_first_memory || alignment > sizeof g_first_memory) return nullptr;
  const std::size_t taken = ((bytes + 15) & ~std::size_t{15}) + alignment;
  const std::size_t at = g_first_used.fetch_add(taken, std::memory_order_relaxed);
  if (at + taken > sizeof g_first_memory) return nullptr;
  const auto address = reinterpret_cast<std::uintptr_t>(g_first_memory + at);
  return reinterpret_cast<void*>((address + alignment - 1) & ~(alignment - 1));
}

std::size_t first_bytes_from(const void* p) noexcept {
  return static_cast<std::size_t>(g_first_memory + sizeof g_first_memory -
                                  static_cast<const char*>(p));
}

}  // namespace strata::recorder
