#include "replay/survey.h"

#include <algorithm>

namespace strata::cli {
namespace {

/// An arena's overhead per small object.
constexpr std::uint64_t kArenaRounding = 16;

}  // namespace

Survey::Survey(History& history, const PlanOptions& options, const Advance& advance)
    : options_(options) {
  while (history.next()) {
    ++events_;
    if (events_ % kEventsPerReport == 0) advance(0);
    note_shared(history);
    if (!options.routed.empty()) {
      options.growth == Growth::kIgnored ? note_routed(history) : note_growth(history);
    }
    if (events_ == options.until_event) break;
  }
  for (const auto& [object, number] : chain_numbers_) {
    if (is_shared_[object]) chains_[number].last = chains_[number].first;  // none
  }
  threads_ = history.reader().thread_count();
  header_.peak_live_bytes = history.peak().bytes;
}

void Survey::note_shared(const History& history) {
  if (history.is_birth()) is_shared_.push_back(false);
  if (history.is_death() && history.ended().thread != history.event().thread) {
    is_shared_[history.event().ended] = true;
  }
}

void Survey::note_routed(const History& history) {
  if (history.is_death() && options_.is_routed(history.ended().stack)) {
    live_routed_bytes_ -= history.ended().size_bytes;
    if (--live_routed_ == 0) run_ = 0;
  }
  if (!history.is_birth() || !options_.is_routed(history.born().stack)) return;
  header_.routed_peak = std::max(header_.routed_peak, ++live_routed_);
  live_routed_bytes_ += history.born().size_bytes;
  header_.routed_live_bytes = std::max(header_.routed_live_bytes, live_routed_bytes_);
  header_.routed_bytes = std::max(header_.routed_bytes, history.born().size_bytes);
  run_ += history.born().size_bytes + kArenaRounding;
  header_.routed_run_bytes = std::max(header_.routed_run_bytes, run_);
}

void Survey::note_growth(const History& history) {
  constexpr std::uint32_t kNone = GrowthFinder::kNoPlace;
  const bool begins = history.is_birth() && options_.is_routed(history.born().stack);
  const bool ends = history.is_death() && options_.is_routed(history.ended().stack);
  const auto step = finder_.find(history, begins ? 0 : kNone, ends ? 0 : kNone);
  if (step) link(*step);
}

void Survey::link(const GrowthFinder::Step& step) {
  const auto [entry, is_new] = chain_numbers_.try_emplace(step.from, chains_.size());
  if (is_new) chains_.push_back({step.from, step.from, 0, false});
  const std::size_t number = entry->second;
  if (chains_[number].last != step.from || chain_numbers_.count(step.to) != 0) return;
  chain_numbers_[step.to] = number;
  chains_[number].last = step.to;
  chains_[number].bytes = std::max(chains_[number].bytes, step.bytes);
  chains_[number].is_certain |= step.is_resize || step.number >= GrowthFinder::kLeastSteps;
}

const Survey::Chain* Survey::growth_of(std::uint64_t object) const noexcept {
  const auto found = chain_numbers_.find(object);
  if (found == chain_numbers_.end()) return nullptr;
  const Chain& chain = chains_[found->second];
  return chain.first == chain.last || !chain.is_certain ? nullptr : &chain;
}

}  // namespace strata::cli
