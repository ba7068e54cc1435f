#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace strata {

/// How badly a class needs more room in its bin. A *slow call* is one that found the bin dry, or
/// full. By these it decides when the bin may ask for room, and whether the load is a lasting one:
/// batches that do not fit.
///
/// A bin asks at each slow call until it is refused. From then on, it counts repeats: calls that
/// found it as the call before did, dry again or full again.
///
///   kUnrefused  asks at each call
///   kRefused    does not ask
///   kLasting    50 repeats later: the load is lasting. Asks once, if batches are just a little
///               larger than the bin
///   kPressing   49 more repeats later: asks at each call, and idle bins may give way
///
/// Batches much larger than the bin make it run dry many times in a row, and then overflow as
/// often; seven repeats of a row count. Batches a little larger make it do each twice by turns.
/// Where objects come and go at random, every other or third row is of one call only, and that
/// leads back to kRefused.
///
/// A class without a bin is as badly off at each call: each is a repeat, and every eighth asks.
class BinDemand {
 public:
  enum class Slow : std::uint8_t { kNeither, kDry, kOver };
  enum class Load : bool { kUsual, kLasting };

  /// Notes a slow call.
  void note(Slow slow, bool has_bin) noexcept {
    const bool is_repeat = latest_ == slow || !has_bin;
    const bool is_counted = row_ != kLongRow || !has_bin;
    if (level_ != kUnrefused && is_repeat && is_counted && level_ != kPressing) ++level_;
    if (level_ != kUnrefused && !is_repeat && row_ == 1) level_ = kRefused;
    row_ = is_repeat ? std::min<std::uint8_t>(row_ + 1, kLongRow) : 1;
    latest_ = slow;
  }
  /// Whether the call that was noted last asks for room.
  bool may_ask(bool has_bin) const noexcept {
    return level_ == kUnrefused || (level_ == kLasting && row_ == 2) || level_ == kPressing ||
           (!has_bin && level_ % kCallsWithoutBin == 0);
  }
  /// Whether a bin that asks may search all others for one to take room from. Without a bin, most
  /// of those that ask may not.
  bool may_look() const noexcept { return level_ == kUnrefused || level_ >= kLasting; }
  bool is_pressing() const noexcept { return level_ == kPressing; }
  /// Whether the thread seems to free objects of the class and to allocate none, since the latest
  /// calls all found the bin full. In more room, more objects would lie idle.
  bool only_frees() const noexcept { return latest_ == Slow::kOver && row_ > kFewCalls; }
  /// The load; that of small objects is never a lasting one.
  Load load_of(std::size_t object_bytes) const noexcept {
    return level_ >= kLasting && object_bytes >= kLastingFromBytes ? Load::kLasting : Load::kUsual;
  }

  /// Note what came of asking, and the load at that time.
  void note_grown(Load load) noexcept { level_ = load == Load::kLasting ? kPressing : kUnrefused; }
  void note_refused(Load load) noexcept { level_ = load == Load::kLasting ? kLasting : kRefused; }
  /// Notes that the bin gave up room.
  void note_shrunk() noexcept { level_ = kUnrefused; }

  /// Whether there was no slow call since forget_calls().
  bool is_idle() const noexcept { return latest_ == Slow::kNeither; }
  void forget_calls() noexcept {
    latest_ = Slow::kNeither;
    row_ = 0;
  }

 private:
  // Chosen: after how many repeats.
  enum Level : std::uint8_t { kUnrefused = 0, kRefused = 1, kLasting = 51, kPressing = 100 };
  // Chosen: so many calls alike, of which the first is no repeat.
  static constexpr std::uint8_t kLongRow = 8;
  static constexpr std::uint8_t kCallsWithoutBin = 8;
  // Chosen: a thread that frees what it allocated may still ask twice in a row, and quadruple the
  // bin.
  static constexpr std::uint8_t kFewCalls = 2;
  // Chosen: from this size on a slot is at most a thirty-second of its object. For smaller objects,
  // a bin that saves some calls of the slow path takes more memory than it is worth.
  static constexpr std::size_t kLastingFromBytes = 256;

  std::uint8_t level_ = kUnrefused;  // repeats lead from one Level to the next
  Slow latest_ = Slow::kNeither;
  std::uint8_t row_ = 0;  // how many calls in a row, up to kLongRow, were as the latest
};

}  // namespace strata
