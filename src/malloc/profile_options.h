#pragma once

namespace strata {

/// The heap profile and the leak report that STRATA_PROFILE, STRATA_LEAKS and what belongs to them
/// ask for: begun once the program is loaded, written at normal exit and when the signal arrives.

/// Where the options ask for it. It loads the unwinder, so it is not part of the first allocation,
/// which may be the dynamic loader's own.
/// \pre  no other thread; the malloc works
void start_profile_of_options() noexcept;
void reset_profile_signal_after_fork() noexcept;
/// On slow paths with no lock held.
/// \cost  a load
void notice_profile_signal() noexcept;

}  // namespace strata
