#pragma once

#include <strata/checks.hpp>
#include <strata/detail/block_stack.hpp>
#include <strata/detail/misuse.hpp>
#include <strata/detail/pool_chunks.hpp>
#include <strata/detail/refuse.hpp>
#include <strata/detail/sanitizer.hpp>

#include <cstddef>
#include <cstring>
#include <iterator>
#include <memory>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

namespace strata {

/// What create() does when every slot is taken.
enum class Exhaustion : unsigned char {
  kReturnNull,  ///< returns nullptr
  kThrow,       ///< throws std::bad_alloc; ends a program without exceptions
  kGrow,        ///< doubles the pool without moving objects; kThrow when memory is refused
};

/// What the pool does with objects that are still alive when it is destroyed. All but kAbort
/// destroy them.
enum class Leftovers : unsigned char {
  kDestroy,  ///< nothing else
  kReport,   ///< writes one line to standard error: how many, and where the first one is
  kAbort,    ///< ends the program with a line that says where the first one is
};

/// What a free slot contains.
enum class FreeSlots : unsigned char {
  kUntouched,  ///< what was there; nothing is written into free slots
  kPoisoned,   ///< 0xdb; a write to a destroyed object is found when its slot is reused
};

/// Objects of one type in equal slots, for one thread. Objects never move.
///
///   slots:    first chunk | second chunk, as large as all before | …
///   active_:  the chunk that create() takes from; destroy() looks there first
///
/// The slot freed last is reused first, so a hot one stays in the cache. The list of free slots
/// lies outside them (9 bytes a slot), and free slots are never touched. Setting up a pool costs
/// the same for a million slots as for one.
///
/// By default, destroy() of anything but a live object of this pool ends the program with a
/// sentence. ObjectPool<T, Checks::kNever> trusts the caller.
///
/// Move-only. When a pool moves, its objects stay where they are and belong to the new pool.
/// Handles and iterators refer to the pool they came from: with checks, a handle that outlives its
/// pool's move ends the program as a foreign pointer does.
/// \threads  One at a time.
template <typename T, Checks kChecks = Checks::kAlways,
          FreeSlots kFreeSlots = FreeSlots::kUntouched>
class ObjectPool {
  static_assert(std::is_object_v<T> && !std::is_array_v<T>, "a pool holds objects, one per slot");
  static_assert(std::is_same_v<T, std::remove_cv_t<T>>, "a pool holds objects that can be written");

  using Chunks = detail::PoolChunks<sizeof(T), alignof(T), kChecks>;
  using Stack = typename Chunks::Stack;

 public:
  /// Destroys an object and frees its slot; the deleter of Handle.
  class Deleter {
   public:
    constexpr Deleter() noexcept = default;
    explicit Deleter(ObjectPool& from) noexcept : pool_(&from) {}
    void operator()(T* object) const noexcept { pool_->destroy(object); }
    ObjectPool* pool() const noexcept { return pool_; }

   private:
    ObjectPool* pool_ = nullptr;
  };

  /// Owns one object of the pool. The pool must outlive it and not move meanwhile.
  using Handle = std::unique_ptr<T, Deleter>;

  /// A pool without slots; reserve() adds some, and so does create() under Exhaustion::kGrow.
  explicit ObjectPool(Exhaustion exhaustion = Exhaustion::kGrow,
                      Leftovers leftovers = Leftovers::kReport) noexcept
      : exhaustion_(exhaustion), leftovers_(leftovers) {}

  /// A pool of `capacity` slots.
  /// \errors  std::bad_alloc if the memory is refused. Without exceptions the sentence ends the
  ///          program: use try_create().
  /// \cost    Two allocations; no slot is touched.
  STRATA_MAY_REFUSE explicit ObjectPool(std::size_t capacity,
                                        Exhaustion exhaustion = Exhaustion::kReturnNull,
                                        Leftovers leftovers = Leftovers::kReport)
      : ObjectPool(detail::made_or_refused(
            [&](const char** reason) {
              return try_create(capacity, exhaustion, leftovers, reason);
            },
            kNoMemory)) {}

