#include "history/growth.h"

namespace strata::cli {

std::optional<GrowthFinder::Step> GrowthFinder::find(const History& history, std::uint32_t born,
                                                     std::uint32_t ended) {
  const trace::Event& event = history.event();
  std::optional<Step> step;
  if (history.is_birth() && born != kNoPlace) {
    if (history.is_death() && event.size_bytes > history.ended().size_bytes) {
      step = count({event.ended, event.object, event.size_bytes, 1, true});
    }
    newest_of(event.thread, born) = {event.object, event.size_bytes};
  } else if (history.is_death() && ended != kNoPlace) {
    Newest& newest = newest_of(event.thread, ended);
    const bool is_newer = newest.object != trace::kNoObject && newest.object > event.ended;
    if (is_newer && newest.bytes > history.ended().size_bytes) {
      step = count({event.ended, newest.object, newest.bytes, 1, false});
      newest = {};  // it replaced one
    }
  }
  if (history.is_death()) {
    steps_.erase(event.ended);
    // An object that has ended replaces nothing.
    if (ended != kNoPlace) {
      Newest& newest = newest_of(history.ended().thread, ended);
      if (newest.object == event.ended) newest = {};
    }
  }
  return step;
}

GrowthFinder::Newest& GrowthFinder::newest_of(std::uint32_t thread, std::uint32_t place) {
  if (newest_.size() <= thread) newest_.resize(thread + 1);
  if (newest_[thread].size() <= place) newest_[thread].resize(place + 1);
  return newest_[thread][place];
}

GrowthFinder::Step GrowthFinder::count(Step step) {
  const auto before = steps_.find(step.from);
  if (before != steps_.end()) step.number += before->second;
  steps_[step.to] = step.number;
  return step;
}

}  // namespace strata::cli
