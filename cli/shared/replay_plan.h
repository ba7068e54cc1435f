#pragma once

#include <cstddef>
#include <cstdint>

/// \file  A trace prepared for replay: `strata replay` writes it, strata-cell runs it. Both come
/// from the same build, so the format has no version.
///
///   Header | Stream[streams] | epoch_threads: uint32[epochs] | a hole, unused | chunks
///
/// A stream holds the calls of one thread as 64-bit words, in chunks anywhere behind the hole. The
/// first word of a chunk is the position of the next one, or 0.

namespace strata::plan {

constexpr char kMagic[8] = {'S', 'T', 'R', 'P', 'L', 'A', 'N', '1'};

struct Header {
  char magic[8];
  std::uint64_t streams;
  std::uint64_t epochs;
  std::uint64_t shared_slots;
  std::uint64_t calls;
  std::uint64_t peak_live_bytes;

  // Calls that are routed to a replacement for malloc, if any.
  std::uint64_t routed_bytes;       ///< size of the largest object
  std::uint64_t routed_peak;        ///< maximum number of live objects
  std::uint64_t routed_live_bytes;  ///< maximum of the live objects' total size
  std::uint64_t routed_run_bytes;   ///< maximum of bytes allocated while any of them was live
};

struct Stream {
  std::uint64_t first_chunk;  ///< position in the file
  std::uint64_t words;
  std::uint64_t slots;  ///< for objects that no other thread ends
};

constexpr std::size_t kChunkWords = 2048;
constexpr std::size_t kChunkBytes = kChunkWords * sizeof(std::uint64_t);

enum class Kind : unsigned {
  kMalloc,
  kCalloc,
  kAligned,
  kNew,
  kFree,
  kDelete,
  kRealloc,  ///< followed by a word of kFree or kNone for the object that it ends
  kNone,
  kTime,   ///< payload: nanoseconds since the beginning, for --pace recorded
  kStart,  ///< payload: the stream of a thread that starts now
  kEpoch,  ///< payload: the epoch that the following words belong to
  kMove,   ///< copy an object's bytes to the beginning of the object in the next word's slot
};

/// A call:  kind 0-3 | flags 4-7 | slot 8-33 | bytes 34-63. A word with the size follows if kWide
/// is set, then a word with the turn (0-31) and the alignment's logarithm (32-39) if kShared or
/// kAligned is set.
constexpr unsigned kKindMask = 15;
constexpr unsigned kShared = 1 << 4;  ///< threads pass the slot on in turns
constexpr unsigned kWide = 1 << 5;    ///< the size does not fit into the word
constexpr unsigned kAligned = 1 << 6;
constexpr unsigned kRouted = 1 << 7;  ///< a call of malloc's replacement
constexpr unsigned kSlotShift = 8;
constexpr unsigned kSlotBits = 26;
constexpr unsigned kBytesShift = kSlotShift + kSlotBits;
constexpr unsigned kBytesBits = 64 - kBytesShift;
constexpr unsigned kPayloadShift = 8;
constexpr std::uint64_t kMostSlots = std::uint64_t{1} << kSlotBits;
constexpr std::uint64_t kNarrowBytes = std::uint64_t{1} << kBytesBits;

constexpr Kind kind_of(std::uint64_t word) noexcept { return static_cast<Kind>(word & kKindMask); }
constexpr std::uint64_t slot_of(std::uint64_t word) noexcept {
  return word >> kSlotShift & (kMostSlots - 1);
}
constexpr std::uint64_t payload_of(std::uint64_t word) noexcept { return word >> kPayloadShift; }

/// The turn of a shared slot rises by two with each object: it is even while the slot is empty, odd
/// while it holds an object. A thread that needs an object waits for its turn, so the replay is
/// correct under any scheduling.
///
/// An epoch is a stretch of the trace. A thread enters an epoch only when every thread has finished
/// all epochs before the previous one, so no thread runs far ahead of the others.
constexpr std::uint64_t kEpochsAtOnce = 2;

}  // namespace strata::plan
