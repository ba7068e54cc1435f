#pragma once

#include <cstdint>

namespace strata {

/// Which shard of a page heap serves a thread, or a Central shard's spans.
/// \threads  its user's
class PagePlace {
 public:
  /// A thread's place. It begins at the first shard, and moves on once the thread has met others
  /// there.
  constexpr PagePlace() noexcept = default;
  /// A place for spans of objects. It stays at that shard, or at another if there are fewer. While
  /// the heap is small, it grows rather than place the spans between those of another shard.
  explicit constexpr PagePlace(unsigned shard) noexcept
      : shard_(static_cast<std::uint8_t>(shard)), met_(kStays) {}

  unsigned shard() const noexcept { return shard_; }
  bool is_apart() const noexcept { return met_ == kStays; }

  bool may_move() const noexcept { return met_ < kPatience; }
  /// Counts that another thread was the last to ask there.
  /// \pre  may_move()
  void note_met() noexcept { ++met_; }
  /// Whether the thread should move.
  bool has_met_enough() const noexcept { return met_ == kPatience; }
  void move_to(unsigned shard) noexcept {
    shard_ = static_cast<std::uint8_t>(shard);
    met_ = kHasMoved;
  }

 private:
  // Chosen: two threads that both use pages meet so often before they hold many. One that asks a
  // few times in its life, as many do when they begin, goes on sharing a shard.
  static constexpr std::uint8_t kPatience = 4;
  static constexpr std::uint8_t kHasMoved = 0xfe;
  static constexpr std::uint8_t kStays = 0xff;

  std::uint8_t shard_ = 0;
  std::uint8_t met_ = 0;  // how often; or one of the two above
};

}  // namespace strata
