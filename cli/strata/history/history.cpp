#include "history/history.h"

#include <algorithm>

namespace strata::cli {

bool History::next() {
  if (!reader_.next(event_)) return false;
  if (last_of_thread_.size() <= event_.thread) {
    last_of_thread_.resize(event_.thread + 1, trace::kNoObject);
  }
  is_temporary_ = false;
  ended_.chain = 0;
  if (is_death()) end_object();
  if (is_birth()) begin_object();
  live_.time_ns = event_.time_ns;
  if (live_.bytes > peak_.bytes) {
    peak_ = live_;
    peak_event_ = reader_.events();
  }
  return true;
}

void History::end_object() {
  ended_ = lives_.remove(event_.ended);
  live_.bytes -= ended_.size_bytes;
  --live_.objects;
  is_temporary_ = last_of_thread_[event_.thread] == event_.ended &&
                  event_.operation != trace::Operation::kRealloc;
}

void History::begin_object() {
  born_ = Life();
  born_.size_bytes = std::min(event_.size_bytes, Life::kMostBytes) & Life::kMostBytes;
  born_.birth_steps = std::min(event_.time_ns / Life::kStepNs, Life::kMostSteps) & Life::kMostSteps;
  born_.stack = event_.stack;
  born_.thread = event_.thread & (trace::kMostThreads - 1);
  if (event_.operation == trace::Operation::kRealloc && is_death()) {
    born_.chain = std::min(ended_.chain + 1u, Life::kMostChain) & Life::kMostChain;
  }
  lives_.add(event_.object) = born_;
  live_.bytes += born_.size_bytes;
  ++live_.objects;
  last_of_thread_[event_.thread] = event_.object;
}

}  // namespace strata::cli