  /// A pool of as many slots as fit into the caller's buffer, which must outlive it; buffer_bytes()
  /// gives the size needed.
  /// \errors  std::invalid_argument with a sentence if not one slot fits, std::bad_alloc if the
  ///          memory for the table of chunks is refused.
  /// \cost    One small allocation; no slot is touched.
  STRATA_MAY_REFUSE ObjectPool(void* buffer, std::size_t buffer_size,
                               Exhaustion exhaustion = Exhaustion::kReturnNull,
                               Leftovers leftovers = Leftovers::kReport)
      : ObjectPool(detail::made_or_refused(
            [&](const char** reason) {
              return try_create(buffer, buffer_size, exhaustion, leftovers, reason);
            },
            kNoTable)) {}

  /// The same without exceptions.
  /// \returns  The pool, or nothing; then *reason is one sentence in static memory.
  static std::optional<ObjectPool> try_create(std::size_t capacity,
                                              Exhaustion exhaustion = Exhaustion::kReturnNull,
                                              Leftovers leftovers = Leftovers::kReport,
                                              const char** reason = nullptr) noexcept {
    ObjectPool pool(exhaustion, leftovers);
    return pool.reserve(capacity) ? made(pool, reason) : detail::refused(kNoMemory, reason);
  }
  static std::optional<ObjectPool> try_create(void* buffer, std::size_t buffer_size,
                                              Exhaustion exhaustion = Exhaustion::kReturnNull,
                                              Leftovers leftovers = Leftovers::kReport,
                                              const char** reason = nullptr) noexcept {
    ObjectPool pool(exhaustion, leftovers);
    if (!pool.chunks_.make_room_in_table()) return detail::refused(kNoTable, reason);
    return pool.chunks_.adopt(buffer, buffer_size) ? made(pool, reason)
                                                   : detail::refused(kBufferTooSmall, reason);
  }

  /// The size of a buffer that holds `capacity` slots at any start address; 0 if none does.
  static constexpr std::size_t buffer_bytes(std::size_t capacity) noexcept {
    return Chunks::buffer_bytes(capacity);
  }

  /// Takes the slots and their objects; `other` has none afterwards.
  ObjectPool(ObjectPool&& other) noexcept
      : chunks_(std::move(other.chunks_)),
        exhaustion_(other.exhaustion_),
        leftovers_(other.leftovers_) {}
  /// The same. The old objects end as in the destructor.
  ObjectPool& operator=(ObjectPool&& other) noexcept {
    if (this != &other) {
      end_leftovers();  // while this is still their pool: their destructors may use it
      Chunks taken(std::move(other.chunks_));
      chunks_.swap(taken);
      exhaustion_ = other.exhaustion_;
      leftovers_ = other.leftovers_;
    }
    return *this;
  }
  ObjectPool(const ObjectPool&) = delete;
  ObjectPool& operator=(const ObjectPool&) = delete;

  ~ObjectPool() { end_leftovers(); }

  /// Constructs an object from the arguments, with braces if T is an aggregate.
  /// \returns  The object; nullptr if no slot is free, under Exhaustion::kReturnNull.
  /// \errors   std::bad_alloc under the other two. If the constructor throws, the slot is free
  ///           again.
  /// \cost     Constant while the active chunk has a free slot; else a search among the chunks, and
  ///           an allocation or two when the pool grows. No system call otherwise.
  template <typename... Arguments>
  STRATA_MAY_REFUSE T* create(Arguments&&... arguments) {
    void* slot = take_slot();
    if (detail::is_unlikely(slot == nullptr)) return nullptr;
    SlotGuard guard{this, slot};
    T* object;
    if constexpr (std::is_constructible_v<T, Arguments...>) {
      object = ::new (slot) T(std::forward<Arguments>(arguments)...);
    } else {
      object = ::new (slot) T{std::forward<Arguments>(arguments)...};
    }
    guard.slot = nullptr;
    return object;
  }

