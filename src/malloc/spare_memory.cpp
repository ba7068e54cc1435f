#include "malloc/spare_memory.h"
#include <strata/detail/bits.hpp>

#include <algorithm>

#include "base/fatal.h"
#include "os/page_source.h"

namespace strata {

SpareMemory::Block SpareMemory::allocate(std::size_t bytes, std::size_t alignment,
                                         std::size_t limit) noexcept {
  if (bytes > limit) return {nullptr, false};
  const auto base = reinterpret_cast<std::uintptr_t>(bytes_);
  const std::size_t boundary = std::max(alignment, kGrain);
  const std::size_t rounded = std::max(detail::round_up(bytes, kGrain), kGrain);
  State state = state_.load(std::memory_order_relaxed);
  State after;
  std::size_t start;
  do {
    start = detail::round_up(base + state.used + sizeof(Header), boundary) - base;
    if (start > limit || rounded > limit - start) return {nullptr, false};
    after = state;
    after.used = start + rounded;
    after.touched = std::max(after.touched, after.used);
    ++after.live;
  } while (!state_.compare_exchange_weak(state, after, std::memory_order_acquire,
                                         std::memory_order_relaxed));
  unsigned char* const block = bytes_ + start;
  auto* const header = reinterpret_cast<Header*>(block - sizeof(Header));
  header->bytes = rounded;
  header->mark = header->mark_of_live(base + start);
  return {block, start >= state.touched};
}

void SpareMemory::set_apart() noexcept {
  State state = state_.load(std::memory_order_relaxed);
  State after;
  do {  // again if a signal handler took a block meanwhile
    apart_.store(state.used, std::memory_order_relaxed);
    after = state;
    after.live = 0;
  } while (!state_.compare_exchange_weak(state, after, std::memory_order_release,
                                         std::memory_order_relaxed));
}

void SpareMemory::deallocate(void* p) noexcept {
  Header& header = header_of(p, "free");
  const auto block = reinterpret_cast<std::uintptr_t>(p);
  const std::size_t start = block - reinterpret_cast<std::uintptr_t>(bytes_);
  const std::size_t end = start + header.bytes;
  header.mark = header.mark_of_freed(block);
  if (header.bytes >= kLargeBytes) {
    const std::uintptr_t first = detail::round_up(block, os::page_bytes());
    const std::uintptr_t last = detail::round_down(block + header.bytes, os::page_bytes());
    if (first < last) os::kernel::decommit(reinterpret_cast<void*>(first), last - first);
  }
  State state = state_.load(std::memory_order_acquire);
  State after;
  do {  // again, too, if a signal handler has set it apart meanwhile
    const std::size_t apart = apart_.load(std::memory_order_relaxed);
    if (start < apart) return;
    after = state;
    --after.live;
    if (after.used == end) after.used = start - sizeof(Header);
    if (after.live == 0) after.used = apart;
  } while (!state_.compare_exchange_weak(state, after, std::memory_order_release,
                                         std::memory_order_acquire));
}

std::size_t SpareMemory::usable_bytes(const void* p, const char* action) const noexcept {
  return header_of(p, action).bytes;
}

[[gnu::noinline]] SpareMemory::Header& SpareMemory::header_of(const void* p,
                                                              const char* action) const noexcept {
  const auto block = reinterpret_cast<std::uintptr_t>(p);
  const bool is_aligned = block % kGrain == 0;
  const bool has_header =
      is_aligned && block - reinterpret_cast<std::uintptr_t>(bytes_) >= sizeof(Header);
  auto* const header = reinterpret_cast<Header*>(block - sizeof(Header));
  if (has_header && header->mark == header->mark_of_live(block)) return *header;
  const bool is_freed = has_header && header->mark == header->mark_of_freed(block);
  fatal_call(action, p,
             is_freed      ? ": the object is free already"
             : !is_aligned ? ": it is misaligned, no allocation starts there"
                           : ": no allocation starts there, or what lies before it was overwritten",
             is_freed);
}

}  // namespace strata
