#include "user_heap/heap_table.h"

#include <new>

#include "base/fatal.h"
#include "base/lock.h"
#include "base/random.h"
#include "malloc/options.h"
#include "os/environment.h"
#include "os/helper_thread.h"
#include "os/process.h"
#include "os/stack.h"
#include "os/symbol.h"
#include "os/threads.h"
#include "os/wait.h"
#include "user_heap/heap_environment.h"

namespace strata {

// The malloc's page map, if the program has the malloc from the same archive; naming it here links
// nothing of it.
[[gnu::weak]] extern constinit PageMap g_page_map;
[[gnu::weak]] extern constinit MallocInstance g_malloc;

}  // namespace strata

/// The malloc's, from the same archive.
extern "C" [[gnu::weak]] strata::SharedLimit* strata_shared_limit_1() noexcept;

namespace strata {

constinit PageMap g_heap_map;
constinit HeapTable g_heap_table{os::kernel_pages()};

namespace {

// Outside the table, so that they take no room in the binary. Guarded by its lock, except for reads
// by a thread that is about to die.
constinit std::atomic<UserHeap*> g_heaps[HeapThread::kMostHeaps];
constinit HeapNumber g_returned_numbers[HeapThread::kMostHeaps];

// Functions of another copy of Strata's malloc, by the layout of what they return.
using FindLimit = SharedLimit* (*)() noexcept;
constexpr char kFindLimit[] = "strata_shared_limit_1";

/// Whether this thread is reading the environment, which may allocate: from heaps, if they are the
/// program's malloc.
constinit thread_local bool t_reads_environment = false;

bool has_malloc() noexcept { return &g_page_map != nullptr && &g_malloc != nullptr; }

/// Whether this thread's exit hook has run: it gets no table any more.
constinit thread_local bool t_has_ended = false;

void on_exit() noexcept { g_heap_table.verify_at_exit(); }

/// Registers the fork handlers before the program's, so that these can allocate from heaps and find
/// the locks free; and the exit handler, so that it runs after the program's.
[[gnu::constructor(102)]] void take_part_before_the_program() noexcept {
  take_part_in_forks(g_heap_table);
  os::register_exit_handler(on_exit);
}

/// Keeps this file loaded: threads that end later run its code. Called as it is loaded: a thread
/// that makes the first heap must not wait for the dynamic loader, since a library's constructor
/// may wait for that thread.
[[gnu::constructor]] void stay_loaded() { os::stay_loaded(); }

}  // namespace

// Making and ending heaps.

/// Makes what the first heap needs.
/// It can be tried again.
/// \returns  False when out of memory or, with the map made, if the C library has no key left.
bool HeapTable::start() noexcept {
  if (is_started_) return true;
  random_ = random_of_environment();
  if (!has_map_ &&
      !regions_.start(random_ != Options::kRandomOff ? random_word(seed_of(random_), 0) : 0))
    return false;
  has_map_ = true;
  if (!os::create_thread_key(exit_key_, on_thread_exit)) return false;
  new (g_no_heap_table) HeapThread();
  g_heap_map.set_names(this);
  if (has_malloc()) g_page_map.set_names(this);
  profile().set_heaps(*this);
  set_about_address(name_heap_of);
  is_started_ = true;
  return true;
}

/// Prepares guarded blocks to report faults and stacks. May call dlopen: no lock is held.
void HeapTable::prepare_guards() noexcept {
  {
    LockGuard guard(lock_);
    if (has_guards_) return;
    has_guards_ = true;
  }
  os::prepare_stacks();
  os::install_fault_handler(explain);
}

/// The heap whose guard pool `p` points into, nullptr if there is none. Takes no lock.
UserHeap* HeapTable::guarding_heap(const void* p) noexcept {
  for (const auto& each : g_heaps) {
    UserHeap* const heap = each.load(std::memory_order_acquire);
    MallocInstance* const malloc = heap != nullptr ? heap->malloc_if_made() : nullptr;
    if (malloc != nullptr && malloc->guards().owns(p)) return heap;
  }
  return nullptr;
}

bool HeapTable::explain(const os::Fault& fault) noexcept {
  UserHeap* const heap = g_heap_table.guarding_heap(fault.address);
  return heap != nullptr && heap->malloc_if_made()->guards().explain(fault);
}

/// Reads the environment. No heap is made before, except by what this calls.
void HeapTable::read_environment_once() noexcept {
  if (environment_.load(std::memory_order_acquire) == kRead || t_reads_environment) return;
  t_reads_environment = true;
  // Each thread asks the dynamic loader before one of them reads, and for that one all wait: it may
  // be a library's constructor that makes a heap, and its thread has the loader's lock.
  SharedLimit* const of_malloc = ask_loader();
  std::uint32_t state = kUnread;
  if (environment_.compare_exchange_strong(state, kReading, std::memory_order_acquire)) {
    read_environment(of_malloc);
    environment_.store(kRead, std::memory_order_release);
  }
  t_reads_environment = false;
  constexpr std::uint64_t kNapNs = 1'000'000;
  const auto* const word = os::futex_word(environment_);
  while (environment_.load(std::memory_order_acquire) == kReading)
    os::wait_on(word, kReading, kNapNs);
}

/// Asks the dynamic loader for what reading the environment may need. May allocate: no lock is
/// held.
/// \returns  the limit of the process's malloc; nullptr if it has none, or is not Strata's
SharedLimit* HeapTable::ask_loader() noexcept {
  if (!is_any_option_set()) return nullptr;
  const auto is_set = [](const char* name) { return os::environment_variable(name) != nullptr; };
  if (!has_malloc() && (is_set("STRATA_PROFILE") || is_set("STRATA_LEAKS"))) os::prepare_stacks();
  FindLimit find = strata_shared_limit_1;
  if (find == nullptr && (is_set("STRATA_SOFT_LIMIT") || is_set("STRATA_HARD_LIMIT")))
    find = reinterpret_cast<FindLimit>(os::find_function(kFindLimit));
  return find != nullptr ? find() : nullptr;
}

/// Reads what the environment asks of the profile and of limits. May allocate: no lock is held.
void HeapTable::read_environment(SharedLimit* of_malloc) noexcept {
  if (!is_any_option_set()) return;
  Options options;
  if (!has_malloc()) {
    read_options(options);
    settle_limits(options);
    start_profile_of_environment(own_profile_, options);
  }
  limit_ = of_malloc;
  if (limit_ == nullptr) {
    own_limit_.configure(options.soft_limit, options.hard_limit);
    if (own_limit_.is_any()) limit_ = &own_limit_;
  }
  if (limit_ != nullptr) limit_->add(holders_);
}

UserHeap* HeapTable::create(const Heap::Options& options, Outcome& outcome) noexcept {
  outcome = Outcome::kNoMemory;
  if (must_not_wait()) return nullptr;
  if (options.guard_rate != 0 || options.checks == Heap::Checks::kFull) prepare_guards();
  read_environment_once();
  LockGuard guard(lock_);
  if (!start()) {
    if (has_map_) outcome = Outcome::kNoKey;
    return nullptr;
  }
  if (returned_count_ == 0 && next_number_ == HeapThread::kMostHeaps) {
    outcome = Outcome::kTooMany;
    return nullptr;
  }
  void* const memory = metadata_.allocate(sizeof(UserHeap));
  if (memory == nullptr) return nullptr;
  void* const pages = options.pages != nullptr ? metadata_.allocate(sizeof(UserPages)) : nullptr;
  if (options.pages != nullptr && pages == nullptr) {
    metadata_.deallocate(memory, sizeof(UserHeap));
    return nullptr;
  }
  const HeapNumber number = returned_count_ != 0 ? g_returned_numbers[--returned_count_]
                                                 : static_cast<HeapNumber>(next_number_++);
  auto* const heap = new (memory) UserHeap(
      number, options, pages != nullptr ? new (pages) UserPages(*options.pages, number) : nullptr);
  g_heaps[number].store(heap, std::memory_order_release);
  outcome = Outcome::kMade;
  return heap;
}

void HeapTable::destroy(UserHeap& heap) noexcept {
  if (must_not_wait()) return;  // lost, with what it holds
  const HeapNumber number = heap.number();
  heap.verify_objects();  // while its name is known
  {
    LockGuard guard(lock_);
    while (HeapUse* const use = heap.uses.front()) remove(*use);
    g_heaps[number].store(nullptr, std::memory_order_relaxed);
    ending_.push_front(heap);
  }
  heap.discard();
  {
    LockGuard guard(lock_);
    ending_.remove(heap);
  }
  heap.give_back_malloc();
  if (heap.pages() != nullptr) metadata_.deallocate(heap.pages(), sizeof(UserPages));
  heap.~UserHeap();
  metadata_.deallocate(&heap, sizeof(UserHeap));
  // Nothing in the page map says the number any more.
  LockGuard guard(lock_);
  g_returned_numbers[returned_count_++] = number;
}

UserHeap* HeapTable::next_made(std::size_t number) noexcept {
  for (; number < next_number_; ++number) {
    UserHeap* const heap = g_heaps[number].load(std::memory_order_relaxed);
    if (heap != nullptr && heap->malloc_if_made() != nullptr) return heap;
  }
  return nullptr;
}

// Threads.

/// \returns  nullptr when out of memory, or if the thread is about to end
HeapThread* HeapTable::this_thread() noexcept {
  if (t_heap_table != g_no_heap_table) return reinterpret_cast<HeapThread*>(t_heap_table);
  if (t_has_ended) return nullptr;
  void* const memory = pages_.map_apart(HeapThread::kBytes);
  if (memory == nullptr) return nullptr;
  auto* const thread = new (memory) HeapThread();
  {
    LockGuard guard(lock_);
    threads_.push_front(*thread);
    t_heap_table = static_cast<char*>(memory);
  }
  // May allocate through the process's malloc, which may be a heap: no lock is held, and the thread
  // has its table.
  if (os::set_thread_value(exit_key_, thread)) return thread;
  forget(*thread);
  return nullptr;
}

HeapUse* HeapTable::use_here(UserHeap& heap) noexcept {
  HeapThread* const thread = this_thread();
  if (thread == nullptr) return nullptr;
  if (HeapUse* const use = thread->use_of(heap.number())) return use;
  void* const memory = heap.malloc_if_made()->engine().metadata().allocate(sizeof(HeapUse));
  if (memory == nullptr) return nullptr;
  auto* const use = new (memory) HeapUse{{}, {}, MallocInstance::new_thread(), &heap, thread};
  LockGuard guard(lock_);
  thread->uses().push_front(*use);
  heap.uses.push_front(*use);
  thread->set_use(heap.number(), use);
  return use;
}

void HeapTable::remove(HeapUse& use) noexcept {
  use.thread->set_bins(use.heap->number(), nullptr);
  use.thread->set_use(use.heap->number(), nullptr);
  use.thread->uses().remove(use);
  use.heap->uses.remove(use);
}

/// In the child of a fork the C library takes a new thread's value for the key from a thread that
/// was about to end in the parent: it gives the new one that thread's stack, and clears only values
/// of threads that were not about to end. That table is gone.
void HeapTable::on_thread_exit(void* thread) noexcept {
  os::HelperThread::note_end();
  if (thread != t_heap_table) return;
  t_has_ended = true;
  g_heap_table.forget(*static_cast<HeapThread*>(thread));
}

/// Takes the calling thread's table. Its caches wait in their heaps for the next threads; without a
/// table it allocates and frees past caches.
void HeapTable::forget(HeapThread& thread) noexcept {
  t_heap_table = g_no_heap_table;
  if (must_not_wait()) return;  // they are lost, with what they hold
  {
    // A heap may end meanwhile, in another thread: it takes its uses off our list before.
    LockGuard guard(lock_);
    while (HeapUse* const use = thread.uses().front()) {
      MallocInstance& malloc = *use->heap->malloc_if_made();
      malloc.end_thread_alone(use->state);
      remove(*use);
      malloc.engine().metadata().deallocate(use, sizeof(HeapUse));
    }
    threads_.remove(thread);
  }
  pages_.unmap_apart(&thread, HeapThread::kBytes);
}

// Names.

bool HeapTable::find_owner(const void* p, HeapNumber& owner) noexcept {
  if (const Region* const region = g_heap_map.region_of(p)) {
    owner = region->owner;
    return true;
  }
  for (const auto& each : g_heaps) {
    UserHeap* const heap = each.load(std::memory_order_acquire);
    if (heap == nullptr || !heap->owns(p)) continue;
    owner = heap->number();
    return true;
  }
  owner = 0;
  return has_malloc() && (g_malloc.owns(p) || g_malloc.is_spare(p));
}

void HeapTable::write_name(HeapNumber number, TextWriter& out) noexcept {
  const UserHeap* const heap = g_heaps[number].load(std::memory_order_acquire);
  if (number == 0) {
    out.text("the malloc");
  } else if (heap == nullptr) {
    out.text("a heap that has ended");
  } else if (heap->name()[0] == '\0') {
    out.text("heap ").decimal(number);
  } else {
    out.text("the heap '").name(heap->name()).text("'");
  }
}

// The profile.

HeapProfile& HeapTable::profile() noexcept {
  return has_malloc() ? g_malloc.profiler().profile() : own_profile_;
}

bool HeapTable::start_profile(std::size_t rate) noexcept {
  if (must_not_wait()) return false;
  {
    LockGuard guard(lock_);
    if (!start()) return false;
  }
  const std::uint64_t seed = seed_of(random_);
  return has_malloc() ? g_malloc.profiler().start(rate, seed) : profile().start(rate, seed);
}

void HeapTable::stop_profile() noexcept {
  if (must_not_wait()) return;
  if (has_malloc()) return g_malloc.profiler().stop();
  profile().stop();
}

/// Hides all threads' bins of a heap whose watch has begun, as the hot paths would bypass the
/// watch. Between the two is a barrier in all threads: a thread that shows its bins either sees the
/// watch afterwards, and hides them itself, or has shown them before. If the kernel has no such
/// barrier, one may be missed in that instant.
void HeapTable::hide_bins(UserHeap& heap) noexcept {
  for (const HeapUse& use : heap.uses) use.thread->set_bins(heap.number(), nullptr);
}

void HeapTable::follow_profile(UserHeap& heap) noexcept {
  Profiler& profiler = heap.malloc_if_made()->profiler();
  LockGuard guard(lock_);
  if (!profile().is_on()) return profiler.unwatch();
  profiler.watch();
  os::barrier_in_all_threads();
  hide_bins(heap);
}

void HeapTable::begin_watches() noexcept {
  LockGuard guard(lock_);
  for_each_made([](UserHeap& heap) { heap.malloc_if_made()->profiler().watch(); });
  os::barrier_in_all_threads();
  for_each_made(hide_bins);
}

void HeapTable::end_watches() noexcept {
  LockGuard guard(lock_);
  for_each_made([](UserHeap& heap) { heap.malloc_if_made()->profiler().unwatch(); });
}

// Fork. The table's lock comes first, then those of one heap after the other.

void HeapTable::before_fork() noexcept {
  LocksInFork::hold(lock_);
  for (const auto& slot : g_heaps) {
    LocksInFork::begin_next();
    if (UserHeap* const heap = slot.load(std::memory_order_relaxed)) heap->hold_locks_for_fork();
  }
  LocksInFork::begin_next();
  LocksInFork::hold(own_profile_.sites().lock());
  regions_.hold_locks_for_fork();
  LocksInFork::hold(metadata_.lock());
  LocksInFork::hold(g_heap_map.lock());
  LocksInFork::hold(bookkeeping_.lock());
  LocksInFork::hold(mallocs_.lock());
}

void HeapTable::after_fork_in_child() noexcept {
  // The other threads do not exist; their caches are lost with them, as the malloc's.
  HeapThread* own =
      t_heap_table != g_no_heap_table ? reinterpret_cast<HeapThread*>(t_heap_table) : nullptr;
  for (const auto& slot : g_heaps) {
    UserHeap* const heap = slot.load(std::memory_order_relaxed);
    if (heap == nullptr) continue;
    heap->reset_after_fork(own != nullptr ? own->use_of(heap->number()) : nullptr);
  }
  for (UserHeap& heap : ending_) heap.stop_sharing_limit();
  for (HeapThread* thread = threads_.front(); thread != nullptr;) {
    HeapThread* const next = threads_.next(*thread);
    if (thread != own) {
      while (HeapUse* const use = thread->uses().front()) remove(*use);
      threads_.remove(*thread);
      pages_.unmap_apart(thread, HeapThread::kBytes);
    }
    thread = next;
  }
  os::HelperThread::reset_after_fork();
  reclaimer_.reset_after_fork();
  own_limit_.reset_after_fork();
  std::uint32_t reading = kReading;  // by a thread that does not exist here
  environment_.compare_exchange_strong(reading, kUnread, std::memory_order_relaxed);
}

}  // namespace strata
