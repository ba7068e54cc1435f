#pragma once

/// \file  Standard error for output at exit. Some programs close theirs in an exit handler, which
///        runs before ours: all of coreutils do, to detect a failed write.

namespace strata::os {

/// Notes which file standard error is, for standard_error().
/// \threads  At the start of the process.
void note_standard_error() noexcept;

/// The same, and keeps a second descriptor of it, under a high number and closed across exec, so
/// that standard_error() still works when the program has closed its own. Once; without effect
/// where there is no standard error, or no number, or fewer than 64.
///
/// The price: the reader of a pipe sees its end when this process ends, not when it closes its
/// standard error. So children of fork close their copy: a daemon is one.
/// \threads  At the start of the process.
void keep_standard_error() noexcept;
void let_go_of_standard_error() noexcept;  ///< in the child of fork

/// Where to write: standard error while it is open; after that, the kept one, if its number still
/// is the same file (a program that closes all descriptors may have given it to another). The
/// number of standard error may also be that of a file of the program's: a regular file other than
/// at the start, and not opened to append, is taken for one. A log that was opened to append is
/// not.
/// \returns  -1: nowhere
/// \cost     one to three system calls
int standard_error() noexcept;

}  // namespace strata::os
