#pragma once

#include <strata/bitmap_pool.hpp>
#include <strata/detail/cache_line.hpp>
#include <strata/detail/refuse.hpp>

#include <atomic>
#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

namespace strata {

/// Who may put messages into a MessageQueue at once.
enum class Producers : unsigned char {
  kOne,   ///< one thread: no atomic read-modify-write besides the pool's
  kMany,  ///< any number of threads, signal and interrupt handlers
};

/// A bounded queue from producers to one consumer, first in, first out. At most `Capacity` messages
/// are in flight: a producer that finds the queue full gets false, and no call ever waits. Messages
/// are built in blocks of a BitmapPool inside the object; nothing is allocated, and a static queue
/// is constant-initialised, as all zero (by Clang up to a `Capacity` of 262,144, unless
/// -fconstexpr-steps allows more).
///
///     static strata::MessageQueue<Message, 256> queue;
///     bool ok = queue.try_emplace(1, "text");             // false: full
///     while (queue.try_consume([](Message& m) { … })) {}  // false: empty
///
///   pool_:  [ message | free | message | message | … ]      in any order
///   ring_:  [ … | nullptr | message | message | nullptr ]   in theirs: head_ up to tail_
///
/// Messages come in the order of their tickets, which producers take once the message is complete.
/// A producer that stops between taking its ticket and the next store holds back the messages after
/// it: the consumer finds the queue empty until the producer goes on. That is the price of the
/// order; other producers are not held back.
///
/// Always: only a message that has a block takes a ticket, and the consumer clears the message's
/// place in the ring before it frees the block. There are no more blocks than places, so each
/// ticket finds its place cleared: some block was used twice since the place was last taken, and
/// its way through the pool and the tickets after it order the clearing before the new message
/// (hence acq_rel at the ticket).
///
/// Neither copyable nor movable. The destructor destroys the messages that are left.
/// \threads  Producers as kProducers says and one consumer, all at once. In a library that dlopen()
///           loaded, a thread's first call may call malloc, as BitmapPool's may: make it before the
///           thread's signal handlers call.
template <typename T, std::size_t Capacity, Producers kProducers = Producers::kMany>
class MessageQueue {
 public:
  constexpr MessageQueue() noexcept = default;
  MessageQueue(const MessageQueue&) = delete;
  MessageQueue& operator=(const MessageQueue&) = delete;
  ~MessageQueue() {
    while (try_consume([](T&) {})) {
    }
  }

  /// Constructs a message in place, with braces if T is an aggregate, and sends it.
  /// \returns  False if the queue is full: each block was taken at some instant of the call.
  /// \errors   What the constructor throws; nothing is sent then.
  /// \threads  The producers.
  /// \cost     BitmapPool::allocate(), which is bounded, one store, and for many producers one
  ///           fetch_add. Never waits for another thread.
  template <typename... Arguments>
  STRATA_MAY_REFUSE bool try_emplace(Arguments&&... arguments) {
    void* block = pool_.allocate();
    if (block == nullptr) return false;
    Unsent unsent{pool_, block};
    T* message;
    if constexpr (std::is_constructible_v<T, Arguments...>) {
      message = ::new (block) T(std::forward<Arguments>(arguments)...);
    } else {
      message = ::new (block) T{std::forward<Arguments>(arguments)...};
    }
    unsent.block = nullptr;
    // release pairs with the consumer's acquire: the message is complete before it is seen.
    ring_[take_ticket() & kMask].store(message, std::memory_order_release);
    return true;
  }

  /// Copies or moves `message` into the queue; a full queue leaves it untouched.
  STRATA_MAY_REFUSE bool try_push(const T& message) { return try_emplace(message); }
  STRATA_MAY_REFUSE bool try_push(T&& message) { return try_emplace(std::move(message)); }

  /// Calls `visit(T&)` with the oldest message in place, then destroys the message, even if `visit`
  /// throws.
  /// \returns  False if the queue is empty, or its oldest message is not complete yet.
  /// \threads  The consumer. `visit` may send messages, if the consumer may be a producer.
  /// \cost     A load, a store, and BitmapPool::deallocate().
  template <typename Visitor>
  STRATA_MAY_REFUSE bool try_consume(Visitor&& visit) {
    std::atomic<T*>& place = ring_[head_ & kMask];
    T* message = place.load(std::memory_order_acquire);
    if (message == nullptr) return false;
    // relaxed: the block's way back through the pool orders it (see above).
    place.store(nullptr, std::memory_order_relaxed);
    ++head_;
    Received received{pool_, message};
    std::forward<Visitor>(visit)(*message);
    return true;
  }

  /// Moves the oldest message to `out`.
  STRATA_MAY_REFUSE bool try_pop(T& out) {
    return try_consume([&out](T& message) { out = std::move(message); });
  }

  /// Orders nothing: only try_consume() makes a message's contents visible.
  /// \returns  True if try_consume() would find nothing now.
  /// \threads  The consumer.
  bool empty() const noexcept {
    // relaxed: try_consume() loads it again before it reads the message.
    return ring_[head_ & kMask].load(std::memory_order_relaxed) == nullptr;
  }

  static constexpr std::size_t capacity() noexcept { return Capacity; }

  /// Messages in flight, including those being built or visited.
  /// \threads  Any.
  /// \cost     One load for each word of the pool.
  std::size_t in_flight() const noexcept { return pool_.in_use(); }

 private:
  using Pool = BitmapPool<sizeof(T), Capacity, alignof(T)>;

  // The places of the ring: a power of two, so that tickets may wrap around.
  static constexpr std::size_t places_for(std::size_t capacity) noexcept {
    std::size_t places = 1;
    while (places < capacity) places *= 2;
    return places;
  }
  static constexpr std::size_t kPlaces = places_for(Capacity);
  static constexpr std::size_t kMask = kPlaces - 1;

  struct Unsent {  // frees the block if the constructor throws
    Pool& pool;
    void* block;
    ~Unsent() {
      if (block != nullptr) static_cast<void>(pool.deallocate(block));
    }
  };
  struct Received {
    Pool& pool;
    T* message;
    ~Received() {
      message->~T();
      static_cast<void>(pool.deallocate(message));
    }
  };

  std::size_t take_ticket() noexcept {
    if constexpr (kProducers == Producers::kMany) {
      return tail_.fetch_add(1, std::memory_order_acq_rel);
    } else {
      // relaxed: no other thread reads or writes it.
      const std::size_t ticket = tail_.load(std::memory_order_relaxed);
      tail_.store(ticket + 1, std::memory_order_relaxed);
      return ticket;
    }
  }

  Pool pool_;
  alignas(detail::kCacheLineBytes) std::atomic<std::size_t> tail_{0};  // the producers'
  alignas(detail::kCacheLineBytes) std::size_t head_ = 0;              // the consumer's
  alignas(detail::kCacheLineBytes) std::atomic<T*> ring_[kPlaces] = {};
};

}  // namespace strata
