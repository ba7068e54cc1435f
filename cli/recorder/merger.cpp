#include "recorder/merger.h"

#include <algorithm>
#include <atomic>

#include "os/wait.h"
#include "recorder/system.h"
#include "recorder/text.h"

namespace strata::recorder {

using trace::Event;
using trace::Operation;

void Merger::use(char* memory, char* modules, trace::Writer& writer) noexcept {
  heads_ = reinterpret_cast<Head*>(memory);
  if (modules != nullptr) modules_.use(modules);
  writer_ = &writer;
}

void Merger::forget_all() noexcept {
  objects_.clear();
  modules_.forget_all();
  written_stacks_ = 0;
  last_old_stack_ = stacks_.last_old();
  thread_numbers_ = {};
}

void Merger::settle() noexcept {
  const std::uint64_t now = clock_.count();
  while (clock_.count() - now <= 8 * clock_.skew()) os::relax_processor();
}

std::size_t Merger::drain() noexcept {
  clock_.measure();
  const std::uint64_t until = clock_.count() - clock_.skew();
  std::atomic_thread_fence(std::memory_order_seq_cst);
  origin_ns_ = clock_.ns_at(origin_);
  same_tick_ = 0;
  return merge(until);
}

/// Returns the next record of a stream, or nullptr. Reads `published` only after taking all records
/// known so far, because the thread owns that cache line.
const Record* Merger::head(Stream& stream) noexcept {
  while (stream.read == stream.readable) {
    Chunk& chunk = *stream.reading;
    stream.readable = chunk.published.load(std::memory_order_acquire);
    if (stream.read != stream.readable) break;
    Chunk* const next = chunk.next.load(std::memory_order_acquire);
    if (next == nullptr) return nullptr;
    // Includes what the thread published before it went on to the next chunk.
    stream.readable = chunk.published.load(std::memory_order_acquire);
    if (stream.read != stream.readable) break;
    stream.reading = next;
    stream.read = stream.readable = 0;
    streams_.give_back_chunk(&chunk);
  }
  return &stream.reading->records[stream.read];
}

/// Merges by time: takes a run of records from the earliest stream, up to the next stream's first
/// record.
std::size_t Merger::merge(std::uint64_t until) noexcept {
  std::size_t taken = 0;
  std::size_t heads = find_heads(until);
  while (heads > 0 && !writer_->has_failed()) {
    const Turn turn = next_turn(heads, until);
    Head& first = heads_[turn.head];
    Stream& stream = *first.stream;
    taken += take_run(stream, turn.until);
    if (stream.holds != 0) {
      heads = find_heads(until);  // a held record may wait for a stream that had no records before
      continue;
    }
    const Record* const next = head(stream);
    if (next != nullptr && next->time <= until) {
      first.time = next->time;
    } else {
      first = heads_[--heads];
    }
  }
  return taken;
}

/// \returns  The number of streams with a record up to `until`. A record published later with such
///           a time can wait: nothing merged so far depends on it.
std::size_t Merger::find_heads(std::uint64_t until) noexcept {
  std::size_t heads = 0;
  streams_.for_each_used([&](Stream& stream) {
    const Record* const record = head(stream);
    if (record == nullptr) return;
    const std::uint64_t time = std::max(record->time, stream.held_until);
    if (time <= until) heads_[heads++] = {time, &stream};
  });
  return heads;
}

/// Branch-free in which stream is first, because threads interleave unpredictably.
Merger::Turn Merger::next_turn(std::size_t heads, std::uint64_t until) const noexcept {
  Turn turn{0, until};
  std::uint64_t first = heads_[0].time;
  for (std::size_t i = 1; i < heads; ++i) {
    const std::uint64_t time = heads_[i].time;
    turn.until = std::min(turn.until, std::max(first, time));
    turn.head = time < first ? i : turn.head;
    first = std::min(first, time);
  }
  return turn;
}

std::size_t Merger::take_run(Stream& stream, std::uint64_t until) noexcept {
  // Chosen: with half of these, a program with a large table waits for memory; twice as many gain
  // nothing.
  constexpr std::ptrdiff_t kAhead = 16;     // for the table entry of a later record
  constexpr std::ptrdiff_t kFarAhead = 72;  // for a record in another processor's cache
  const Record* const records = stream.reading->records;
  const Record* const begin = records + stream.read;
  const Record* const last = records + stream.readable - 1;
  if (written_stacks_ != stacks_.count()) write_stacks();
  bool was_held = stream.holds != 0;
  const Record* at = begin;
  while (at <= last && at->time <= until) {
    __builtin_prefetch(at + kFarAhead);
    objects_.prefetch(at[std::min(kAhead, last - at)].address());
    const unsigned taken = take(stream, *at);
    if (taken == 0) break;
    at += taken;
    if (was_held) stream.holds = stream.held_until = 0;
    was_held = false;
  }
  stream.read = static_cast<std::uint32_t>(at - records);
  return static_cast<std::size_t>(at - begin);
}

/// Returns the time at which a stream's next records free the address; 0 if none does up to
/// `until`.
std::uint64_t Merger::time_of_end(Stream& stream, std::uint64_t address,
                                  std::uint64_t until) noexcept {
  const Chunk* chunk = head(stream) == nullptr ? nullptr : stream.reading;
  std::uint32_t i = stream.read;
  for (; chunk != nullptr; chunk = chunk->next.load(std::memory_order_acquire), i = 0) {
    const std::uint32_t published = chunk->published.load(std::memory_order_acquire);
    for (; i < published; ++i) {
      const Record& record = chunk->records[i];
      if (record.time > until) return 0;
      if (record.address() == address && record.ends_object()) return record.time;
      i += record.size == Record::kSizeFollows;
    }
  }
  return 0;
}

/// Handles the allocation of an address that is still live. If another stream frees the address
/// within the skew, the clock was read early, and this stream waits for that free.
bool Merger::hold_back(Stream& stream, const Record& record) noexcept {
  if (stream.holds == kMostHolds) return false;
  const std::uint64_t until = record.time + clock_.skew();
  bool is_held = false;
  streams_.for_each_used([&](Stream& other) {
    if (is_held || &other == &stream) return;
    const std::uint64_t time = time_of_end(other, record.address(), until);
    if (time == 0) return;
    stream.held_until = std::max(time, other.held_until) + 1;
    ++stream.holds;
    is_held = true;
  });
  return is_held;
}

[[gnu::always_inline]] inline std::uint32_t Merger::number_of(Stream& stream) noexcept {
  if (!stream.has_number) {
    stream.has_number = true;
    stream.number = thread_numbers_.take();
  }
  return stream.number;
}

/// Most events have the previous event's tick; they need no new time.
[[gnu::always_inline]] inline void Merger::add(Event& event, std::uint64_t count) noexcept {
  if (count > same_tick_) {
    const std::uint64_t ns = std::max(clock_.ns_at(count), origin_ns_);
    event.time_ns = ns - origin_ns_;
    same_tick_ = clock_.count_before(
        ns - event.time_ns % trace::Writer::kTickNs + trace::Writer::kTickNs, count);
  }
  writer_->add(event);
}

/// \returns  The number of records taken; 0 if the first must be held back, with nothing changed.
[[gnu::always_inline]] inline unsigned Merger::take(Stream& stream, const Record& record) noexcept {
  if (!record.is_plain()) return take_slowly(stream, record);
  const bool is_taken = record.begins_object() ? take_beginning(stream, record, record.size)
                                               : take_end(stream, record);
  return is_taken ? 1 : 0;
}

/// Takes half of a realloc, or a call with a wide size.
unsigned Merger::take_slowly(Stream& stream, const Record& record) noexcept {
  const bool has_wide_size = record.size == Record::kSizeFollows;
  const std::uint64_t size = has_wide_size ? (&record)[1].time : record.size;
  const bool is_taken = record.kind() == RecordKind::kCall ? take_beginning(stream, record, size)
                                                           : take_realloc(stream, record, size);
  return is_taken ? 1 + has_wide_size : 0;
}

[[gnu::always_inline]] inline bool Merger::take_beginning(Stream& stream, const Record& record,
                                                          std::uint64_t size) noexcept {
  Event event;
  event.operation = record.operation();
  event.size_bytes = size;
  event.stack = record.stack;
  const unsigned alignment = record.alignment_log2();
  if (alignment != 0) event.alignment = std::uint64_t{1} << alignment;
  if (!begin_object(stream, event, record)) return false;
  event.thread = number_of(stream);
  add(event, record.time);
  return true;
}

[[gnu::always_inline]] inline bool Merger::take_end(Stream& stream, const Record& record) noexcept {
  Event event;
  event.operation = record.operation();
  event.ended = end_object(record.address());
  event.thread = number_of(stream);
  add(event, record.time);
  return true;
}

bool Merger::take_realloc(Stream& stream, const Record& record, std::uint64_t size) noexcept {
  const std::uint64_t address = record.address();
  if (record.kind() == RecordKind::kReallocBegin) {
    stream.has_pending = true;
    stream.pending_address = address;
    stream.pending = address == 0 ? trace::kNoObject : end_object(address);
    return true;
  }
  Event event;
  event.operation = record.operation();
  if (trace::begins_object(event.operation)) {
    event.size_bytes = size;
    event.stack = record.stack;
    if (!begin_object(stream, event, record)) return false;
  }
  event.thread = number_of(stream);
  end_realloc(stream, event, record);
  return true;
}

/// If a realloc failed, its object lives on; one to 0 bytes may have freed it.
void Merger::end_realloc(Stream& stream, Event& event, const Record& record) noexcept {
  const std::uint64_t before = stream.has_pending ? stream.pending : trace::kUnknownObject;
  stream.has_pending = false;
  if (event.operation == Operation::kFree) {
    if (before == trace::kNoObject) return;
    event.ended = before;
  } else if (record.address() != 0) {
    event.ended = before;
  } else if (before < trace::kUnknownObject) {
    objects_.insert(stream.pending_address, before);
  }
  add(event, record.time);
}

[[gnu::always_inline]] inline std::uint64_t Merger::end_object(std::uint64_t address) noexcept {
  const std::uint64_t object = objects_.take(address);
  return object == ObjectMap::kNone ? trace::kUnknownObject : object;
}

[[gnu::always_inline]] inline bool Merger::begin_object(Stream& stream, Event& event,
                                                        const Record& record) noexcept {
  const std::uint64_t address = record.address();
  if (address == 0) return true;  // the call failed
  const std::uint64_t object = writer_->next_object();
  const std::uint64_t before = objects_.insert(address, object);
  if (before != ObjectMap::kNone && !lose_object(stream, record, before)) return false;
  event.object = object;
  return true;
}

/// Records the object that was live at the address as lost: its free went through a function that
/// we do not intercept, or was dropped.
/// \returns  False if another stream is about to free it, with nothing changed.
bool Merger::lose_object(Stream& stream, const Record& record, std::uint64_t before) noexcept {
  if (hold_back(stream, record)) {
    objects_.insert(record.address(), before);
    return false;
  }
  Event lost;
  lost.operation = Operation::kLost;
  lost.thread = number_of(stream);
  lost.ended = before;
  add(lost, record.time);
  return true;
}

void Merger::write_stacks() noexcept {
  const std::uint32_t count = stacks_.count();
  for (; written_stacks_ < count; ++written_stacks_) {
    if (last_old_stack_ != stacks_.last_old() && written_stacks_ >= stacks_.last_old()) {
      last_old_stack_ = stacks_.last_old();
      modules_.forget_all();
    }
    const trace::StackNode node = stacks_.node(written_stacks_ + 1);
    modules_.need(node.return_address, *writer_);
    writer_->add_stack(node);
  }
}

void Merger::write_names() noexcept {
  streams_.for_each_used([&](Stream& stream) {
    if (stream.is_named || !stream.has_number) return;
    stream.is_named = true;
    Text path;
    path.add("/proc/self/task/").decimal(stream.thread).add("/comm");
    char name[64];
    std::size_t size = read_small_file(path.c_string(), name, sizeof name);
    if (size > 0 && name[size - 1] == '\n') --size;
    const bool has_ended = size == 0;
    Text line;
    line.decimal(stream.number).add(" ").decimal(stream.thread).add(" ");
    line.value(has_ended ? std::string_view(stream.name) : std::string_view(name, size));
    writer_->add_text(trace::BlockKind::kThreads, line.add("\n").view());
  });
}

void Merger::collect_ended_threads(std::uint64_t process) noexcept {
  streams_.for_each_used([&](Stream& stream) {
    if (is_thread_alive(process, stream.thread) || head(stream) != nullptr) return;
    streams_.give_back_stream(stream);
  });
}

}  // namespace strata::recorder
