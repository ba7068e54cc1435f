#include "malloc/process.h"

#include "base/lock.h"
#include "base/lock_visitor.h"
#include "malloc/features.h"
#include "os/environment.h"
#include "os/process.h"
#include "os/standard_error.h"
#include "os/stream_list.h"
#include "os/threads.h"

namespace strata {
namespace {

constinit Lock g_start_lock{LockRank::kStart};

void on_thread_exit(void*) noexcept { g_malloc.end_thread(t_thread); }

/// A signal handler that forks, to have a debugger look at what it interrupted, may interrupt the
/// malloc, or a fork() that holds its locks: the child gets the locks as they are, and does without
/// them as its parent does. Such forks end before what they interrupted goes on.
///
/// The lock of the list of streams comes first: fork() waits for it after this
/// (docs/decisions/0012).
void before_fork() noexcept STRATA_NO_THREAD_SAFETY_ANALYSIS {
  if (must_not_wait()) {
    ++t_thread.unlocked_forks;
    return;
  }
  os::hold_stream_list();
  g_start_lock.lock();
  g_malloc.for_each_lock(LockVisitor::lock());
}

/// \returns  true if this is the end of a fork() that took no lock
bool ends_unlocked_fork() noexcept {
  if (t_thread.unlocked_forks == 0) return false;
  --t_thread.unlocked_forks;
  return true;
}

// Not analysed, nor is the next: they give back what before_fork() took.
void after_fork_in_parent() noexcept STRATA_NO_THREAD_SAFETY_ANALYSIS {
  if (ends_unlocked_fork()) return;
  g_malloc.for_each_lock(LockVisitor::unlock());
  g_start_lock.unlock();
  os::let_go_of_stream_list();
}

void after_fork_in_child() noexcept STRATA_NO_THREAD_SAFETY_ANALYSIS {
  if (ends_unlocked_fork()) return;
  g_malloc.reset_after_fork(t_thread);
  g_start_lock.reset_after_fork();
  os::reset_stream_list_in_child();
  os::let_go_of_standard_error();
  reset_features_after_fork(g_malloc);
}

void on_exit() noexcept { g_malloc.verify_at_exit(t_thread); }

class ProcessHost final : public MallocHost {
 public:
  bool start(Malloc& malloc) noexcept override {
    {
      LockGuard guard(g_start_lock);
      if (malloc.is_started()) return true;
      // Before any thread can have a cache. Where the C library refuses, the malloc still works:
      // the cache of a thread that ends stays in use.
      if (!is_exit_registered_) is_exit_registered_ = os::register_thread_exit(on_thread_exit);
      Options options;
      read_options(options);
      if (!malloc.start(options, os::random_seed())) return false;
    }
    // These may allocate; the malloc is ready. Without fork handlers fork is as it was.
    os::register_fork_handlers(before_fork, after_fork_in_parent, after_fork_in_child);
    // Before those of the statistics, which so come to their end before it.
    os::register_exit_handler(on_exit);
    start_statistics_of_options(malloc);
    return true;
  }
  bool follow_thread(ThreadCache& cache) noexcept override {
    return os::set_thread_exit_value(&cache);
  }
  void attend() noexcept override { attend_to_features(g_malloc); }

 private:
  bool is_exit_registered_ = false;  // guarded by g_start_lock
};

constinit ProcessHost g_host;

/// Serves calls that must not wait; nothing of it is set before its first use, so that it takes no
/// room in the file.
constinit SpareMemory g_spare;

/// The malloc's fork handlers lock it last and unlock it first if they are the first registered:
/// then those of the program may allocate. So it is made ready before any constructor of the
/// program. This file is in every program that has the malloc from an archive.
[[gnu::constructor(101)]] void start_before_the_program() noexcept {
  deallocate(allocate(1));
  start_watchers_of_options(g_malloc);
}

}  // namespace

constinit Malloc g_malloc{os::kernel_pages(), g_spare, g_host};
constinit thread_local ThreadState t_thread = Malloc::new_thread();

namespace {

/// Apart, so that what is hot of the next one needs no stack.
[[gnu::noinline]] void* allocate_unpopped(std::size_t bytes) noexcept {
  return g_malloc.allocate_slowly(t_thread, bytes);
}

}  // namespace

void* allocate_slowly(std::size_t bytes) noexcept {
  if (void* const object = Malloc::pop_beyond_table(t_thread, bytes)) [[likely]]
    return FreeObject(object).address();
  return allocate_unpopped(bytes);
}
void* allocate_aligned_slowly(std::size_t alignment, std::size_t bytes,
                              bool by_aligned_new) noexcept {
  return g_malloc.allocate_aligned(t_thread, alignment, bytes, by_aligned_new);
}
void deallocate_slowly(void* p) noexcept { g_malloc.deallocate_slowly(t_thread, p, {}); }
void deallocate_slowly(void* p, FreeCall::By by, std::size_t bytes,
                       std::size_t alignment) noexcept {
  g_malloc.deallocate_slowly(t_thread, p, {by, bytes, alignment});
}

}  // namespace strata
