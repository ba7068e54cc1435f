#include "malloc/process.h"

#include <atomic>

#include "base/lock.h"
#include "base/shared_limit.h"
#include "malloc/features.h"
#include "malloc/fork.h"
#include "os/clock.h"
#include "os/helper_thread.h"
#include "os/process.h"
#include "os/standard_error.h"
#include "os/threads.h"

namespace strata {
namespace {

constinit Lock g_start_lock{LockRank::kStart};

/// Zero until its first use, so that it takes no room in the binary.
constinit SpareMemory g_spare;

constexpr char kNotAsked = 1;  // for g_alone

/// The options' limits, for the malloc and the user's heaps.
constinit SharedLimit g_limit;

/// The malloc as one of the holders of memory under these limits.
constinit SharedLimit::Holders g_holder{
    .next_idle = [](SharedLimit::Idle last) noexcept -> SharedLimit::Idle {
      const std::size_t idle = g_malloc.engine().idle_hint();
      return {idle < last.bytes ? idle : 0, 0};
    },
    .next = [](std::size_t from) noexcept { return from == 0 ? from : SharedLimit::kNone; },
    .give_back =
        [](std::size_t) noexcept {
          if (!must_not_wait()) g_malloc.release_memory_for_others();
        }};

void on_thread_exit(void*) noexcept {
  os::HelperThread::note_end();
  g_malloc.end_thread(t_thread);
}

class ProcessInForks final : public ForkParty {
 public:
  void before_fork() noexcept override {
    LocksInFork::hold(g_start_lock);
    g_malloc.hold_locks_for_fork();
  }
  void after_fork_in_child() noexcept override {
    os::HelperThread::reset_after_fork();
    g_malloc.reset_after_fork(t_thread);
    os::let_go_of_standard_error();
    g_limit.reset_after_fork();
    reset_features_after_fork(g_malloc);
  }
};

constinit ProcessInForks g_in_forks;

void on_exit() noexcept;

class ProcessHost final : public MallocHost {
 public:
  bool start(MallocInstance& malloc) noexcept override {
    bool is_started;
    {
      LockGuard guard(g_start_lock);
      if (malloc.is_started()) return true;
      // Before any thread can have a cache. Where the C library refuses, the malloc still works:
      // the cache of a thread that ends stays in use, until a key is had for later threads.
      if (!has_exit_key_.load(std::memory_order_relaxed)) make_exit_key();
      Options options;
      if (has_options()) read_options_once(malloc, options);
      share_limit(malloc, options);
      is_started = malloc.start(options, seed_of(options.random));
      if (is_started) g_spare.set_apart();
    }
    // Also where there is no room: each call tries the start again, under a lock that no other
    // thread may hold while the process is copied.
    follow_forks_in_time();
    if (!is_started) return false;
    if (!has_seen_calloc_.load(std::memory_order_relaxed)) follow_exit();
    // The end of the first thread is followed even under full checks, which give it no cache.
    follow_end(&malloc);
    start_statistics_of_options(malloc);
    return true;
  }
  /// Only while the process has one thread and nothing is asked of the malloc that needs all its
  /// blocks, and if the heap can start before a filter refuses the system calls for it.
  bool count_first_block() noexcept override {
    if (learns_of_filters == nullptr || !learns_of_filters() || !os::is_single_threaded() ||
        first_blocks_ >= kMostFirstBlocks || has_options()) {
      return false;
    }
    ++first_blocks_;
    return true;
  }
  bool follow_thread(ThreadCache& cache) noexcept override {
    if (*g_alone.load(std::memory_order_relaxed) == 0) follow_forks();
    return follow_end(&cache);
  }
  void attend() noexcept override { attend_to_features(g_malloc); }
  void begin_guards(MallocInstance& malloc, GuardPool& pool,
                    const GuardPool::Size& size) noexcept override {
    strata::begin_guards(malloc, pool, size);
  }
  void begin_empty_blocks(MallocInstance& malloc) noexcept override {
    strata::begin_empty_blocks(malloc);
  }
  std::uint64_t cpu_ns() noexcept override { return os::process_cpu_ns(); }

  /// May allocate; no lock is held. If there is no room for handlers, fork is as it was.
  void follow_forks() noexcept override {
    if (follows_forks_.exchange(true, std::memory_order_relaxed)) return;
    g_alone.store(&kNotAsked, std::memory_order_relaxed);
    take_part_in_forks(g_in_forks);
  }
  /// May allocate; no lock is held.
  void follow_exit() noexcept {
    if (!follows_exit_.exchange(true, std::memory_order_relaxed))
      os::register_exit_handler(on_exit);
  }
  /// Notes a calloc before the start, which may cause the start. It may be the C library's own,
  /// which makes room for exit handlers under a lock: follow_exit() would wait for that, so the
  /// constructor calls follow_exit().
  void note_calloc() noexcept { has_seen_calloc_.store(true, std::memory_order_relaxed); }

