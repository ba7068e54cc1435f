#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "harness/own_memory.h"
#include "shared/replay_plan.h"

namespace strata::cell {

/// Reads bytes of a plan.
/// \errors  std::runtime_error if the file is truncated.
inline void read_plan(int fd, std::uint64_t at, void* bytes, std::size_t count) {
  auto* out = static_cast<char*>(bytes);
  while (count > 0) {
    const ssize_t got = ::pread(fd, out, count, static_cast<off_t>(at));
    if (got <= 0) throw std::runtime_error("the plan of the replay is cut short");
    out += got;
    at += static_cast<std::uint64_t>(got);
    count -= static_cast<std::size_t>(got);
  }
}

/// The words of one thread, read a chunk at a time into its own memory. A mapped plan would count
/// as memory of the process.
class PlanStream {
 public:
  PlanStream(int fd, const plan::Stream& stream)
      : fd_(fd), next_chunk_(stream.first_chunk), left_(stream.words), chunk_(plan::kChunkWords) {}

  bool is_at_end() const noexcept { return at_ == end_ && left_ == 0; }
  /// \pre  not at the end
  std::uint64_t next() {
    if (at_ == end_) read_chunk();
    return chunk_[at_++];
  }
  /// A word that will be read soon; 0 if it is not in memory yet.
  std::uint64_t soon() const noexcept { return at_ + kSoon < end_ ? chunk_[at_ + kSoon] : 0; }

 private:
  static constexpr std::size_t kSoon = 16;  // far enough ahead to hide a cache miss

  void read_chunk() {
    const std::uint64_t count = left_ < plan::kChunkWords - 1 ? left_ : plan::kChunkWords - 1;
    if (count == 0) throw std::runtime_error("the plan of the replay is damaged");
    read_plan(fd_, next_chunk_, chunk_.data(), (count + 1) * sizeof(std::uint64_t));
    next_chunk_ = chunk_[0];
    left_ -= count;
    at_ = 1;
    end_ = count + 1;
  }

  int fd_;
  std::uint64_t next_chunk_;
  std::uint64_t left_;
  OwnMemory<std::uint64_t> chunk_;
  std::size_t at_ = 0;
  std::size_t end_ = 0;
};

}  // namespace strata::cell
