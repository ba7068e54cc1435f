#pragma once

/// \file  Included before every source by cmake/musl.cmake: libstdc++'s headers were configured for
/// glibc, and this takes back what musl does not have.

#include <features.h>
#include <locale.h>

#define __GLIBC_PREREQ(major, minor) 0
#define __locale_t locale_t

#define _GLIBCXX_GTHREAD_USE_WEAK 0  // with weak names a static program may lose its locks

#include <bits/c++config.h>

#undef _GLIBCXX_USE_PTHREAD_COND_CLOCKWAIT
#undef _GLIBCXX_USE_PTHREAD_MUTEX_CLOCKLOCK
#undef _GLIBCXX_USE_PTHREAD_RWLOCK_CLOCKLOCK
