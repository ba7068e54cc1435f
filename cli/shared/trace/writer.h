#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "shared/trace/event.h"
#include "shared/trace/layout.h"

namespace strata::trace {

/// Writes a trace. Uses neither exceptions nor malloc, so a recorder can run it beneath any
/// allocator. All its memory is in the object: some 3 MiB, committed as it is touched. It writes
/// whole blocks, so everything written so far stays readable whatever happens next.
/// \threads  One at a time.
/// \cost     add(): some 10 ns; plus the compression of a block every kMostEvents events.
class Writer {
 public:
  /// Called with the file's bytes, in order.
  /// \returns  False if they could not be stored; it is then not called again.
  using Write = bool(void* context, const void* bytes, std::size_t count);

  Writer(Write* write, void* context) noexcept : write_(write), context_(context) {}
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // Chosen: finer than a plot can show, coarser than the time between two calls in a loop.
  static constexpr std::uint64_t kTickNs = 1000;

  bool begin() noexcept;

  /// \pre  the event satisfies event.h, its stack is defined, and a new object has number
  ///       next_object(). A time before the previous event's is recorded as that event's time.
  [[gnu::always_inline]] bool add(const Event& event) noexcept {
    auto tag = static_cast<unsigned>(event.operation);
    put_times(event, tag);
    if (ends_object(event.operation)) put_end(event);
    if (begins_object(event.operation)) put_beginning(event, tag);
    columns_[kTags].put_byte(static_cast<unsigned char>(tag));
    return ++event_count_ < surely_fit_ ? !has_failed_ : make_room();
  }
  /// \returns  The new node's number; 0 if it could not be written or no number is left.
  /// \pre      the parent is defined
  std::uint32_t add_stack(StackNode node) noexcept;

  /// Writes text of one of the text kinds (layout.h), in as many blocks as needed.
  /// \pre  every line is complete and at most kColumnBytes long
  bool add_text(BlockKind kind, std::string_view text) noexcept;
  bool add_dropped(std::uint64_t events) noexcept;

  /// Writes everything buffered, so that a reader sees all events added.
  bool flush() noexcept;
  /// Writes the last block: `text` says how the recording ended, in lines "name=value".
  /// \pre  text has at most kColumnBytes
  bool end(std::string_view text) noexcept;

  std::uint64_t next_object() const noexcept { return next_object_; }
  std::uint64_t events() const noexcept { return first_event_ + event_count_; }
  bool has_failed() const noexcept { return has_failed_; }

 private:
  class Column {
   public:
    void begin_at(unsigned char* bytes) noexcept { bytes_ = end_ = bytes; }
    void put_byte(unsigned char byte) noexcept { *end_++ = byte; }
    void put(std::uint64_t number) noexcept {
      unsigned char* at = end_;
      for (; number >= 0x80; number >>= 7) *at++ = static_cast<unsigned char>(number | 0x80);
      *at++ = static_cast<unsigned char>(number);
      end_ = at;
    }
    /// How many more numbers surely fit, whatever their size.
    std::uint32_t room() const noexcept {
      return static_cast<std::uint32_t>((kColumnBytes - size()) / kMostOfOne);
    }
    const unsigned char* bytes() const noexcept { return bytes_; }
    std::size_t size() const noexcept { return static_cast<std::size_t>(end_ - bytes_); }
    void clear() noexcept { end_ = bytes_; }

    static constexpr std::size_t kMostOfOne = 10;

   private:
    unsigned char* bytes_ = nullptr;
    unsigned char* end_ = nullptr;
  };
  // Derived: ZSTD_estimateCCtxSize of the level, with room. If zstd rejects the static context, the
  // writer fails; a test covers that it is accepted.
  static constexpr std::size_t kCompressorBytes = 1 << 20;
  static constexpr std::size_t kBodyBytes =
      kEventColumns * (kColumnBytes + kColumnBytes / 128 + 64);