  /// The same, but returns a handle; an empty one stands for nullptr.
  template <typename... Arguments>
  STRATA_MAY_REFUSE Handle make(Arguments&&... arguments) {
    return Handle(create(std::forward<Arguments>(arguments)...), Deleter(*this));
  }

  /// Destroys an object and frees its slot; ignores nullptr. The destructor may use the pool.
  /// \errors  With checks, anything but a live object of this pool ends the program with a
  ///          sentence: not its memory, inside an object, never allocated, already free.
  /// \cost    Constant for an object of the active chunk, else a search among the chunks: each
  ///          doubling of the pool, and each reserve() that adds slots, adds one.
  void destroy(T* object) noexcept {
    if (detail::is_unlikely(!chunks_.active().mark_free(object))) return destroy_elsewhere(object);
    detail::promise(object != nullptr);  // no slot is there
    object->~T();
    if constexpr (std::is_trivially_destructible_v<T>) {
      retire(object, chunks_.active());
    } else {
      give_slot_back(object);
    }
  }

  /// Adds slots until there are `slot_count` of them.
  /// \returns  False, with the pool as it was, if the memory is refused.
  bool reserve(std::size_t slot_count) noexcept {
    return slot_count <= capacity() || chunks_.add(slot_count - capacity());
  }

  /// Destroys every object once, in slot order; keeps the slots. With checks, destructors may
  /// destroy others, even those whose turn has passed, and may call this, too, unless their object
  /// owns others of the pool. Destructors may add slots, but must not create; constructors must not
  /// call this.
  void clear() noexcept {
    if constexpr (std::is_trivially_destructible_v<T> && kFreeSlots == FreeSlots::kUntouched) {
      chunks_.forget_all();
    } else {
      const bool was_clearing = std::exchange(is_clearing_, true);
      for (std::size_t i = 0; i < chunks_.count(); ++i) destroy_all_in(i);
      is_clearing_ = was_clearing;
      // A poisoned slot is checked when it is reused. And the slot of an object whose destructor
      // called this is freed when that ends.
      if (kFreeSlots == FreeSlots::kUntouched && !was_clearing) chunks_.forget_empty();
    }
  }

  /// Releases chunks without a live object; a caller's buffer stays. Does nothing in a destructor
  /// that clear() runs.
  /// \returns  The number of slots released.
  std::size_t release_empty_chunks() noexcept { return is_clearing_ ? 0 : chunks_.release_empty(); }

  /// Calls f(T&) for every live object, in address order within a chunk. f may destroy the object
  /// it is given.
  template <typename Function>
  void for_each(Function f) {
    for (T& object : *this) f(object);
  }

  /// Walks the live objects. Creating objects, adding slots and releasing chunks invalidates the
  /// iterator; destroying does not, but without checks only the object that it points to may be
  /// destroyed.
  /// \cost  One byte of bookkeeping read per slot ever used, eight at a time.
  template <typename Object>
  class BasicIterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    using pointer = Object*;
    using reference = Object&;

    BasicIterator() noexcept = default;
    /// A const_iterator from an iterator.
    template <typename Other, typename = std::enable_if_t<std::is_same_v<const Other, Object>>>
    BasicIterator(const BasicIterator<Other>& other) noexcept  // NOLINT: as those of containers do
        : pool_(other.pool_), chunk_(other.chunk_), slot_(other.slot_) {}
    Object& operator*() const noexcept { return *object_at(pool_->chunks_.at(chunk_), slot_); }
    Object* operator->() const noexcept { return std::addressof(**this); }
    BasicIterator& operator++() noexcept {
      slot_ = pool_->chunks_.at(chunk_).next_live(slot_ + 1);
      skip_finished_chunks();
      return *this;
    }
    BasicIterator operator++(int) noexcept {
      BasicIterator before = *this;
      ++*this;
      return before;
    }
    friend bool operator==(const BasicIterator& a, const BasicIterator& b) noexcept {
      return a.chunk_ == b.chunk_ && a.slot_ == b.slot_;
    }
    friend bool operator!=(const BasicIterator& a, const BasicIterator& b) noexcept {
      return !(a == b);
    }

