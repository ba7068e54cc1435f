#pragma once

#include "malloc/malloc_instance.h"

namespace strata {

/// The features that options start beside the malloc, once per process: statistics, profiles and
/// leak reports, at normal exit and when a signal arrives; and sampled guard pages.

/// Copies the options' texts: the program may change its environment, or write a title over it.
/// Call once, before the malloc has the options.
void keep_texts(Options& options) noexcept;

/// Called as part of the malloc's start. May allocate.
void start_statistics_of_options(MallocInstance& malloc) noexcept;
void print_statistics_at_exit(MallocInstance& malloc) noexcept;
/// Starts the profile and the guard pages, whose stacks load the unwinder with dlopen: not as part
/// of the first allocation, which may be the dynamic loader's own.
/// \pre  no other thread
void start_watchers_of_options(MallocInstance& malloc) noexcept;

/// MallocHost::begin_guards(): guard pages for a program that did not ask for any. Loads nothing
/// and allocates none of the program's memory.
void begin_guards(MallocInstance& malloc, GuardPool& pool, const GuardPool::Size& size) noexcept;

/// MallocHost::begin_empty_blocks(): the same.
void begin_empty_blocks(MallocInstance& malloc) noexcept;

/// Called in the child of a fork, which lacks the threads that wait for signals.
void reset_features_after_fork(MallocInstance& malloc) noexcept;
/// MallocHost::attend(): starts the threads that are missing.
void attend_to_features(MallocInstance& malloc) noexcept;

}  // namespace strata
