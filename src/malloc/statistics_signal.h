#pragma once

namespace strata {

/// Statistics whenever a signal arrives, where the options ask for it; see SignalWaiter.

void start_statistics_signal() noexcept;  ///< \pre the malloc works
void reset_statistics_signal_after_fork() noexcept;
/// On slow paths with no lock held.
/// \cost  a load
void notice_statistics_signal() noexcept;

}  // namespace strata