   private:
    friend ObjectPool;
    template <typename>
    friend class BasicIterator;
    BasicIterator(const ObjectPool* from, std::size_t chunk) noexcept : pool_(from), chunk_(chunk) {
      if (chunk_ < pool_->chunks_.count()) {
        slot_ = pool_->chunks_.at(chunk_).next_live(0);
        skip_finished_chunks();
      }
    }
    void skip_finished_chunks() noexcept {
      while (slot_ == pool_->chunks_.at(chunk_).fresh_end()) {
        slot_ = 0;
        if (++chunk_ == pool_->chunks_.count()) return;
        slot_ = pool_->chunks_.at(chunk_).next_live(0);
      }
    }

    const ObjectPool* pool_ = nullptr;
    std::size_t chunk_ = 0;
    std::size_t slot_ = 0;
  };
  using iterator = BasicIterator<T>;
  using const_iterator = BasicIterator<const T>;

  iterator begin() noexcept { return first<iterator>(); }
  iterator end() noexcept { return iterator(this, chunks_.count()); }
  const_iterator begin() const noexcept { return first<const_iterator>(); }
  const_iterator end() const noexcept { return const_iterator(this, chunks_.count()); }

  /// \returns  True if p points to or into a slot, live or not.
  /// \cost     as destroy().
  bool owns(const void* p) const noexcept { return chunks_.find(p) != chunks_.count(); }

  /// Live objects, as in a container; capacity() counts the slots.
  /// \cost  One step per chunk.
  std::size_t size() const noexcept { return chunks_.live(); }
  std::size_t capacity() const noexcept { return chunks_.capacity(); }
  /// Objects that can be created before the pool is exhausted or grows.
  std::size_t available() const noexcept { return capacity() - size(); }
  bool empty() const noexcept { return size() == 0; }

  /// Checks the whole structure and ends the program at an inconsistency. For tests.
  void check_invariants() const noexcept { chunks_.check_invariants(); }

 private:
  static constexpr char kNoMemory[] = "ObjectPool: the memory for its slots is refused";
  static constexpr char kNoTable[] = "ObjectPool: the memory for its table of chunks is refused";
  static constexpr char kBufferTooSmall[] = "ObjectPool: not one slot fits into the buffer";
  static constexpr char kExhausted[] = "ObjectPool: every slot is taken";
  static constexpr unsigned char kPoison = 0xdb;
  // Below this, growing by doubling would allocate again and again for a handful of objects.
  static constexpr std::size_t kFirstGrowth = 64;

  static std::optional<ObjectPool> made(ObjectPool& pool, const char** reason) noexcept {
    if (reason != nullptr) *reason = nullptr;
    return std::optional<ObjectPool>(std::move(pool));
  }

  // A destructor may call reserve(), which moves the table of chunks.
  void destroy_all_in(std::size_t chunk) noexcept {
    chunks_.at(chunk).refresh_states();
    for (std::size_t i = 0;; ++i) {
      i = chunks_.at(chunk).next_live(i);
      if (i == chunks_.at(chunk).fresh_end()) return;
      T* object = object_at(chunks_.at(chunk), i);
      chunks_.at(chunk).mark_free(object);
      object->~T();
      retire(object, chunks_.at(chunk));
    }
  }

