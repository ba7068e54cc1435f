#include "replay/survey.h"

#include <algorithm>

namespace strata::cli {
namespace {

constexpr std::uint64_t kAdvanceEvents = 1 << 20;
/// What an arena takes of a small object more than its size.
constexpr std::uint64_t kArenaRounding = 16;

}  // namespace

Survey::Survey(History& history, const PlanOptions& options, const Advance& advance)
    : options_(options) {
  while (history.next()) {
    ++events_;
    if (events_ % kAdvanceEvents == 0) advance(0);
    note_shared(history);
    if (!options.routed.empty()) {
      options.is_reserved ? note_growth(history) : note_routed(history);
    }
    if (events_ == options.until_event) break;
  }
  for (const auto& [object, number] : growth_numbers_) {
    if (is_shared_[object]) growths_[number].last = growths_[number].first;  // none
  }
  threads_ = history.reader().thread_count();
  peak_bytes_ = history.peak_bytes();
}

void Survey::note_shared(const History& history) {
  if (history.is_birth()) is_shared_.push_back(false);
  if (history.is_death() && history.ended().thread != history.event().thread) {
    is_shared_[history.event().ended] = true;
  }
}

void Survey::note_routed(const History& history) {
  if (history.is_death() && is_routed(history.ended().stack) && --live_routed_ == 0) run_ = 0;
  if (!history.is_birth() || !is_routed(history.born().stack)) return;
  most_routed_ = std::max(most_routed_, ++live_routed_);
  largest_routed_ = std::max(largest_routed_, history.born().size_bytes);
  run_ += history.born().size_bytes + kArenaRounding;
  longest_run_ = std::max(longest_run_, run_);
}

/// A vector that grows makes its next buffer, moves over, and frees the one before.
void Survey::note_growth(const History& history) {
  const trace::Event& event = history.event();
  if (newest_.size() <= event.thread) newest_.resize(event.thread + 1);
  Newest& newest = newest_[event.thread];
  const bool ends_routed = history.is_death() && is_routed(history.ended().stack);
  if (history.is_birth() && is_routed(history.born().stack)) {
    if (history.is_death()) link(event.ended, event.object, event.size_bytes);
    newest = {event.object, event.size_bytes};
    return;
  }
  if (!ends_routed || newest.object == event.ended || newest.object == trace::kNoObject) return;
  if (newest.object > event.ended && newest.bytes > history.ended().size_bytes) {
    link(event.ended, newest.object, newest.bytes);
    newest = {};  // it took the place of one
  }
}

void Survey::link(std::uint64_t from, std::uint64_t to, std::uint64_t bytes) {
  const auto [entry, is_new] = growth_numbers_.try_emplace(from, growths_.size());
  if (is_new) growths_.push_back({from, from, 0});
  const std::size_t number = entry->second;
  if (growths_[number].last != from || growth_numbers_.count(to) != 0) return;
  growth_numbers_[to] = number;
  growths_[number].last = to;
  growths_[number].bytes = std::max(growths_[number].bytes, bytes);
}

const Survey::Growth* Survey::growth_of(std::uint64_t object) const noexcept {
  const auto found = growth_numbers_.find(object);
  if (found == growth_numbers_.end()) return nullptr;
  const Growth& growth = growths_[found->second];
  return growth.first == growth.last ? nullptr : &growth;
}

}  // namespace strata::cli
