#pragma once

#include <atomic>
#include <cstddef>

#include "base/prefetch.h"
#include "size_class/size_class_map.h"

namespace strata {

/// The hot part of a thread cache: a stack of free objects per size class. malloc pops and free
/// pushes, without a lock or a call, and without touching the object.
///
/// A bin is base[0 … capacity]. base[0] holds nullptr for ever, so popping an empty bin yields
/// nullptr without a comparison of bounds; `limits_` points to the last slot. If an object of this
/// class is constructed by itself, all its bins share one empty slot: it holds nothing, takes
/// nothing, and sends every call to the slow path. A thread has such bins before its first malloc
/// and after its last.
///
/// Always: base <= top <= limit. Every slot in (base, top] holds an object of the class that is
/// nowhere else, or nullptr if another thread took it (ThreadCache::take_over): popping that finds
/// the bin empty, as if it were base[0].
///
/// Large objects are popped by an exchange, so that another thread can take all of them. Of the
/// others it has to leave the latest, which the owner may be popping.
/// \threads  The owning thread only. Other threads may read a top (possibly out of date) and
///           exchange slots as take_over() does; hence the atomic operations here.
class ObjectBins {
 public:
  constexpr ObjectBins() noexcept : tops_{}, limits_{} {
    for (unsigned c = 0; c < SizeClassMap::kBins; ++c) tops_[c] = limits_[c] = &g_empty_slot;
  }
  ObjectBins(const ObjectBins&) = delete;
  ObjectBins& operator=(const ObjectBins&) = delete;

  /// \returns  An object of the class, marked if it is fresh (FreeObject), or nullptr if the bin is
  ///           empty.
  /// \cost     9 instructions, and 2 more with an exchange
  void* pop(std::size_t size_class) noexcept {
    return is_exchanged(size_class) ? pop_exchanged(size_class) : pop_plain(size_class);
  }
  /// The same, and prefetches the line of the next object for writing, since most are written at
  /// once.
  /// \pre   !is_exchanged(size_class)
  /// \cost  7 instructions
  void* pop_plain(std::size_t size_class) noexcept {
    void** const top = tops_[size_class];
    void* const object = load(top);
    if (object != nullptr) [[likely]] {
      set_top(size_class, top - 1);
      fetch_to_write(load(top - 1));
    }
    return object;
  }
  /// \pre  is_exchanged(size_class)
  void* pop_exchanged(std::size_t size_class) noexcept {
    void** const top = tops_[size_class];
    // The slot that all empty bins share is never written.
    if (load(top) == nullptr) return nullptr;
    // relaxed: what the thread itself has pushed, or filled in.
    void* const object = std::atomic_ref<void*>(*top).exchange(nullptr, std::memory_order_relaxed);
    // Otherwise another thread has taken it.
    if (object != nullptr) set_top(size_class, top - 1);
    return object;
  }

  /// \returns  False if the bin is full, or if `object` is its latest entry (a double free,
  ///           detected by one comparison). Class 0 is always full.
  /// \cost     8 instructions
  bool push(std::size_t size_class, void* object) noexcept {
    void** const top = tops_[size_class];
    if (top == limits_[size_class] || is_at(top, object)) [[unlikely]]
      return false;
    push_on(top, size_class, object);
    return true;
  }

  void** top(std::size_t size_class) const noexcept { return tops_[size_class]; }
  bool is_limit(void* const* slot, std::size_t size_class) const noexcept {
    return slot == limits_[size_class];
  }
  /// push() for an object that is known to lie in no bin.
  /// \pre  `top` is top(), and not the limit
  void push_on(void** top, std::size_t size_class, void* object) noexcept {
    // release pairs with take_over(): the owner's use of the object comes before the thief's.
    std::atomic_ref<void*>(top[1]).store(object, std::memory_order_release);
    set_top(size_class, top + 1);
  }

  bool is_latest(unsigned size_class, const void* object) const noexcept {
    return is_at(tops_[size_class], object);
  }

  // Chosen: a locked instruction, some 20 cycles, for objects beyond 32 KiB. An idle thread would
  // keep up to 784 KiB of them, and 940 with those beyond 8 KiB (docs/decisions/0008).
  static constexpr std::size_t kMaxPlainBytes = 32 * 1024;
  static_assert(kMaxPlainBytes >= SizeClassMap::kMaxTableBytes,
                "the hot path of small objects is plain");
  /// Whether objects of the class are popped by an exchange, or not at all (the homeward bin).
  static constexpr bool is_exchanged(std::size_t size_class) noexcept {
    return size_class >= kFirstExchanged;
  }

 protected:
  static constexpr unsigned kFirstExchanged = SizeClassMap::class_of(kMaxPlainBytes) + 1;

  /// A tolerated race: take_over() may exchange the slot meanwhile; the answer is that of before or
  /// after. With a plain load the comparison is one instruction, with an atomic one two.
  static bool is_at(void* const* slot, const void* object) noexcept {
#ifdef __SANITIZE_THREAD__
    return load(const_cast<void**>(slot)) == object;
#else
    return *slot == object;
#endif
  }
  static void* load(void** slot) noexcept {
    return std::atomic_ref<void*>(*slot).load(std::memory_order_relaxed);
  }
  void set_top(std::size_t size_class, void** top) noexcept {
    std::atomic_ref<void**>(tops_[size_class]).store(top, std::memory_order_relaxed);
  }

  void** tops_[SizeClassMap::kBins];
  void** limits_[SizeClassMap::kBins];

 private:
  friend class EmptyBins;
  static void* g_empty_slot;  // never written
};

inline constinit void* ObjectBins::g_empty_slot = nullptr;

/// Sets of bins that are empty for ever, told apart by their addresses. All their words are equal,
/// so they overlap: each begins one word after the one before, since a program's start writes every
/// word.
class EmptyBins {
 public:
  static EmptyBins g_all;  ///< never written

  static constexpr std::size_t kCount = 4;
  static constexpr std::size_t kDirect = 1;     ///< threads without a cache have these
  static constexpr std::size_t kVerifying = 2;  ///< threads whose frees are verified
  static constexpr std::size_t kHidden = 3;     ///< owners of a cache, while its bins are moved

  constexpr EmptyBins() noexcept : first_{}, more_{} {
    for (void**& word : more_) word = &ObjectBins::g_empty_slot;
  }

  constexpr ObjectBins& first() noexcept { return first_; }
  /// \pre  index < kCount
  ObjectBins& operator[](std::size_t index) noexcept {
    static_assert(sizeof(ObjectBins) == 2 * SizeClassMap::kBins * sizeof(void**),
                  "all of it is such words");
    return *reinterpret_cast<ObjectBins*>(reinterpret_cast<void***>(&first_) + index);
  }

 private:
  ObjectBins first_;
  void** more_[kCount - 1];
};

}  // namespace strata
