#pragma once

/// \file  What a lock guards, said so that a compiler checks it: -Wthread-safety of Clang refuses
///        code that touches a guarded member without its lock. Other compilers see nothing of it.
/// \source  https://clang.llvm.org/docs/ThreadSafetyAnalysis.html

#if defined(__clang__)
#define STRATA_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define STRATA_THREAD_ATTRIBUTE(x)
#endif

/// A class whose objects are locks; one that holds a lock as long as it lives.
#define STRATA_CAPABILITY(name) STRATA_THREAD_ATTRIBUTE(capability(name))
#define STRATA_SCOPED_CAPABILITY STRATA_THREAD_ATTRIBUTE(scoped_lockable)

/// A member that only the holder of the lock touches.
#define STRATA_GUARDED_BY(lock) STRATA_THREAD_ATTRIBUTE(guarded_by(lock))
/// A pointer to what only the holder touches.
#define STRATA_PT_GUARDED_BY(lock) STRATA_THREAD_ATTRIBUTE(pt_guarded_by(lock))

/// A function that is called with the lock held.
#define STRATA_REQUIRES(...) STRATA_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))

/// A function that takes the lock, releases it, or takes it if it returns `result`.
#define STRATA_ACQUIRE(...) STRATA_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define STRATA_RELEASE(...) STRATA_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
#define STRATA_TRY_ACQUIRE(result) STRATA_THREAD_ATTRIBUTE(try_acquire_capability(result))
/// A function that returns the lock.
#define STRATA_RETURN_CAPABILITY(lock) STRATA_THREAD_ATTRIBUTE(lock_returned(lock))

/// A function that the analysis cannot follow; a comment says why.
#define STRATA_NO_THREAD_SAFETY_ANALYSIS STRATA_THREAD_ATTRIBUTE(no_thread_safety_analysis)