  // Parts of add(), inlined because the recorded program waits for them.
  void put_times(const Event& event, unsigned& tag) noexcept;
  void put_end(const Event& event) noexcept;
  void put_beginning(const Event& event, unsigned& tag) noexcept;
  void begin_block() noexcept;
  void put_tick(std::uint64_t time_ns) noexcept;
  bool make_room() noexcept;
  bool flush_stacks() noexcept;
  struct Bytes {
    const void* at;
    std::size_t count;
    unsigned char* rests = nullptr;  ///< how many more blocks skip compressing this column
  };
  // Chosen: random columns tend to stay random, and each attempt at compression costs. A small
  // column does not predict later ones.
  static constexpr unsigned char kRests = 7;
  static constexpr std::size_t kWorthARest = 4096;
  bool write_block(BlockHeader header, const Bytes* columns, unsigned column_count) noexcept;
  std::size_t store(Bytes column, unsigned char* out, std::size_t room) noexcept;
  bool put_out(const void* bytes, std::size_t count) noexcept;

  Write* const write_;
  void* const context_;
  bool has_failed_ = false;
  void* compressor_ = nullptr;

  std::uint64_t next_object_ = 0;
  std::uint32_t next_node_ = 1;
  std::uint64_t tick_ = 0;
  std::uint64_t next_tick_ns_ = kTickNs;  ///< an earlier event gets the previous event's time

  // The block that is being filled.
  std::uint64_t first_event_ = 0;
  std::uint32_t event_count_ = 0;
  std::uint32_t surely_fit_ = 0;  ///< this many more events fit, however large their numbers
  std::uint64_t block_object_ = 0;
  std::uint64_t block_tick_ = 0;
  std::uint32_t node_count_ = 0;
  std::uint64_t last_address_ = 0;
  unsigned char rests_[kEventColumns] = {};
  Expectation expected_;
  Column columns_[kEventColumns];  // adjacent, because each event adds to most of them
  Column stack_columns_[kStackColumns];
  unsigned char column_bytes_[kEventColumns + kStackColumns][kColumnBytes];
  unsigned char body_[kBodyBytes];
  alignas(16) unsigned char compressor_memory_[kCompressorBytes];
};

[[gnu::always_inline]] inline void Writer::put_times(const Event& event, unsigned& tag) noexcept {
  if (event.thread != expected_.thread) {
    tag |= kOtherThread;
    columns_[kThreads].put(event.thread);
    expected_.thread = event.thread;
  }
  if (event.time_ns < next_tick_ns_) return;
  tag |= kLaterTime;
  put_tick(event.time_ns);
}

[[gnu::always_inline]] inline void Writer::put_end(const Event& event) noexcept {
  Column& column = columns_[kEnds];
  if (event.ended >= kUnknownObject) {
    return column.put_byte(event.ended == kNoObject ? kEndOfNone : kEndOfUnknown);
  }
  const std::uint64_t behind = next_object_ - event.ended;
  const std::uint64_t step = zigzag(static_cast<std::int64_t>(event.ended - expected_.last_ended));
  expected_.last_ended = event.ended;
  // A step of 0 would encode an unknown object. It occurs only at the beginning of a block, when
  // the same object would end again.
  column.put(step != 0 && step < behind ? step << 1 | 1 : behind << 1);
}

[[gnu::always_inline]] inline void Writer::put_beginning(const Event& event,
                                                         unsigned& tag) noexcept {
  if (event.stack == expected_.stack()) {
    tag |= kExpectedStack;
  } else {
    columns_[kStacks].put(event.stack);
  }
  const bool is_expected = event.size_bytes == expected_.size_at(event.stack);
  // Failed calls may have sizes up to 2^64 - 1, which is stored as one less.
  columns_[kSizes].put(is_expected ? 0
                                   : event.size_bytes + (event.size_bytes != ~std::uint64_t{0}));
  expected_.note(event.stack, event.size_bytes);
  if (event.alignment != 0) {
    tag |= kHasAlignment;
    columns_[kAlignments].put_byte(static_cast<unsigned char>(__builtin_ctzll(event.alignment)));
  }
  if (event.object == kNoObject) {
    tag |= kFailed;
  } else {
    ++next_object_;
  }
}

}  // namespace strata::trace