  void end_leftovers() noexcept {
    const std::size_t left = size();
    if (left == 0) return;
    if (leftovers_ == Leftovers::kReport) detail::report_leftovers(left, std::addressof(*begin()));
    if (leftovers_ == Leftovers::kAbort) {
      detail::misuse("ObjectPool destroyed with live objects, the first at ",
                     std::addressof(*begin()), "");
    }
    clear();
  }

  // Frees the slot if the constructor throws.
  struct SlotGuard {
    ObjectPool* pool;
    void* slot;
    ~SlotGuard() {
      if (slot == nullptr) return;
      pool->chunks_.stack_of(slot).mark_free(slot);
      pool->give_slot_back(slot);
    }
  };

  static T* object_at(const Stack& stack, std::size_t index) noexcept {
    return std::launder(static_cast<T*>(stack.at(index)));
  }

  template <typename Iterator>
  Iterator first() const noexcept {
    for (std::size_t i = 0; i < chunks_.count(); ++i) chunks_.at(i).refresh_states();
    return Iterator(this, 0);
  }

  STRATA_MAY_REFUSE void* take_slot() {
    [[maybe_unused]] bool recycled = chunks_.active().has_recycled();
    void* slot = chunks_.active().take();
    if (detail::is_unlikely(slot == nullptr)) {
      if (!find_room()) return nullptr;
      recycled = chunks_.active().has_recycled();
      slot = chunks_.active().take();
    }
    detail::asan_unpoison(slot, sizeof(T));
    if constexpr (kFreeSlots == FreeSlots::kPoisoned) {
      if (recycled) check_poison(slot);
    }
    return slot;
  }

  [[gnu::cold, gnu::noinline]] STRATA_MAY_REFUSE bool find_room() {
    if (chunks_.activate_any_with_room()) return true;
    if (exhaustion_ == Exhaustion::kReturnNull) return false;
    const std::size_t growth = capacity() < kFirstGrowth ? kFirstGrowth : capacity();
    if (exhaustion_ == Exhaustion::kThrow) detail::refuse_memory(kExhausted);
    if (!chunks_.add(growth)) detail::refuse_memory(kNoMemory);
    return chunks_.activate_any_with_room();
  }

  static void retire(void* slot, Stack& stack) noexcept {
    if constexpr (kFreeSlots == FreeSlots::kPoisoned) std::memset(slot, kPoison, sizeof(T));
    detail::asan_poison(slot, sizeof(T));
    stack.push(slot);
  }

  // A destructor or constructor that created objects may have activated another chunk.
  void give_slot_back(void* slot) noexcept {
    if (detail::is_likely(chunks_.active().contains(slot))) {
      retire(slot, chunks_.active());
    } else {
      retire_elsewhere(slot);
    }
  }
  [[gnu::cold, gnu::noinline]] void retire_elsewhere(void* slot) noexcept {
    retire(slot, chunks_.stack_of(slot));
  }

  [[gnu::cold, gnu::noinline]] void destroy_elsewhere(T* object) noexcept {
    if (object == nullptr) return;
    const std::size_t i = chunks_.find(object);
    if (i == chunks_.count()) detail::accuse("destroy of ", object, detail::BadPointer::kForeign);
    Stack& stack = chunks_.at(i);
    if (!stack.mark_free(object)) {
      const detail::BadPointer fault = stack.fault_of(object);
      // The object's owner had its turn after it. This hides a second destroy(), too.
      if (is_clearing_ && fault == detail::BadPointer::kAlreadyFree) return;
      detail::accuse("destroy of ", object, fault);
    }
    object->~T();
    give_slot_back(object);
  }

  static void check_poison(const void* slot) noexcept {
    const auto* bytes = static_cast<const unsigned char*>(slot);
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      if (bytes[i] != kPoison) detail::misuse("write to ", slot, " after it was destroyed");
    }
  }

  Chunks chunks_;
  Exhaustion exhaustion_;
  Leftovers leftovers_;
  bool is_clearing_ = false;
};

}  // namespace strata
