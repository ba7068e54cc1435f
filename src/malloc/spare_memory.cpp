#include "malloc/spare_memory.h"

#include <algorithm>

#include "base/fatal.h"
#include "base/text_writer.h"

namespace strata {

void* SpareMemory::allocate(std::size_t bytes, std::size_t alignment) noexcept {
  if (bytes > kBytes || alignment > kBytes) return nullptr;
  const auto base = reinterpret_cast<std::uintptr_t>(bytes_);
  const std::size_t boundary = std::max(alignment, kGrain);
  const std::size_t rounded = std::max((bytes + kGrain - 1) & ~(kGrain - 1), kGrain);
  std::uint64_t state = state_.load(std::memory_order_relaxed);
  std::size_t start;
  do {
    const std::uintptr_t behind_header = base + (state & kUsedMask) + sizeof(Header);
    start = ((behind_header + boundary - 1) & ~(boundary - 1)) - base;
    if (start > kBytes || rounded > kBytes - start) return nullptr;
  } while (!state_.compare_exchange_weak(
      state, ((state >> kLiveShift) + 1) << kLiveShift | (start + rounded),
      std::memory_order_acquire, std::memory_order_relaxed));
  unsigned char* const block = bytes_ + start;
  *reinterpret_cast<Header*>(block - sizeof(Header)) = {block, rounded};
  return block;
}

void SpareMemory::deallocate(void* p) noexcept {
  Header& header = header_of(p, "free");
  const auto start = static_cast<std::size_t>(static_cast<unsigned char*>(p) - bytes_);
  const std::size_t end = start + header.bytes;
  header.block = nullptr;
  std::uint64_t state = state_.load(std::memory_order_relaxed);
  std::uint64_t after;
  do {
    const std::uint64_t live = (state >> kLiveShift) - 1;
    std::uint64_t used = state & kUsedMask;
    if (used == end) used = start - sizeof(Header);
    after = live == 0 ? 0 : live << kLiveShift | used;
  } while (!state_.compare_exchange_weak(state, after, std::memory_order_release,
                                         std::memory_order_relaxed));
}

std::size_t SpareMemory::usable_bytes(const void* p, const char* action) const noexcept {
  return header_of(p, action).bytes;
}

SpareMemory::Header& SpareMemory::header_of(const void* p, const char* action) const noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(p);
  const bool can_be_one =
      at % kGrain == 0 && at - reinterpret_cast<std::uintptr_t>(bytes_) >= sizeof(Header);
  auto* const header = reinterpret_cast<Header*>(at - sizeof(Header));
  if (!can_be_one || header->block != p) {
    TextWriter before;
    before.text("invalid ").text(action).text(" of ");
    fatal_pointer(before.view(), p, ": it was freed before, or never allocated");
  }
  return *header;
}

}  // namespace strata
