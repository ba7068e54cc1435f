#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "history/growth.h"
#include "history/history.h"
#include "replay/plan_writer.h"
#include "shared/replay_plan.h"

namespace strata::cli {

/// The first pass over a trace: what must be known before its first call can be planned.
class Survey {
 public:
  Survey(History& history, const PlanOptions& options, const Advance& advance);

  std::uint64_t events() const noexcept { return events_; }
  std::uint32_t threads() const noexcept { return threads_; }
  std::uint64_t peak_bytes() const noexcept { return header_.peak_live_bytes; }
  /// Whether another thread ends the object than the one that allocated it.
  bool is_shared(std::uint64_t object) const noexcept { return is_shared_[object]; }

  /// The plan header's numbers of live bytes and routed objects.
  const plan::Header& header() const noexcept { return header_; }

  /// A chain of growth: its first object gets the last size; all later ones are the same object.
  struct Chain {
    std::uint64_t first = 0;
    std::uint64_t last = 0;
    std::uint64_t bytes = 0;
    bool is_certain = false;  ///< enough steps, or a realloc
  };
  /// nullptr if the object did not grow.
  const Chain* growth_of(std::uint64_t object) const noexcept;

 private:
  void note_shared(const History& history);
  void note_routed(const History& history);
  void note_growth(const History& history);
  void link(const GrowthFinder::Step& step);

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
