#pragma once

/// \file  Standard error for what is said at exit. Some programs close theirs in an exit handler,
///        which runs before ours: all of coreutils do, to see a failed write.

namespace strata::os {

/// Keeps a second descriptor of standard error, under a high number and closed across exec, so that
/// standard_error() still works when the program has closed its own. Once; without effect where
/// there is no standard error or no number is left.
///
/// The price: the reader of a pipe sees its end when this process ends, not when
/// it closes its standard error. So children of fork let go of theirs: a daemon is one.
/// \threads  At the start of the process.
void keep_standard_error() noexcept;
void let_go_of_standard_error() noexcept;  ///< in the child of fork

/// Where to write: standard error while it is open; after that, the kept one, if its number still
/// is the same file: a program that closes all it has may have given it to another.
/// \cost  Two system calls.
int standard_error() noexcept;

}  // namespace strata::os
