#pragma once

#include <cstdint>

namespace strata {

/// Which shard of a page heap gives pages.
/// \threads  its user's
class PagePlace {
 public:
  /// A thread's. It begins at the first one, and moves on once the thread has met others there.
  constexpr PagePlace() noexcept = default;
  /// One for spans of objects, which stays at that one, or another if there are fewer. While the
  /// heap is small, it grows rather than that the spans lie between those of another shard.
  explicit constexpr PagePlace(unsigned shard) noexcept
      : shard_(static_cast<std::uint8_t>(shard)), met_(kStays) {}

  unsigned shard() const noexcept { return shard_; }
  bool is_apart() const noexcept { return met_ == kStays; }

  bool may_move() const noexcept { return met_ < kPatience; }
  /// Another thread was the last to ask there.
  /// \pre  may_move()
  void note_met() noexcept { ++met_; }
  /// Whether it is to move.
  bool has_met_enough() const noexcept { return met_ == kPatience; }
  void move_to(unsigned shard) noexcept {
    shard_ = static_cast<std::uint8_t>(shard);
    met_ = kHasMoved;
  }

 private:
  // Chosen: two threads that both use pages have met so often before they hold many. One that asks
  // a few times in its life, as many do as they begin, shares a shard with others.
  static constexpr std::uint8_t kPatience = 4;
  static constexpr std::uint8_t kHasMoved = 0xfe;
  static constexpr std::uint8_t kStays = 0xff;

  std::uint8_t shard_ = 0;
  std::uint8_t met_ = 0;  // how often; or one of the two above
};

}  // namespace strata
