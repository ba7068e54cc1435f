#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "measure/results.h"
#include "shared/board.h"

namespace strata::cli {

/// Looks at a cell from outside while it runs, through /proc, and lets it go on where it rests.
///
/// RSS and page faults are read all the time, at most some 250 times during a load: their files
/// cost the process nothing. PSS, and an exact RSS, are read only where the process rests, because
/// the kernel holds the lock of its memory meanwhile.
class CellWatch {
 public:
  /// \errors  std::system_error if there is no shared page to be had.
  explicit CellWatch(double settle_s);
  ~CellWatch();
  CellWatch(const CellWatch&) = delete;
  CellWatch& operator=(const CellWatch&) = delete;

  /// The board, for the cell to map.
  int board_fd() const noexcept { return board_fd_; }

  /// One look.
  /// \returns  In how many seconds the next is due.
  double look();

  /// What was seen, in the order of time.
  std::vector<TimelinePoint> timeline() const;

  /// The points where it rested; nullptr if it never came there.
  const TimelinePoint* ready() const noexcept;
  const TimelinePoint* loaded() const noexcept;
  const TimelinePoint* after() const noexcept;

 private:
  bool read_point(TimelinePoint& point, bool rests) const;
  /// Adds a point; where they become too many, every second one goes, and looks are rarer.
  void look_at_work(std::vector<TimelinePoint>& points, const char* phase);
  double look_after();
  void let_go_on(cell::Phase phase) noexcept;

  double settle_s_;
  int board_fd_ = -1;
  cell::Board* board_ = nullptr;
  double load_began_s_ = 0;
  double freed_s_ = 0;
  double interval_s_;
  std::vector<TimelinePoint> ready_;  // none or one, as the next two
  std::vector<TimelinePoint> load_;
  std::vector<TimelinePoint> loaded_;
  std::vector<TimelinePoint> freeing_;
  std::vector<TimelinePoint> after_;
};

}  // namespace strata::cli
