// Visible to other libraries: whoever runs their inline functions has their heaps
// (docs/decisions/0014).
#pragma GCC visibility push(default)
#include <strata/heap.hpp>
#pragma GCC visibility pop
#include <strata/detail/bits.hpp>

#include <bit>

#include "base/fatal.h"
#include "base/text_sink.h"
#include "malloc/statistics.h"
#include "os/page_source.h"
#include "size_class/size_class_map.h"
#include "user_heap/heap_table.h"
#include "user_heap/heap_thread.h"
#include "user_heap/user_heap.h"

namespace strata {
namespace {

[[noreturn, gnu::cold]] void die_without_memory(const void* block,
                                                const char* action = "free") noexcept {
  fatal_call(action, block, ": its heap was moved from and has no memory");
}

// The slow paths. The hot paths end with a call of a function that is not inlined, so that they
// save no register.
[[gnu::noinline]] void deallocate_slowly(UserHeap* heap, void* block, std::size_t bytes) noexcept {
  if (block == nullptr) return;
  if (heap == nullptr) die_without_memory(block);
  heap->deallocate(block, {FreeCall::By::kFree, bytes});
}

std::size_t write_as(void (*write)(const Statistics&, TextSink&) noexcept, UserHeap* heap,
                     char* buffer, std::size_t size) noexcept {
  const Statistics now = heap != nullptr ? heap->collect_statistics() : Statistics{};
  BufferSink sink(buffer, size);
  write(now, sink);
  return sink.length();
}

}  // namespace

static_assert(Heap::kMostHeaps == HeapThread::kMostHeaps - 1, "every number but 0 is a heap's");

const char Heap::kNoMemory[] = "Heap: there is no memory for it";
const char Heap::kTooMany[] = "Heap: 32767 of them live, and that is the most";
const char Heap::kNoKey[] = "Heap: the process has no key for its threads left";
const std::size_t Heap::kNoEntry = HeapThread::offset_of(0);

Heap::Heap(UserHeap& heap) noexcept : entry_(HeapThread::offset_of(heap.number())), heap_(&heap) {}

std::optional<Heap> Heap::try_create(const Options& options, const char** reason) noexcept {
  const char* sentence = nullptr;
  UserHeap* heap = nullptr;
  if (options.hard_limit_bytes != 0 && options.soft_limit_bytes > options.hard_limit_bytes) {
    sentence = "Heap: the soft limit is above the hard one";
  } else if (options.checks > Checks::kFrees) {
    sentence = "Heap: there is no such choice of checks";
  } else if (options.huge_pages > HugePages::kNever) {
    sentence = "Heap: there is no such choice of huge pages";
  } else if (options.pages != nullptr &&
             (options.pages->map == nullptr || options.pages->unmap == nullptr)) {
    sentence = "Heap: its page source lacks map or unmap";
  } else {
    HeapTable::Outcome outcome;
    heap = g_heap_table.create(options, outcome);
    if (outcome == HeapTable::Outcome::kNoMemory) sentence = kNoMemory;
    if (outcome == HeapTable::Outcome::kTooMany) sentence = kTooMany;
    if (outcome == HeapTable::Outcome::kNoKey) sentence = kNoKey;
  }
  if (reason != nullptr) *reason = sentence;
  if (heap == nullptr) return std::nullopt;
  return Heap(*heap);
}

void Heap::end() noexcept {
  if (heap_ != nullptr) g_heap_table.destroy(*heap_);
}

void* Heap::allocate(std::size_t bytes) noexcept {
  if (bytes <= SizeClassMap::kMaxTableBytes) [[likely]] {
    void* const object = HeapThread::bins_at(entry_).pop_plain(SizeClassMap::class_of_tiny(bytes));
    if (object != nullptr) [[likely]]
      return object;
    return allocate_uncached(bytes);
  }
  return allocate_beyond_table(bytes);
}

[[gnu::noinline]] void* Heap::allocate_beyond_table(std::size_t bytes) noexcept {
  if (bytes <= SizeClassMap::kMaxBytes) [[likely]] {
    void* const object = HeapThread::bins_at(entry_).pop(SizeClassMap::class_of_step(bytes));
    if (object != nullptr) [[likely]]
      return FreeObject(object).address();
  }
  return allocate_uncached(bytes);
}

[[gnu::noinline]] void* Heap::allocate_uncached(std::size_t bytes) noexcept {
  return heap_ != nullptr ? heap_->allocate(bytes) : nullptr;
}

void Heap::deallocate(void* block) noexcept {
  if (HeapThread::bins_at(entry_).push(g_heap_map.class_of(block), block)) [[likely]]
    return;
  deallocate_slowly(heap_, block, FreeCall::kUnsaid);
}

void Heap::deallocate(void* block, std::size_t bytes) noexcept {
  if (HeapThread::bins_at(entry_).push(g_heap_map.class_of(block), block)) [[likely]]
    return;
  deallocate_slowly(heap_, block, bytes);
}

Heap::SizeClass Heap::size_class_of(std::size_t bytes) noexcept {
  return SizeClass{SizeClassMap::class_of(bytes)};
}

void* Heap::allocate_raw(SizeClass size_class) noexcept {
  void* const object = HeapThread::bins_at(entry_).pop(static_cast<std::size_t>(size_class));
  if (object != nullptr) [[likely]]
    return FreeObject(object).address();
  const std::size_t bytes = SizeClassMap::bytes_of(static_cast<std::size_t>(size_class));
  return bytes != 0 ? allocate_uncached(bytes) : nullptr;
}

void Heap::deallocate_raw(void* block, SizeClass size_class) noexcept {
  // Not the class that is said: what a profile or a signal handler got lies in none.
  if (HeapThread::bins_at(entry_).push(g_heap_map.class_of(block), block)) [[likely]]
    return;
  deallocate_slowly(heap_, block, SizeClassMap::bytes_of(static_cast<std::size_t>(size_class)));
}

void* Heap::allocate_zeroed(std::size_t count, std::size_t bytes) noexcept {
  return heap_ != nullptr ? heap_->allocate_zeroed(count, bytes) : nullptr;
}

void* Heap::allocate_aligned(std::size_t bytes, std::size_t alignment) noexcept {
  if (heap_ == nullptr || !std::has_single_bit(alignment)) return nullptr;
  return heap_->allocate_aligned(alignment, bytes);
}

void* Heap::reallocate(void* block, std::size_t bytes) noexcept {
  if (heap_ != nullptr) return heap_->reallocate(block, bytes);
  if (block != nullptr) die_without_memory(block, "realloc");
  return nullptr;
}

std::size_t Heap::usable_size(const void* block) const noexcept {
  if (heap_ != nullptr) return heap_->usable_bytes(block);
  if (block != nullptr) die_without_memory(block, "malloc_usable_size");
  return 0;
}

bool Heap::resize_in_place(void* block, std::size_t bytes) noexcept {
  if (heap_ != nullptr) return heap_->resize_in_place(block, bytes);
  if (block != nullptr) die_without_memory(block, "realloc");
  return false;
}

std::size_t Heap::good_size(std::size_t bytes) noexcept {
  if (const unsigned size_class = SizeClassMap::class_of(bytes))
    return SizeClassMap::bytes_of(size_class);
  const std::size_t page = bytes <= Engine::kMaxLargeBytes ? kPageBytes : os::page_bytes();
  if (bytes > Engine::kMaxBytes - (page - 1)) return 0;
  return detail::round_up(bytes, page);
}

bool Heap::owns(const void* address) const noexcept {
  return heap_ != nullptr && heap_->owns(address);
}

void Heap::reset() noexcept {
  if (heap_ != nullptr) heap_->reset();
}

bool Heap::release_memory() noexcept { return heap_ != nullptr && heap_->release_memory(); }

const char* Heap::name() const noexcept { return heap_ != nullptr ? heap_->name() : ""; }

Heap::Statistics Heap::statistics() const noexcept {
  if (heap_ == nullptr) return {};
  const strata::Statistics now = heap_->collect_statistics();
  Statistics out;
  out.mapped = now.mapped;
  out.live = now.live;
  out.cached = now.cached;
  out.free = now.free();
  out.metadata = now.metadata;
  out.returned = now.returned();
  out.held = now.limit.held;
  out.peak = now.limit.peak;
  out.soft_limit = now.limit.soft_limit;
  out.hard_limit = now.limit.hard_limit;
  out.refusals = now.limit.refusals;
  out.threads = now.threads;
  return out;
}

std::size_t Heap::write_statistics(char* buffer, std::size_t size) const noexcept {
  return write_as(strata::write_statistics, heap_, buffer, size);
}

std::size_t Heap::write_statistics_json(char* buffer, std::size_t size) const noexcept {
  return write_as(strata::write_statistics_json, heap_, buffer, size);
}

bool Heap::start_profile(std::size_t rate) noexcept { return g_heap_table.start_profile(rate); }

void Heap::stop_profile() noexcept { g_heap_table.stop_profile(); }

bool Heap::write_profile(const char* path) noexcept {
  return !must_not_wait() && g_heap_table.profile().write(path);
}

void Heap::check_invariants() const noexcept {
  if (heap_ != nullptr) heap_->check_invariants();
}

}  // namespace strata
