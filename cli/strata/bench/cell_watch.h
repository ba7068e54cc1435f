#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "measure/results.h"
#include "shared/board.h"

namespace strata::cli {

/// Samples a running cell from outside, through /proc, and lets it go on where it rests.
///
/// RSS and page faults are sampled throughout, at most some 250 times per load: reading them costs
/// the process nothing. PSS and an exact RSS are sampled only while the process rests, because the
/// kernel holds its memory lock meanwhile.
class CellWatch {
 public:
  /// \errors  std::system_error if the shared page cannot be created.
  explicit CellWatch(double settle_s);
  ~CellWatch();
  CellWatch(const CellWatch&) = delete;
  CellWatch& operator=(const CellWatch&) = delete;

  /// The file of the board, for the cell to map.
  int board_fd() const noexcept { return board_fd_; }

  /// Takes a sample.
  /// \returns  The seconds until the next one.
  double look();

  /// All samples, in order of time.
  std::vector<TimelinePoint> timeline() const;

  /// The samples at the points of rest; nothing if the cell never got there.
  const std::optional<TimelinePoint>& ready() const noexcept { return ready_; }
  const std::optional<TimelinePoint>& loaded() const noexcept { return loaded_; }
  std::optional<TimelinePoint> after() const {
    return after_.empty() ? std::nullopt : std::optional(after_.back());
  }

  /// Resident bytes of the harness's tables at the end of the load, their maximum. The kernel's
  /// peak of the process includes them; the timeline does not.
  std::uint64_t table_bytes() const noexcept { return table_bytes_; }

 private:
  /// \returns  Nothing if the process is gone.
  std::optional<TimelinePoint> sample(const char* phase, bool rests) const;
  std::uint64_t without_tables(std::uint64_t bytes) const noexcept;
  /// Adds a sample. If there are too many, it drops every second one and samples less often.
  void look_at_work(std::vector<TimelinePoint>& points, const char* phase);
  double look_after();
  void let_go_on(cell::Phase phase) noexcept;

  double settle_s_;
  int board_fd_ = -1;
  cell::Board* board_ = nullptr;
  double load_began_s_ = 0;
  double freed_s_ = 0;
  double interval_s_;
  std::uint64_t table_bytes_ = 0;
  std::optional<TimelinePoint> ready_;
  std::vector<TimelinePoint> load_;
  std::optional<TimelinePoint> loaded_;
  std::vector<TimelinePoint> freeing_;
  std::vector<TimelinePoint> after_;
};

}  // namespace strata::cli
