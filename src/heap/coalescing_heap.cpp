#include <strata/coalescing_heap.hpp>
#include <strata/detail/bits.hpp>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/fatal.h"
#include "heap/free_block.h"
#include "heap/size_bins.h"

namespace strata {
namespace {

constexpr std::size_t kGranule = BlockTag::kGranuleBytes;

}  // namespace

void die_of_write_after_free(const BlockTag* tag) noexcept {
  fatal_pointer("write after free: the links of the free block ", tag + 1, " were overwritten");
}
void die_of_overflow(const BlockTag* tag) noexcept {
  fatal_pointer("overwritten tag in front of ", tag + 1,
                ": the block before it was written beyond its end");
}

/// Takes a region. False, and the heap stays empty, if not one block fits.
bool CoalescingHeap::adopt_region(void* region, std::size_t bytes) noexcept {
  static_assert(size_bins::bin_for(kMaxRegionBytes / kGranule) < kBins,
                "the largest region has a bin");
  static_assert(sizeof(FreeBlock) + sizeof(std::uint32_t) <= kMinBlockBytes,
                "tag, links and size fit the smallest block");
  static_assert(kHeaderBytes == BlockTag::kBytes && kGranuleBytes == kGranule);
  const std::size_t owned = bytes;
  if (bytes > kMaxRegionBytes) bytes = kMaxRegionBytes;
  // Tags lie at addresses congruent to 8 modulo 16.
  const std::size_t skip = (kGranule / 2 - reinterpret_cast<std::uintptr_t>(region)) % kGranule;
  if (bytes < skip + kGranule + kMinBlockBytes + sizeof(BlockTag)) return false;
  region_ = region;
  region_bytes_ = owned;
  const auto granules =
      static_cast<std::uint32_t>((bytes - skip - kGranule - sizeof(BlockTag)) / kGranule);
  base_ = static_cast<char*>(region) + skip;
  *at(0) = {};
  end_ = 1 + granules;
  at(end_)->tag.set(0, false, kEndState);
  make_free(1, granules, BlockState::kDecommitted);  // never touched
  return true;
}

// --- bins ------------------------------------------------------------------------------------

/// The lowest bin from `bin` on that is not empty, kBins if there is none.
inline std::uint32_t CoalescingHeap::find(std::uint32_t bin) const noexcept {
  const std::uint32_t word = bin / 64;
  const std::uint64_t bits = words_[word] & (~std::uint64_t{0} << (bin % 64));
  if (bits == 0) [[unlikely]]
    return find_above(word);
  return word * 64 + static_cast<std::uint32_t>(std::countr_zero(bits));
}

/// Continues the search in the words above. At most kWords steps, and seldom; a summary word would
/// have to be kept at every change.
[[gnu::noinline]] std::uint32_t CoalescingHeap::find_above(std::uint32_t word) const noexcept {
  while (++word < kWords) {
    if (words_[word] != 0) {
      return word * 64 + static_cast<std::uint32_t>(std::countr_zero(words_[word]));
    }
  }
  return kBins;
}

// List operations have no branches for the ends: index 0 is a block of links, after the last one,
// that are never read. Whether a list is empty is as good as random, and a branch on it would cost
// more than all the rest. A head does not say that it is one, so that it can be taken without a
// read of the next block.

inline void CoalescingHeap::link(FreeBlock* block, std::uint32_t index,
                                 std::uint32_t granules) noexcept {
  const std::uint32_t bin = size_bins::bin_of(granules);
  const std::uint32_t head = heads_[bin];
  block->next = head;
  heads_[bin] = index;
  at(head)->previous = index;
  words_[bin / 64] |= std::uint64_t{1} << (bin % 64);
}

/// Clears the bit of a bin, if its last block was taken.
inline void CoalescingHeap::clear_bit(std::uint32_t bin, bool is_empty) noexcept {
  words_[bin / 64] ^= std::uint64_t{is_empty} << (bin % 64);
}

inline void CoalescingHeap::unlink(std::uint32_t index, std::uint32_t granules) noexcept {
  FreeBlock* block = at(index);
  const std::uint32_t bin = size_bins::bin_of(granules);
  // Whether the block is its list's head is a coin toss, too; written so that it is no branch.
  const std::uint32_t is_behind = -std::uint32_t{heads_[bin] != index};
  const std::uint32_t next = block->next;
  const std::uint32_t previous = block->previous & is_behind;
  if (next >= end_ || previous >= end_) [[unlikely]]
    die_of_write_after_free(&block->tag);
  const auto in_head = reinterpret_cast<std::uintptr_t>(&heads_[bin]);
  const auto in_block = reinterpret_cast<std::uintptr_t>(&at(previous)->next);
  auto& from = *reinterpret_cast<std::uint32_t*>(
      in_head ^ ((in_head ^ in_block) & (std::uintptr_t{0} - (is_behind & 1))));
  if ((from != index) | ((next != 0) & (at(next)->previous != index))) [[unlikely]] {
    die_of_write_after_free(&block->tag);
  }
  from = next;
  at(next)->previous = previous;
  clear_bit(bin, (next | is_behind) == 0);
}

/// Takes the head out of a bin that has one.
/// \returns  its size.
inline std::uint32_t CoalescingHeap::pop(FreeBlock* block, std::uint32_t bin) noexcept {
  const std::uint32_t granules = block->granules();
  const std::uint32_t next = block->next;
  if (!is_free(block->tag.state_in(block->tag.load_seal(), granules))) [[unlikely]] {
    die_of_overflow(&block->tag);
  }
  if (next >= end_) [[unlikely]]
    die_of_write_after_free(&block->tag);
  heads_[bin] = next;
  clear_bit(bin, next == 0);
  return granules;
}

/// Writes the tag, the size at the end and the next block's flag, and puts the block into its bin.
/// The block in front is live, for free neighbours are merged first.
inline void CoalescingHeap::make_free(std::uint32_t index, std::uint32_t granules,
                                      BlockState state) noexcept {
  FreeBlock* block = at(index);
  block->tag.set(granules, false, state);
  FreeBlock* behind = block->behind(granules);
  behind->size_of_previous() = granules;
  behind->tag.note_free_previous();
  link(block, index, granules);
}

/// Makes a live block of `wanted` granules at `index`, out of `found` granules whose tag is there
/// but which are in no bin, and a free one of the rest, which stays as clean as it was. A rest
/// below the smallest block stays with the live one.
[[gnu::noinline]] void* CoalescingHeap::take(std::uint32_t index, std::uint32_t found,
                                             std::uint32_t wanted, bool previous_is_free) noexcept {
  FreeBlock* block = at(index);
  if (found - wanted >= kMinGranules) {
    const BlockState state = block->state();
    make_free(index + wanted, found - wanted, is_free(state) ? state : BlockState::kFree);
  } else {
    wanted = found;
    at(index + wanted)->tag.note_live_previous();
  }
  block->tag.set(wanted, previous_is_free, BlockState::kLive);
  used_granules_ += wanted;
  ++live_blocks_;
  return block->user();
}

// --- the user's operations --------------------------------------------------------------------

void* CoalescingHeap::allocate(std::size_t bytes) noexcept {
  if (bytes > size_bins::kMaxTabledBytes) [[unlikely]]
    return allocate_untabled(bytes);
  const auto granules = static_cast<std::uint32_t>(tagged_granules(bytes));
  return serve(granules, size_bins::kRequests[granules]);
}

[[gnu::noinline]] void* CoalescingHeap::allocate_untabled(std::size_t bytes) noexcept {
  if (bytes >= kMaxRegionBytes) return nullptr;
  const std::uint32_t granules = granules_for(bytes);
  return serve(granules, size_bins::request_for(granules));
}

template <typename Request>
inline void* CoalescingHeap::serve(std::uint32_t granules, const Request& request) noexcept {
  std::uint32_t found_bin = find(request.bin);
  if (found_bin == kBins) [[unlikely]] {
    // Good fit leaves out the bin that holds this size among smaller ones: its head may do.
    found_bin = size_bins::bin_of(granules);
    if (heads_[found_bin] == 0 || at(heads_[found_bin])->granules() < granules) return nullptr;
  }
  const std::uint32_t index = heads_[found_bin];
  const std::uint32_t found = pop(at(index), found_bin);
  if (found_bin > request.last) return take(index, found, request.smallest, false);
  return take_whole(index, found);
}

/// Makes a free block, which is in no bin any more, live.
inline void* CoalescingHeap::take_whole(std::uint32_t index, std::uint32_t granules) noexcept {
  FreeBlock* block = at(index);
  block->behind(granules)->tag.note_live_previous();
  block->tag.set_state(granules, BlockState::kLive);
  used_granules_ += granules;
  ++live_blocks_;
  return block->user();
}

/// Allocates up to `count` blocks of at least `bytes`, no more than kMaxTabledBytes: those that
/// allocate() would give one after the other, but a block to split is cut into pieces at once.
/// \returns  How many there were.
/// \cost     Constant for each block.
std::uint32_t CoalescingHeap::allocate_several(std::size_t bytes, void** blocks,
                                               std::uint32_t count) noexcept {
  const auto request = size_bins::kRequests[tagged_granules(bytes)];
  const std::uint32_t size = request.smallest;
  std::uint32_t given = 0;
  while (given < count) {
    const std::uint32_t found_bin = find(request.bin);
    if (found_bin == kBins) [[unlikely]] {
      // Whatever allocate() still finds.
      blocks[given] = allocate(bytes);
      if (blocks[given] == nullptr) break;
      ++given;
      continue;
    }
    std::uint32_t index = heads_[found_bin];
    const BlockState state = at(index)->state();
    std::uint32_t rest = pop(at(index), found_bin);
    if (found_bin <= request.last) {
      blocks[given++] = take_whole(index, rest);
      continue;
    }
    // All pieces but the last, to which take() adds what is too small to be a block.
    for (; given + 1 < count && rest >= 2 * size; ++given, index += size, rest -= size) {
      at(index)->tag.set(size, false, BlockState::kLive);
      blocks[given] = at(index)->user();
      used_granules_ += size;
      ++live_blocks_;
    }
    at(index)->tag.set(rest, false, state);
    blocks[given++] = take(index, rest, size, false);
  }
  return given;
}

void* CoalescingHeap::allocate(std::size_t bytes, std::size_t alignment) noexcept {
  if (!detail::is_power_of_two(alignment)) {
    fatal("the alignment asked of a coalescing heap is not a power of two");
  }
  if (alignment <= kGranule) return allocate(bytes);
  if (bytes >= kMaxRegionBytes || alignment >= kMaxRegionBytes) return nullptr;
  // What is cut off in front becomes a block: nothing, or at least the smallest size.
  const auto step = static_cast<std::uint32_t>(alignment / kGranule);
  const std::uint32_t wanted = granules_for(bytes);
  const std::uint32_t found_bin = find(size_bins::bin_for(wanted + step + kMinGranules - 1));
  if (found_bin == kBins) return nullptr;
  const std::uint32_t index = heads_[found_bin];
  FreeBlock* block = at(index);
  const BlockState state = block->state();
  const std::uint32_t found = pop(block, found_bin);
  const auto user = reinterpret_cast<std::uintptr_t>(block->user());
  auto front = static_cast<std::uint32_t>((-user & (alignment - 1)) / kGranule);
  if (front == 0) return take(index, found, wanted, false);
  if (front < kMinGranules) front += step;
  at(index + front)->tag.set(found - front, false, state);
  void* result = take(index + front, found - front, wanted, false);
  make_free(index, front, state);
  return result;
}

/// The index of a live block that the user names, or no return.
inline std::uint32_t CoalescingHeap::index_of_live(const void* user) const noexcept {
  const auto offset =
      static_cast<std::size_t>(static_cast<const char*>(user) - base_) - BlockTag::kBytes;
  // One comparison for "too low", "too high" and "not on a granule": the odd bits come out on top.
  const std::size_t index = std::rotr(offset, std::countr_zero(kGranule));
  if (index - 1 >= std::size_t{end_} - 1) [[unlikely]] {
    fatal_pointer("foreign pointer ", user, ": no block of this coalescing heap starts there");
  }
  const BlockTag* tag = BlockTag::of(user);
  const std::uint32_t seal = tag->load_seal();
  const std::uint32_t granules = tag->load_size() >> 1;
  if (seal != tag->seal_for(granules, BlockState::kLive)) [[unlikely]] {
    if (is_free(tag->state_in(seal, granules))) {
      fatal_pointer("double free of ", user, ": the block is already free");
    }
    fatal_pointer("overwritten tag in front of ", user,
                  ": the block before it was written beyond its end, or no block starts there");
  }
  return static_cast<std::uint32_t>(index);
}

void CoalescingHeap::deallocate(void* user) noexcept {
  if (user == nullptr) return;
  const std::uint32_t index = index_of_live(user);
  auto* block = reinterpret_cast<FreeBlock*>(BlockTag::of(user));
  const std::uint32_t size = block->tag.load_size();
  const std::uint32_t granules = size >> 1;
  used_granules_ -= granules;
  --live_blocks_;
  FreeBlock* behind = block->behind(granules);
  const std::uint32_t behind_granules = behind->granules();
  const BlockState state = behind->tag.state_in(behind->tag.load_seal(), behind_granules);
  if ((static_cast<std::uint32_t>(state >= BlockState::kFree) | (size & 1)) == 0) [[likely]] {
    // Nine times of ten there is nothing to merge with.
    block->tag.set_state(granules, BlockState::kFree);
    behind->size_of_previous() = granules;
    behind->tag.note_free_previous();
    link(block, index, granules);
    return;
  }
  if (!is_state(state)) [[unlikely]]
    die_of_overflow(&behind->tag);
  merge(index, granules, is_free(state) ? behind_granules : 0);
}

/// Frees `count` neighbours, of `granules` together, as one block: they merge at once with each
/// other. The tags of all but the first stay as they are.
void CoalescingHeap::deallocate_joined(void* first, std::uint32_t granules,
                                       std::uint32_t count) noexcept {
  auto* block = reinterpret_cast<FreeBlock*>(BlockTag::of(first));
  block->tag.set(granules, block->has_free_previous(), BlockState::kLive);
  live_blocks_ -= count - 1;
  deallocate(first);
}

/// Frees a live block with a free neighbour: `behind` granules after it, or the block before.
void CoalescingHeap::merge(std::uint32_t index, std::uint32_t granules,
                           std::uint32_t behind) noexcept {
  FreeBlock* block = at(index);
  if (behind != 0) unlink(index + granules, behind);
  if (block->has_free_previous()) {
    const std::uint32_t size = block->size_of_previous();
    if (size >= index) [[unlikely]]
      die_of_write_after_free(&block->tag);
    FreeBlock* previous = at(index - size);
    const std::uint32_t seal = previous->tag.load_seal();
    if (previous->granules() != size || !is_free(previous->tag.state_in(seal, size))) [[unlikely]] {
      die_of_write_after_free(&previous->tag);
    }
    unlink(index - size, size);
    // The tag stays inside the merged block and says that it was freed, for a second free.
    block->tag.set_state(granules, BlockState::kFree);
    index -= size;
    granules += size;
  }
  make_free(index, granules + behind, BlockState::kFree);
}

void* CoalescingHeap::reallocate(void* user, std::size_t bytes) noexcept {
  if (user == nullptr) return allocate(bytes);
  if (resize_in_place(user, bytes)) return user;
  void* moved = allocate(bytes);
  if (moved == nullptr) return nullptr;
  std::memcpy(moved, user, user_bytes(at(index_of_live(user))->granules()));
  deallocate(user);
  return moved;
}

/// Resizes a block in place; false if it must move.
bool CoalescingHeap::resize_in_place(void* user, std::size_t bytes) noexcept {
  const std::uint32_t index = index_of_live(user);
  if (bytes >= kMaxRegionBytes) return false;
  const std::uint32_t least = granules_for(bytes);
  FreeBlock* block = at(index);
  const std::uint32_t held = block->granules();
  FreeBlock* behind = at(index + held);
  const std::uint32_t seal = behind->tag.load_seal();
  const std::uint32_t behind_granules = behind->granules();
  const BlockState state = behind->tag.state_in(seal, behind_granules);
  if (!is_state(state)) [[unlikely]]
    die_of_overflow(&behind->tag);
  const bool may_grow = is_free(state);
  const std::uint32_t reachable = held + (may_grow ? behind_granules : 0);
  if (least > reachable) return false;
  // As allocate() would round it up, if there is so much. What has room does not move: it could
  // come to a block that is smaller than it was.
  const std::uint32_t wanted =
      std::min(size_bins::smallest_of(size_bins::bin_for(least)), reachable);
  if (wanted > held || (may_grow && wanted < held) || held - wanted >= kMinGranules) {
    if (may_grow) unlink(index + held, behind_granules);
    used_granules_ -= held;
    --live_blocks_;
    take(index, reachable, wanted, block->has_free_previous());
  }
  return true;
}

// --- questions --------------------------------------------------------------------------------

std::size_t CoalescingHeap::usable_size(const void* user) const noexcept {
  return user_bytes(at(index_of_live(user))->granules());
}

std::size_t CoalescingHeap::largest_free_block() const noexcept {
  for (std::uint32_t word = kWords; word-- > 0;) {
    if (words_[word] == 0) continue;
    const auto bit = static_cast<unsigned>(std::bit_width(words_[word])) - 1;
    return user_bytes(at(heads_[word * 64 + bit])->granules());
  }
  return 0;
}

bool CoalescingHeap::owns(const void* address) const noexcept {
  return static_cast<std::size_t>(static_cast<const char*>(address) -
                                  static_cast<const char*>(region_)) < region_bytes_;
}

std::size_t CoalescingHeap::capacity_bytes() const noexcept {
  return (std::size_t{end_} - 1) * kGranule;
}

std::size_t CoalescingHeap::used_bytes() const noexcept {
  return std::size_t{used_granules_} * kGranule;
}

}  // namespace strata
