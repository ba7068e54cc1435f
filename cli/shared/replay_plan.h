#pragma once

#include <cstddef>
#include <cstdint>

/// \file  A trace made ready to be replayed: what `strata replay` writes and strata-cell runs. Both
/// are of one build, so the format has no versions.
///
///   PlanHeader | PlanStream[streams] | epoch_threads: uint32[epochs], padded to 8 | chunks
///
/// A stream has the calls of one thread as words of 64 bits, in chunks that lie anywhere in the
/// file; the first word of a chunk says where the next one begins, 0 for none.

namespace strata::plan {

constexpr char kMagic[8] = {'S', 'T', 'R', 'P', 'L', 'A', 'N', '1'};

struct Header {
  char magic[8];
  std::uint64_t streams;
  std::uint64_t epochs;
  std::uint64_t shared_slots;
  std::uint64_t calls;
  std::uint64_t peak_live_bytes;

  // What a place's calls go to instead of malloc, if any do.
  std::uint64_t routed_bytes;       ///< of the largest object
  std::uint64_t routed_peak;        ///< objects that live at once
  std::uint64_t routed_live_bytes;  ///< of those that live at once, at most
  std::uint64_t routed_run_bytes;   ///< begun while any of them lived, at most
};

struct Stream {
  std::uint64_t first_chunk;  ///< where it begins in the file
  std::uint64_t words;
  std::uint64_t slots;  ///< of objects that no other thread ends
};

constexpr std::size_t kChunkWords = 2048;
constexpr std::size_t kChunkBytes = kChunkWords * sizeof(std::uint64_t);

/// What a word says.
enum class Kind : unsigned {
  kMalloc,
  kCalloc,
  kAligned,
  kNew,
  kFree,
  kDelete,
  kRealloc,  ///< followed by a word of kFree, or kNone, for the object that it ends
  kNone,
  kTime,   ///< the payload: nanoseconds since the beginning, for --pace recorded
  kStart,  ///< the payload: the stream of a thread that starts now
  kEpoch,  ///< the payload: what follows belongs to this epoch
  kMove,   ///< an object's bytes, to the beginning of the object in the next word's slot
};

/// A call:  kind 0-3 | flags 4-7 | slot 8-33 | bytes 34-63.  Then a word of the size if it is wide,
/// and a word of the turn (0-31) and the alignment's logarithm (32-39) if it is shared or aligned.
constexpr unsigned kKindMask = 15;
constexpr unsigned kShared = 1 << 4;  ///< the slot is one that threads pass on in turns
constexpr unsigned kWide = 1 << 5;    ///< the size does not fit
constexpr unsigned kAligned = 1 << 6;
constexpr unsigned kRouted = 1 << 7;  ///< not a call of malloc but of what replaces it
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

/// A shared slot's turn goes up by two with each object: even while it is empty, odd while it
/// holds one. A thread that needs an object waits for its turn, so any scheduling is right.
///
/// An epoch is a stretch of the trace. A thread enters one when all before the last are done, so
/// that no thread runs far ahead of what the others did at that time.
constexpr std::uint64_t kEpochsAtOnce = 2;

}  // namespace strata::plan
