#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

/// \file  The bytes of a trace, as docs/trace-format.md describes them. Little-endian throughout.

namespace strata::trace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "headers are written as they lie");

constexpr char kFileMagic[8] = {'\x89', 's', 't', 'r', 'a', 't', 'a', '\n'};
constexpr std::uint32_t kVersion = 1;
constexpr std::uint32_t kBlockMagic = 0x4b4c4253;  // "SBLK"

struct FileHeader {
  char magic[8];
  std::uint32_t version;
  std::uint32_t header_bytes;  ///< size of this header, so the first block's position
  std::uint64_t tick_ns;       ///< the unit of time
  std::uint32_t reserved;
  std::uint32_t checksum;  ///< of the bytes before it
};
static_assert(sizeof(FileHeader) == 32);

/// Readers skip unknown kinds.
enum class BlockKind : std::uint32_t {
  kProcess = 1,  ///< text: lines "name=value"
  kThreads = 2,  ///< text: lines "number thread-id name"
  kModules = 3,  ///< text: lines "start end offset build-id path", numbers in hexadecimal
  kStacks = 4,   ///< columns: parents, return addresses
  kEvents = 5,   ///< columns of EventColumn
  kDropped = 6,  ///< text: "events=N": the number of events missing here
  kEnd = 7,      ///< text: lines "name=value": how the recording ended
};

struct BlockHeader {
  std::uint32_t magic;
  std::uint32_t kind;
  std::uint32_t stored_bytes;  ///< bytes that follow this header
  std::uint32_t count;         ///< events, or nodes of stacks; 0 for text
  std::uint64_t first_number;  ///< of the first event, or node
  std::uint64_t first_object;  ///< the number that the next object gets
  std::uint64_t first_tick;    ///< the base of the first time difference
  std::uint64_t last_tick;
  std::uint32_t body_checksum;  ///< of the bytes that follow
  std::uint32_t checksum;       ///< of the header's bytes before it
};
static_assert(sizeof(BlockHeader) == 56);

/// A body begins with a table of these, one per column. Then come the columns' bytes: a zstd frame,
/// or uncompressed if both sizes are equal.
struct ColumnSize {
  std::uint32_t raw_bytes;
  std::uint32_t stored_bytes;
};

enum EventColumn : unsigned {
  kTags,
  kThreads,
  kTimes,
  kSizes,
  kAlignments,
  kEnds,
  kStacks,
  kEventColumns,
};
constexpr unsigned kStackColumns = 2;  ///< parents, return addresses
constexpr unsigned kTextColumns = 1;

// Chosen: blocks large enough to compress well, and small enough that losing one loses little. They
// also bound what a reader allocates for a block.
constexpr std::uint32_t kMostEvents = 32768;
constexpr std::uint32_t kMostNodes = 32768;
constexpr std::size_t kColumnBytes = 256 * 1024;
constexpr std::uint32_t kMostThreads = 1 << 20;
constexpr std::uint64_t kMostNanoseconds = std::uint64_t{1} << 62;  ///< a trace of 146 years

/// The tag of an event: the operation in the low bits, then flags for what is or is not as
/// expected.
constexpr unsigned kOperationMask = 7;
constexpr unsigned kOtherThread = 1 << 3;  ///< than the event before: a number in kThreads
constexpr unsigned kLaterTime = 1 << 4;    ///< than the event before: ticks in kTimes
/// The stack is the one that followed the previous stack last time.
constexpr unsigned kExpectedStack = 1 << 5;
constexpr unsigned kHasAlignment = 1 << 6;  ///< a binary logarithm in kAlignments
constexpr unsigned kFailed = 1 << 7;        ///< no object was allocated

/// Predicts the next event from the previous ones, starting empty in each block. Writer and reader
/// keep identical copies.
class Expectation {
 public:
  std::uint32_t thread = 0;
  std::uint64_t tick = 0;
  std::uint64_t last_ended = 0;

  void begin(std::uint64_t first_object, std::uint64_t first_tick) noexcept {
    thread = 0;
    tick = first_tick;
    last_ended = first_object;
    last_stack_ = 0;
    std::memset(next_stack_, 0, sizeof next_stack_);
    std::memset(size_, 0, sizeof size_);
  }
  std::uint32_t stack() const noexcept { return next_stack_[slot(last_stack_)]; }
  std::uint64_t size_at(std::uint32_t stack) const noexcept { return size_[slot(stack)]; }
  void note(std::uint32_t stack, std::uint64_t size) noexcept {
    next_stack_[slot(last_stack_)] = stack;
    size_[slot(stack)] = size;
    last_stack_ = stack;
  }

 private:
  static constexpr std::size_t kSlots = 1024;
  static std::size_t slot(std::uint32_t stack) noexcept { return stack % kSlots; }

  std::uint32_t last_stack_ = 0;
  std::uint32_t next_stack_[kSlots] = {};
  std::uint64_t size_[kSlots] = {};
};

/// The ended object, encoded as a number: none, unknown, or the smaller of its distances to the
/// next object and to the object that ended last.
constexpr std::uint64_t kEndOfNone = 0;
constexpr std::uint64_t kEndOfUnknown = 1;

constexpr std::uint64_t zigzag(std::int64_t value) noexcept {
  return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
}
constexpr std::int64_t unzigzag(std::uint64_t value) noexcept {
  return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
}

/// CRC-32C.
/// \source  Castagnoli, Bräuer, Herrmann, "Optimization of cyclic redundancy-check codes with 24
///          and 32 parity bits" (1993)
std::uint32_t checksum(const void* bytes, std::size_t count) noexcept;

}  // namespace strata::trace