  /// Whether any option is set when this is first called: what the program itself sets comes too
  /// late.
  bool has_options() noexcept {
    Answer answer = has_options_.load(std::memory_order_relaxed);
    if (answer == Answer::kUnknown) {
      answer = is_any_option_set() ? Answer::kYes : Answer::kNo;
      has_options_.store(answer, std::memory_order_relaxed);
    }
    return answer == Answer::kYes;
  }

 private:
  enum class Answer : char { kUnknown, kYes, kNo };

  /// Registers now, or with the second thread: registering touches 200 KiB of the C library that a
  /// small program needs for nothing else. Options may ask for features that need it at once.
  void follow_forks_in_time() noexcept {
    const char* const note = os::single_threaded_note();
    if (has_options() || note == nullptr || *note == 0 || learns_of_forks == nullptr ||
        !learns_of_forks())
      return follow_forks();
    if (!follows_forks_.load(std::memory_order_relaxed))
      g_alone.store(note, std::memory_order_relaxed);
  }

  /// Reads the environment at the first call: later ones try again, as it was, what had no room.
  [[gnu::noinline]] void read_options_once(const MallocInstance& malloc, Options& options) noexcept
      STRATA_REQUIRES(g_start_lock) {
    if (has_read_options_) {
      options = malloc.options();
      return;
    }
    has_read_options_ = true;
    read_options(options);
    settle_limits(options);
    keep_texts(options);
  }

  /// Applies the options' limits to the malloc and all user heaps together.
  static void share_limit(MallocInstance& malloc, const Options& options) noexcept {
    g_limit.configure(options.soft_limit, options.hard_limit);
    if (g_limit.is_any() && malloc.engine().limit().shared() == nullptr)
      malloc.engine().limit().share(g_limit);
  }

  /// Calls on_thread_exit(value) when the calling thread ends.
  [[gnu::noinline]] bool follow_end(void* value) noexcept {
    if (!has_exit_key_.load(std::memory_order_acquire) && !make_exit_key_later()) [[unlikely]]
      return false;
    return os::set_thread_value(exit_key_, value);
  }
  void make_exit_key() noexcept STRATA_REQUIRES(g_start_lock) {
    if (os::create_thread_key(exit_key_, on_thread_exit))
      has_exit_key_.store(true, std::memory_order_release);
  }
  /// Tries again: the C library had no key left, and may have one now.
  [[gnu::cold, gnu::noinline]] bool make_exit_key_later() noexcept {
    LockGuard guard(g_start_lock);
    if (!has_exit_key_.load(std::memory_order_relaxed)) make_exit_key();
    return has_exit_key_.load(std::memory_order_relaxed);
  }

  // Chosen: with 512, bash and gawk need a heap (docs/decisions/0023). Each such call takes longer
  // than one that the heap serves.
  static constexpr unsigned kMostFirstBlocks = 1024;

