#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "history/growth.h"
#include "history/history.h"
#include "replay/plan_writer.h"
#include "shared/replay_plan.h"

namespace strata::cli {

/// What must be known of a trace before its first call can be planned.
class Survey {
 public:
  Survey(History& history, const PlanOptions& options, const Advance& advance);

  std::uint64_t events() const noexcept { return events_; }
  std::uint32_t threads() const noexcept { return threads_; }
  std::uint64_t peak_bytes() const noexcept { return header_.peak_live_bytes; }
  /// Another thread ends it than the one that it was born in.
  bool is_shared(std::uint64_t object) const noexcept { return is_shared_[object]; }

  /// What a plan says of the live bytes and of the routed objects.
  const plan::Header& header() const noexcept { return header_; }

  /// What grew out of what: the first of a chain of growth has its last size, all others are it.
  struct Chain {
    std::uint64_t first = 0;
    std::uint64_t last = 0;
    std::uint64_t bytes = 0;
    bool is_certain = false;  ///< of enough steps, or by realloc
  };
  /// nullptr for what did not grow.
  const Chain* growth_of(std::uint64_t object) const noexcept;

 private:
  void note_shared(const History& history);
  void note_routed(const History& history);
  void note_growth(const History& history);
  void link(const GrowthFinder::Step& step);
  bool is_routed(std::uint32_t stack) const noexcept {
    return stack < options_.routed.size() && options_.routed[stack];
  }

  const PlanOptions& options_;
  std::uint64_t events_ = 0;
  std::uint32_t threads_ = 0;
  plan::Header header_{};
  std::vector<bool> is_shared_;

  std::uint64_t live_routed_ = 0;
  std::uint64_t live_routed_bytes_ = 0;
  std::uint64_t run_ = 0;

  GrowthFinder finder_;
  std::vector<Chain> chains_;
  std::unordered_map<std::uint64_t, std::size_t> chain_numbers_;
};

}  // namespace strata::cli
