#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "recorder/spin_lock.h"
#include "shared/trace/event.h"

/// \file  Records, which threads pass to the writer in chunks.

namespace strata::recorder {

enum class RecordKind : std::uint8_t {
  kCall,          ///< a trace::Operation that allocates or frees an object
  kReallocBegin,  ///< address: the object that may end
  kReallocEnd,    ///< address: the new object, 0 if the call failed; follows kReallocBegin
  kSize,          ///< extends the previous record: `time` is its size
};

/// A free is recorded before it happens, an allocation afterwards. The time is what the processor
/// read, up to Clock::kSkewNs early.
struct Record {
  std::uint64_t what;  ///< address, operation, kind, alignment
  std::uint64_t time;  ///< Clock::count()
  std::uint32_t size;  ///< kSizeFollows: a kSize record follows
  std::uint32_t stack;

  static constexpr std::uint32_t kSizeFollows = ~std::uint32_t{0};
  static constexpr unsigned kAddressBits = 52;

  static std::uint64_t pack(RecordKind kind, trace::Operation operation, const void* address,
                            unsigned alignment_log2) noexcept {
    return (reinterpret_cast<std::uintptr_t>(address) & ((std::uint64_t{1} << kAddressBits) - 1)) |
           static_cast<std::uint64_t>(operation) << 52 | static_cast<std::uint64_t>(kind) << 55 |
           static_cast<std::uint64_t>(alignment_log2) << 57;
  }
  std::uint64_t address() const noexcept { return what & ((std::uint64_t{1} << kAddressBits) - 1); }
  trace::Operation operation() const noexcept {
    return static_cast<trace::Operation>(what >> 52 & 7);
  }
  RecordKind kind() const noexcept { return static_cast<RecordKind>(what >> 55 & 3); }
  /// Whether the call has a single record.
  bool is_plain() const noexcept { return kind() == RecordKind::kCall && size != kSizeFollows; }
  /// \pre  kCall
  bool begins_object() const noexcept { return trace::begins_object(operation()); }
  bool ends_object() const noexcept {
    return kind() == RecordKind::kReallocBegin ||
           (kind() == RecordKind::kCall && !trace::begins_object(operation()));
  }
  unsigned alignment_log2() const noexcept { return static_cast<unsigned>(what >> 57 & 63); }
};
static_assert(sizeof(Record) == 24);

class StackCache;

/// A part of a thread's stream. The thread appends records; the writer reads those published.
struct Chunk {
  static constexpr std::size_t kBytes = 64 * 1024;
  static constexpr std::uint32_t kRecords = (kBytes - 64) / sizeof(Record);

  /// release by the thread, acquire by the writer: the records below this index are complete.
  std::atomic<std::uint32_t> published{0};
  std::atomic<Chunk*> next{nullptr};  ///< same orders: the thread's next chunk
  alignas(64) Record records[kRecords];
};
static_assert(sizeof(Chunk) <= Chunk::kBytes);

/// The stream of a thread that has recorded something.
struct Stream {
  enum State : std::uint32_t { kFree, kUsed };
  std::atomic<std::uint32_t> state{kFree};  ///< release by the thread once everything below is set
  std::uint32_t thread = 0;                 ///< the system's thread ID
  char name[16] = {};                       ///< the thread's name at its first call
  Chunk* current = nullptr;                 ///< the thread's
  StackCache* stacks = nullptr;             ///< the thread's; kept for the next thread
  // The writer's part, in a cache line that the thread does not write.
  alignas(64) Chunk* reading = nullptr;
  std::uint32_t read = 0;      ///< records read from the chunk
  std::uint32_t readable = 0;  ///< records known to be published
  std::uint32_t number = 0;    ///< in the trace
  bool has_number = false;
  bool is_named = false;
  bool has_pending = false;   ///< between kReallocBegin and kReallocEnd
  std::uint64_t pending = 0;  ///< the object that the kReallocEnd will end
  std::uint64_t pending_address = 0;
  std::uint64_t held_until = 0;  ///< the next record waits for other streams until this time
  std::uint64_t holds = 0;       ///< how often it has waited
};

/// All streams and chunks, a bounded number of each.
/// \threads  Any.
class StreamTable {
 public:
  static constexpr std::size_t kMostStreams = 1 << 15;
  // Chosen: 32 MiB hold a tenth of a second of the fastest program. Each thread has one chunk more.
  static constexpr std::size_t kMostChunks = 512;
  // Chosen: recording eight threads, and redis, takes less elapsed time with 4 than with 16 or 64.
  static constexpr std::size_t kMuch = 4;

  static constexpr std::size_t kBytes = kMostStreams * sizeof(Stream);

  /// Gives it kBytes of zeros, for ever. What the caller wrote before, threads with a stream see.
  void use(char* memory) noexcept;
  /// Returns a stream with a chunk; nullptr if none is available.
  Stream* take_stream(std::uint32_t thread) noexcept;
  /// Adds a chunk after the stream's current one.
  /// \returns  False if none is available.
  bool add_chunk(Stream& stream) noexcept;

  // Called by the writer only.
  void give_back_chunk(Chunk* chunk) noexcept;
  void give_back_stream(Stream& stream) noexcept;  ///< with its last chunk; all is read
  /// Calls visit(stream) for each stream in use.
  template <typename Visit>
  void for_each_used(Visit visit) noexcept {
    const std::size_t count = used_.load(std::memory_order_acquire);
    for (std::size_t i = 0; i < count; ++i) {
      if (streams_[i].state.load(std::memory_order_acquire) == Stream::kUsed) visit(streams_[i]);
    }
  }

  /// Whether waiting for one is in vain: the system has no memory for another, and none is full.
  bool is_out_of_memory() noexcept;
  /// Whether the writer should start now instead of at its next round. Waking it takes longer than
  /// filling a chunk; this few chunks are still in a processor's cache.
  bool has_much() const noexcept { return full_chunks_.load(std::memory_order_relaxed) >= kMuch; }

  /// Whether threads may know each other's objects. A thread sees this become true no later than it
  /// sees such an object.
  bool had_several() const noexcept { return had_several_.load(std::memory_order_relaxed); }

  /// Frees everything in the child of fork, where only the caller exists.
  void forget_all() noexcept;
  SpinLock& lock() noexcept { return lock_; }  ///< for fork
  /// Changes whenever a stream or chunk is returned; threads wait on it.
  const std::atomic<std::uint32_t>& returns() const noexcept { return returns_; }

 private:
  Chunk* take_chunk(std::size_t most) noexcept;
  void put_chunk(Chunk* chunk) noexcept;

  SpinLock lock_;
  Stream* streams_ = nullptr;
  std::atomic<std::size_t> used_{0};  ///< no stream in use lies at or beyond this index
  Chunk* free_chunks_ = nullptr;
  std::size_t chunk_count_ = 0;
  bool is_refused_ = false;  ///< the system had no memory for the last chunk
  std::size_t used_streams_ = 0;
  std::atomic<bool> had_several_{false};     ///< more than one stream at a time
  std::atomic<std::size_t> full_chunks_{0};  ///< waiting for the writer; changed under the lock
  std::atomic<std::uint32_t> returns_{0};    ///< release: what was returned is available
};

}  // namespace strata::recorder