  std::atomic<bool> has_exit_key_{false};  // release after the key is written, acquire before use
  unsigned exit_key_ = 0;
  // relaxed: whoever sets one does what it stands for, and nobody waits for it.
  std::atomic<bool> follows_forks_{false};
  std::atomic<bool> follows_exit_{false};
  std::atomic<bool> has_seen_calloc_{false};
  std::atomic<Answer> has_options_{Answer::kUnknown};
  bool has_read_options_ STRATA_GUARDED_BY(g_start_lock) = false;
  unsigned first_blocks_ = 0;  // of the only thread
};

constinit ProcessHost g_host;

void on_exit() noexcept {
  if (g_host.has_options()) print_statistics_at_exit(g_malloc);
  if (!must_not_wait()) g_malloc.verify_at_exit(t_thread);
}

/// The kernel's pages, except for the first chunk, which is a variable.
class FirstChunkPages final : public os::PageSource {
 public:
  void* map_apart(std::size_t bytes) noexcept override {
    static constinit bool is_given = false;  // guarded by the lock of the one arena that asks
    if (g_first_chunk == nullptr || is_given || bytes != sizeof g_first_chunk)
      return os::kernel::map_apart(bytes);
    is_given = true;
    return g_first_chunk;
  }
};

// It contains only its table of functions, which the loader makes read-only.
[[gnu::section(".data.rel.ro.bookkeeping")]] constinit FirstChunkPages g_bookkeeping;

/// If the malloc's fork handlers are registered first, they lock it last and unlock it first, so
/// the program's handlers may allocate. The shared library sees when the program registers its own;
/// an archive registers the malloc's before any constructor of the program. The malloc itself
/// starts when the program needs a heap, which some never do, unless an option asks for more. This
/// file is in every program that has the malloc from an archive.
[[gnu::constructor(101)]] void start_before_the_program() noexcept {
  if (learns_of_forks == nullptr) follow_forks();
  g_host.follow_exit();
  if (!g_host.has_options()) return;
  g_malloc.is_ready();
  start_watchers_of_options(g_malloc);
}

}  // namespace

constinit std::atomic<const char*> g_alone{&kNotAsked};
constinit PageMap g_page_map;
constinit MallocInstance g_malloc{
    {.pages = os::kernel_pages(), .bookkeeping = &g_bookkeeping}, g_page_map, g_spare, g_host};
constinit thread_local ThreadState t_thread = MallocInstance::new_thread();

void follow_forks() noexcept { g_host.follow_forks(); }

namespace {

/// Separate, so that the hot part of the next function needs no stack.
[[gnu::noinline]] void* allocate_unpopped(std::size_t bytes, Allocation::By by) noexcept {
  void* const empty = bytes == 0 ? g_malloc.take_empty(t_thread) : nullptr;
  return empty != nullptr ? empty : g_malloc.allocate_slowly(t_thread, bytes, by);
}

/// Allocates sizes that are not in the table of classes: those beyond it, and 0.
[[gnu::always_inline]] inline void* allocate_untabled(std::size_t bytes,
                                                      Allocation::By by) noexcept {
  if (void* const object = HotPath::pop_beyond_table_or_verify(t_thread, g_page_map, bytes))
      [[likely]]
    return FreeObject(object).address();
  if (void* const object = bytes == 0 ? g_malloc.pop_for_nothing(t_thread) : nullptr) return object;
  if (bytes > SizeClassMap::kMaxBytes) return g_malloc.allocate_block(t_thread, bytes, by);
  return allocate_unpopped(bytes, by);
}

constexpr FreeCall kPlainFree{};

}  // namespace

void* allocate_slowly(std::size_t bytes) noexcept {
  return allocate_untabled(bytes, Allocation::By::kMalloc);
}
void* allocate_slowly(std::size_t bytes, Allocation::By by) noexcept {
  return allocate_untabled(bytes, by);
}
void* allocate_aligned_slowly(std::size_t alignment, std::size_t bytes,
                              Allocation::By by) noexcept {
  if (void* const object = HotPath::pop_aligned_or_verify(t_thread, g_page_map, alignment, bytes))
      [[likely]]
    return FreeObject(object).address();
  return g_malloc.allocate_aligned(t_thread, alignment, bytes, by);
}
void* allocate_zeroed_slowly(std::size_t count, std::size_t bytes) noexcept {
  if (*g_alone.load(std::memory_order_relaxed) == 0) [[unlikely]]
    follow_forks();
  if (!g_malloc.is_started()) [[unlikely]]
    g_host.note_calloc();
  return g_malloc.allocate_zeroed(t_thread, count, bytes);
}
void deallocate_slowly(void* p, const void* caller) noexcept {
  if (!g_malloc.take_back_empty(p) &&
      !g_malloc.try_deallocate_pages(t_thread, p, kPlainFree, caller))
    g_malloc.deallocate_slowly(t_thread, p, kPlainFree, caller);
}
void deallocate_slowly(void* p, FreeCall::By by, std::size_t bytes,
                       std::size_t alignment) noexcept {
  const FreeCall call{by, bytes, alignment};
  if (!HotPath::push_verified(t_thread, g_page_map, p, call) &&
      !g_malloc.try_deallocate_pages(t_thread, p, call))
    g_malloc.deallocate_slowly(t_thread, p, call);
}

}  // namespace strata

strata::SharedLimit* strata_shared_limit_1() noexcept {
  using namespace strata;
  // Where memory is out, what the options say is known all the same.
  if (!must_not_wait()) g_malloc.is_ready();
  if (!g_limit.is_any()) return nullptr;
  // Accepted: if a signal handler that interrupted the malloc makes the first heap, the malloc is
  // never asked for what it has idle.
  if (must_not_wait()) return &g_limit;
  LockGuard guard(g_start_lock);  // a fork waits until it is added
  g_limit.add(g_holder);
  return &g_limit;
}
