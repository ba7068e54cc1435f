#pragma once

#include <strata/checks.hpp>
#include <strata/detail/bits.hpp>
#include <strata/detail/block_stack.hpp>
#include <strata/detail/cache_line.hpp>
#include <strata/detail/hints.hpp>
#include <strata/detail/sanitizer.hpp>

#include <cstddef>
#include <new>
#include <utility>

namespace strata::detail {

/// The memory of an ObjectPool: chunks of slots, one of which is active. The active chunk's stack
/// is kept here by value, so that the hot path reads one object; its place in the table is stale
/// until another chunk is activated.
///
/// A chunk comes from operator new, or from the caller (memory == nullptr) and is then not freed.
/// \threads  One at a time.
template <std::size_t kSlotBytes, std::size_t kSlotAlignment, Checks kChecks>
class PoolChunks {
 public:
  using Stack = BlockStack<FixedStride<kSlotBytes>, kChecks>;

  PoolChunks() noexcept = default;
  PoolChunks(PoolChunks&& other) noexcept { swap(other); }
  PoolChunks(const PoolChunks&) = delete;
  PoolChunks& operator=(const PoolChunks&) = delete;
  ~PoolChunks() {
    for (std::size_t i = 0; i < count_; ++i) dispose(i);
    delete[] table_;
  }

  void swap(PoolChunks& other) noexcept {
    std::swap(active_, other.active_);
    std::swap(table_, other.table_);
    std::swap(active_index_, other.active_index_);
    std::swap(count_, other.count_);
    std::swap(room_, other.room_);
    std::swap(capacity_, other.capacity_);
  }

  static constexpr std::size_t buffer_bytes(std::size_t capacity) noexcept {
    const BlockLayout layout = BlockLayout::of(kSlotBytes, capacity);
    return layout.stride == 0 ? 0 : layout.bytes + kBufferAlignment - 1;
  }

  /// Makes room for one more chunk.
  /// \returns  False if the memory is refused.
  bool make_room_in_table() noexcept {
    if (count_ < room_) return true;
    const std::size_t room = room_ == 0 ? 4 : 2 * room_;
    auto* table = new (std::nothrow) Chunk[room];
    if (table == nullptr) return false;
    for (std::size_t i = 0; i < count_; ++i) table[i] = table_[i];
    delete[] table_;
    table_ = table;
    room_ = room;
    return true;
  }

  /// Adds a chunk of `capacity` slots.
  /// \returns  False if the memory is refused.
  bool add(std::size_t capacity) noexcept {
    const BlockLayout layout = BlockLayout::of(kSlotBytes, capacity);
    if (layout.stride == 0 || !make_room_in_table()) return false;
    void* memory = ::operator new(layout.bytes, kNewAlignment, std::nothrow);
    if (memory == nullptr) return false;
    append(memory, memory, layout, capacity);
    return true;
  }

  /// Adds the slots that fit into the caller's buffer.
  /// \pre  make_room_in_table() returned true
  /// \returns  False if none fits.
  bool adopt(void* buffer, std::size_t bytes) noexcept {
    const std::size_t skipped = (0 - address_of(buffer)) & (kBufferAlignment - 1);
    if (buffer == nullptr || bytes < skipped) return false;
    const std::size_t capacity = BlockLayout::capacity_for(kSlotBytes, bytes - skipped);
    if (capacity == 0) return false;
    append(static_cast<char*>(buffer) + skipped, nullptr, BlockLayout::of(kSlotBytes, capacity),
           capacity);
    return true;
  }

  Stack& active() noexcept { return active_; }
  std::size_t count() const noexcept { return count_; }
  Stack& at(std::size_t i) noexcept { return i == active_index_ ? active_ : table_[i].stack; }
  const Stack& at(std::size_t i) const noexcept {
    return i == active_index_ ? active_ : table_[i].stack;
  }

  /// The chunk that p points into, count() if there is none. Searches the newest first, which are
  /// the largest.
  std::size_t find(const void* p) const noexcept {
    for (std::size_t i = count_; i-- != 0;) {
      if (at(i).contains(p)) return i;
    }
    return count_;
  }
  Stack& stack_of(const void* slot) noexcept { return at(find(slot)); }

  bool activate_any_with_room() noexcept {
    for (std::size_t i = count_; i-- != 0;) {
      if (!at(i).is_exhausted()) {
        activate(i);
        return true;
      }
    }
    return false;
  }

  /// Makes the slots of all chunks fresh again, in use or not.
  void forget_all() noexcept {
    for (std::size_t i = 0; i < count_; ++i) {
      at(i).forget_all();
      asan_poison(at(i).blocks(), at(i).bytes());
    }
  }
  /// The same for chunks in which no slot is in use.
  void forget_empty() noexcept {
    for (std::size_t i = 0; i < count_; ++i) {
      if (at(i).live() == 0) at(i).forget_all();
    }
  }

  std::size_t release_empty() noexcept {
    store_active();
    std::size_t kept = 0;
    std::size_t released = 0;
    for (std::size_t i = 0; i < count_; ++i) {
      if (table_[i].stack.live() == 0 && table_[i].memory != nullptr) {
        released += table_[i].stack.capacity();
        dispose(i);
      } else {
        table_[kept++] = table_[i];
      }
    }
    count_ = kept;
    capacity_ -= released;
    active_index_ = 0;
    active_ = count_ != 0 ? table_[0].stack : Stack();
    return released;
  }

  std::size_t capacity() const noexcept { return capacity_; }
  std::size_t live() const noexcept {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < count_; ++i) sum += at(i).live();
    return sum;
  }

  void check_invariants() const noexcept {
    std::size_t slot_count = 0;
    for (std::size_t i = 0; i < count_; ++i) {
      at(i).check_invariants();
      slot_count += at(i).capacity();
    }
    if (slot_count != capacity_)
      misuse("internal error, please report: the chunks' slots miscounted");
  }

 private:
  struct Chunk {
    Stack stack;
    void* memory;  // what operator new gave; nullptr for a caller's buffer
  };

  // From operator new at least a cache line, so that small objects share as few lines as possible;
  // in a caller's buffer no more than the slots and the bookkeeping after them need.
  static constexpr std::size_t kBufferAlignment =
      kSlotAlignment < alignof(void*) ? alignof(void*) : kSlotAlignment;
  static constexpr std::align_val_t kNewAlignment{
      kSlotAlignment < kCacheLineBytes ? kCacheLineBytes : kSlotAlignment};

  void append(void* first_slot, void* memory, const BlockLayout& layout,
              std::size_t capacity) noexcept {
    table_[count_].stack =
        Stack({}, first_slot, capacity, static_cast<char*>(first_slot) + layout.metadata_offset);
    table_[count_].memory = memory;
    asan_poison(first_slot, kSlotBytes * capacity);
    capacity_ += capacity;
    if (++count_ == 1) active_ = table_[0].stack;
  }

  void dispose(std::size_t i) noexcept {
    asan_unpoison(table_[i].stack.blocks(), table_[i].stack.bytes());
    if (table_[i].memory != nullptr) ::operator delete(table_[i].memory, kNewAlignment);
  }

  void store_active() noexcept {
    if (count_ != 0) table_[active_index_].stack = active_;
  }
  void activate(std::size_t i) noexcept {
    store_active();
    active_ = table_[i].stack;
    active_index_ = i;
  }

  Stack active_;
  Chunk* table_ = nullptr;
  std::size_t active_index_ = 0;
  std::size_t count_ = 0;
  std::size_t room_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace strata::detail
