#pragma once

#include <cstdint>
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
  /// \errors  std::system_error if no shared page can be made.
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

  /// Resident bytes of the harness's tables at the end of the load, when there are most. The
  /// kernel's peak of the process includes them; the points of the timeline do not.
  std::uint64_t table_bytes() const noexcept { return table_bytes_; }

 private:
  bool read_point(TimelinePoint& point, bool rests) const;
  std::uint64_t without_tables(std::uint64_t bytes) const noexcept;
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
  std::uint64_t table_bytes_ = 0;
  std::vector<TimelinePoint> ready_;  // none or one, as the next two
  std::vector<TimelinePoint> load_;
  std::vector<TimelinePoint> loaded_;
  std::vector<TimelinePoint> freeing_;
  std::vector<TimelinePoint> after_;
};

}  // namespace strata::cli
