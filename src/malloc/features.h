#pragma once

#include "malloc/malloc_instance.h"

namespace strata {

/// What options start in addition to the malloc, once per process: statistics, profiles and leak
/// reports, at normal exit and when a signal arrives; and sampled guard pages.

/// The texts of the options are copies from here on: the program may change its environment, or
/// write a title over it. Once, before the malloc has the options.
void keep_texts(Options& options) noexcept;

/// As part of the malloc's start. May allocate.
void start_statistics_of_options(MallocInstance& malloc) noexcept;
void print_statistics_at_exit(MallocInstance& malloc) noexcept;
/// The profile and the guard pages, whose stacks load the unwinder with dlopen: not as part of the
/// first allocation, which may be the dynamic loader's own.
/// \pre  no other thread
void start_watchers_of_options(MallocInstance& malloc) noexcept;

/// The guard pages of a program that did not ask for any: MallocHost::begin_guards(). Loads nothing
/// and allocates nothing of the program's.
void begin_guards(MallocInstance& malloc, GuardPool& pool, const GuardPool::Size& size) noexcept;

/// The same for MallocHost::begin_empty_blocks().
void begin_empty_blocks(MallocInstance& malloc) noexcept;

/// In the child of a fork, which lacks the threads that wait for signals.
void reset_features_after_fork(MallocInstance& malloc) noexcept;
/// MallocHost::attend(): starts the threads that are missing.
void attend_to_features(MallocInstance& malloc) noexcept;

}  // namespace strata
