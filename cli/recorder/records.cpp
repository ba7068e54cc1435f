#include "recorder/records.h"

#include <cstring>
#include <mutex>
#include <new>

#include "os/wait.h"
#include "recorder/system.h"

namespace strata::recorder {

void StreamTable::use(char* memory) noexcept {
  const std::lock_guard guard(lock_);
  streams_ = reinterpret_cast<Stream*>(memory);
}

bool StreamTable::is_out_of_memory() noexcept {
  const std::lock_guard guard(lock_);
  return is_refused_ && free_chunks_ == nullptr &&
         full_chunks_.load(std::memory_order_relaxed) == 0;
}

Stream* StreamTable::take_stream(std::uint32_t thread) noexcept {
  char name[sizeof Stream::name];
  read_thread_name(name);
  const std::lock_guard guard(lock_);
  if (streams_ == nullptr) return nullptr;
  const std::size_t used = used_.load(std::memory_order_relaxed);
  std::size_t at = 0;
  while (at < used && streams_[at].state.load(std::memory_order_relaxed) != Stream::kFree) ++at;
  if (at == kMostStreams) return nullptr;
  Chunk* const chunk = take_chunk(kMostChunks + used_streams_ + 1);
  if (chunk == nullptr) return nullptr;
  StackCache* const stacks = streams_[at].stacks;
  Stream* const stream = ::new (&streams_[at]) Stream;
  stream->stacks = stacks;
  stream->thread = thread;
  std::memcpy(stream->name, name, sizeof name);
  stream->current = stream->reading = chunk;
  if (++used_streams_ > 1) had_several_.store(true, std::memory_order_relaxed);
  // release: the writer finds a complete stream below used_.
  stream->state.store(Stream::kUsed, std::memory_order_release);
  if (at == used) used_.store(used + 1, std::memory_order_release);
  return stream;
}

bool StreamTable::add_chunk(Stream& stream) noexcept {
  const std::lock_guard guard(lock_);
  Chunk* const chunk = take_chunk(kMostChunks + used_streams_);
  if (chunk == nullptr) return false;
  stream.current->next.store(chunk, std::memory_order_release);
  stream.current = chunk;
  full_chunks_.store(full_chunks_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return true;
}

Chunk* StreamTable::take_chunk(std::size_t most) noexcept {
  Chunk* chunk = free_chunks_;
  if (chunk != nullptr) {
    free_chunks_ = chunk->next.load(std::memory_order_relaxed);
  } else {
    if (chunk_count_ >= most) return nullptr;
    chunk = static_cast<Chunk*>(map_memory(Chunk::kBytes));
    is_refused_ = chunk == nullptr;
    if (is_refused_) return nullptr;
    ++chunk_count_;
  }
  chunk->published.store(0, std::memory_order_relaxed);
  chunk->next.store(nullptr, std::memory_order_relaxed);
  return chunk;
}

void StreamTable::put_chunk(Chunk* chunk) noexcept {
  chunk->next.store(free_chunks_, std::memory_order_relaxed);
  free_chunks_ = chunk;
  returns_.fetch_add(1, std::memory_order_release);
}

void StreamTable::give_back_chunk(Chunk* chunk) noexcept {
  {
    const std::lock_guard guard(lock_);
    put_chunk(chunk);
    full_chunks_.store(full_chunks_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  }
  os::wake_all(os::futex_word(returns_));
}

void StreamTable::give_back_stream(Stream& stream) noexcept {
  {
    const std::lock_guard guard(lock_);
    put_chunk(stream.reading);
    --used_streams_;
    stream.state.store(Stream::kFree, std::memory_order_relaxed);
  }
  os::wake_all(os::futex_word(returns_));
}

void StreamTable::forget_all() noexcept {
  const std::size_t used = used_.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < used; ++i) {
    Stream& stream = streams_[i];
    if (stream.state.load(std::memory_order_relaxed) == Stream::kFree) continue;
    for (Chunk* chunk = stream.reading; chunk != nullptr;) {
      Chunk* const next = chunk->next.load(std::memory_order_relaxed);
      put_chunk(chunk);
      chunk = next;
    }
    stream.state.store(Stream::kFree, std::memory_order_relaxed);
  }
  used_.store(0, std::memory_order_relaxed);
  full_chunks_.store(0, std::memory_order_relaxed);
  had_several_.store(false, std::memory_order_relaxed);
  used_streams_ = 0;
}

}  // namespace strata::recorder
