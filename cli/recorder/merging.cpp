#include <cstring>

#include "recorder/recording.h"

/// \file  The writer's work: records of all streams become one order of events.

namespace strata::recorder {

using trace::Event;
using trace::Operation;

std::size_t Recording::drain() noexcept {
  const std::uint64_t until = clock_.count_in_order();
  std::atomic_thread_fence(std::memory_order_seq_cst);
  clock_.measure();
  return merge(until);
}

/// The next record of a stream, with its chunk; nullptr if it has none.
const Record* Recording::head(Stream& stream) noexcept {
  for (;;) {
    Chunk& chunk = *stream.reading;
    if (chunk.read < chunk.published.load(std::memory_order_acquire)) {
      return &chunk.records[chunk.read];
    }
    Chunk* const next = chunk.next.load(std::memory_order_acquire);
    if (next == nullptr) return nullptr;
    // What was published before the thread went on.
    if (chunk.read < chunk.published.load(std::memory_order_acquire)) continue;
    stream.reading = next;
    streams_.give_back_chunk(&chunk);
  }
}

/// In the order of time: from the stream with the earliest record as many as are earlier than those
/// of all others.
std::size_t Recording::merge(std::uint64_t until) noexcept {
  std::size_t taken = 0;
  for (;;) {
    Stream* first = nullptr;
    std::uint64_t first_time = until;
    std::uint64_t second_time = until;
    const std::size_t count = streams_.stream_count();
    for (std::size_t i = 0; i < count; ++i) {
      Stream& stream = streams_.stream(i);
      if (stream.state.load(std::memory_order_acquire) != Stream::kUsed) continue;
      const Record* const record = head(stream);
      if (record == nullptr || record->time > until) continue;
      if (first == nullptr || record->time < first_time) {
        if (first != nullptr) second_time = first_time;
        first = &stream;
        first_time = record->time;
      } else if (record->time < second_time) {
        second_time = record->time;
      }
    }
    if (first == nullptr || writer_->has_failed()) return taken;
    write_stacks();
    taken += take_run(*first, second_time);
  }
}

std::size_t Recording::take_run(Stream& stream, std::uint64_t until) noexcept {
  constexpr std::uint32_t kAhead = 8;
  Chunk& chunk = *stream.reading;
  const std::uint32_t published = chunk.published.load(std::memory_order_acquire);
  const std::uint32_t begin = chunk.read;
  if (written_stacks_ != stacks_.count()) write_stacks();
  while (chunk.read < published) {
    const Record& record = chunk.records[chunk.read];
    if (record.time > until) break;
    if (chunk.read + kAhead < published) {
      objects_.prefetch(chunk.records[chunk.read + kAhead].address());
    }
    std::uint64_t size = record.size;
    ++chunk.read;
    if (record.size == Record::kSizeFollows) size = chunk.records[chunk.read++].time;
    take(stream, record, size);
  }
  return chunk.read - begin;
}

void Recording::take(Stream& stream, const Record& record, std::uint64_t size) noexcept {
  const std::uint64_t address = record.address();
  if (record.kind() == RecordKind::kReallocBegin) {
    stream.has_pending = true;
    stream.pending_address = address;
    stream.pending = trace::kNoObject;
    if (address == 0) return;
    stream.pending = objects_.take(address);
    if (stream.pending == ObjectMap::kNone) stream.pending = trace::kUnknownObject;
    return;
  }
  if (!stream.has_number) {
    stream.has_number = true;
    stream.number = next_thread_++;
  }
  Event event;
  event.operation = record.operation();
  event.thread = stream.number;
  event.stack = record.stack;
  event.time_ns = clock_.ns_at(record.time) - clock_.ns_at(origin_);
  if (record.time < origin_) event.time_ns = 0;
  event.size_bytes = size;
  const unsigned alignment = record.alignment_log2();
  if (alignment != 0) event.alignment = std::uint64_t{1} << alignment;
  if (record.kind() == RecordKind::kReallocEnd) {
    end_realloc(stream, event, address);
  } else {
    take_call(event, address);
  }
}

void Recording::take_call(Event& event, std::uint64_t address) noexcept {
  if (!trace::begins_object(event.operation)) {
    event.ended = objects_.take(address);
    if (event.ended == ObjectMap::kNone) event.ended = trace::kUnknownObject;
    event.size_bytes = 0;
  } else if (address != 0) {
    begin_object(event, address);
  }
  writer_->add(event);
}

/// Of a realloc that failed the object is what it was; one of nothing may have freed it.
void Recording::end_realloc(Stream& stream, Event& event, std::uint64_t address) noexcept {
  const std::uint64_t before = stream.has_pending ? stream.pending : trace::kUnknownObject;
  stream.has_pending = false;
  if (event.operation == Operation::kFree) {
    event.ended = before;
    event.size_bytes = 0;
    if (before == trace::kNoObject) return;
  } else if (address != 0) {
    event.ended = before;
    begin_object(event, address);
  } else if (before < trace::kUnknownObject) {
    objects_.insert(stream.pending_address, before);
  }
  writer_->add(event);
}

/// What lived at the address has ended, and nobody saw how: it was freed where we do not look, or
/// dropped.
void Recording::begin_object(Event& event, std::uint64_t address) noexcept {
  const std::uint64_t object = writer_->next_object();
  const std::uint64_t before = objects_.insert(address, object);
  if (before != ObjectMap::kNone) {
    Event lost;
    lost.operation = Operation::kLost;
    lost.thread = event.thread;
    lost.time_ns = event.time_ns;
    lost.ended = before;
    writer_->add(lost);
  }
  event.object = object;
}

void Recording::write_stacks() noexcept {
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

void Recording::write_names() noexcept {
  const std::size_t count = streams_.stream_count();
  for (std::size_t i = 0; i < count; ++i) {
    Stream& stream = streams_.stream(i);
    if (stream.state.load(std::memory_order_acquire) != Stream::kUsed || stream.is_named ||
        !stream.has_number) {
      continue;
    }
    stream.is_named = true;
    Text path;
    path.add("/proc/self/task/").decimal(stream.thread).add("/comm");
    char name[64];
    std::size_t size = read_small_file(path.c_string(), name, sizeof name);
    if (size > 0 && name[size - 1] == '\n') --size;
    Text line;
    line.decimal(stream.number).add(" ").decimal(stream.thread).add(" ").value({name, size});
    writer_->add_text(trace::BlockKind::kThreads, line.add("\n").view());
  }
}

void Recording::report_drops() noexcept {
  std::uint64_t dropped = dropped_.load(std::memory_order_relaxed);
  const std::size_t count = streams_.stream_count();
  for (std::size_t i = 0; i < count; ++i) {
    Stream& stream = streams_.stream(i);
    if (stream.state.load(std::memory_order_acquire) == Stream::kUsed) {
      dropped += stream.dropped.load(std::memory_order_relaxed);
    }
  }
  if (dropped <= reported_drops_) return;
  writer_->add_dropped(dropped - reported_drops_);
  reported_drops_ = dropped;
}

/// The system's word counts: a thread that ends needs to tell nobody.
void Recording::collect_ended_threads() noexcept {
  const std::size_t count = streams_.stream_count();
  for (std::size_t i = 0; i < count; ++i) {
    Stream& stream = streams_.stream(i);
    if (stream.state.load(std::memory_order_acquire) != Stream::kUsed ||
        is_thread_alive(process_, stream.thread) || head(stream) != nullptr) {
      continue;
    }
    dropped_.fetch_add(stream.dropped.load(std::memory_order_relaxed), std::memory_order_relaxed);
    streams_.give_back_stream(stream);
  }
}

}  // namespace strata::recorder
