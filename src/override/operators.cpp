// Every replaceable operator new and delete.
//
// A C program that preloads the library must not need the C++ runtime, so what only a failing
// operator new needs (the handler, the exception and its way through the nothrow forms) is referred
// to weakly: whoever calls operator new has it. This file alone is compiled with exceptions.

#include <cstddef>
#include <new>

#include "base/fatal.h"
#include "malloc/process.h"

#define STRATA_EXPORT __attribute__((visibility("default")))

namespace std {
__attribute__((weak, visibility("default"))) new_handler get_new_handler() noexcept;
__attribute__((weak, noreturn, visibility("default"))) void __throw_bad_alloc();
}  // namespace std

// What the compiler refers to for the one try block below.
asm(".weak __gxx_personality_v0");
asm(".weak __cxa_begin_catch");
asm(".weak __cxa_end_catch");
asm(".weak _Unwind_Resume");

namespace {

/// The rest of operator new when memory is out: the program's handler, again and again, until it
/// has made room, has thrown, or is gone.
template <typename Retry>
[[gnu::cold, gnu::noinline]] void* retry_with_handler(Retry retry) {
  for (;;) {
    const std::new_handler handler =
        &std::get_new_handler != nullptr ? std::get_new_handler() : nullptr;
    if (handler == nullptr) return nullptr;
    handler();
    if (void* p = retry()) return p;
  }
}

/// The same for the nothrow forms: they call the handler, too, and what it throws is a null
/// pointer.
template <typename Retry>
[[gnu::cold, gnu::noinline]] void* retry_with_handler_or_null(Retry retry) noexcept {
  try {
    return retry_with_handler(retry);
  } catch (...) {
    return nullptr;
  }
}

[[noreturn, gnu::cold, gnu::noinline]] void throw_bad_alloc() {
  if (&std::__throw_bad_alloc != nullptr) std::__throw_bad_alloc();
  strata::fatal("out of memory in operator new, in a program without the C++ runtime");
}

inline void* allocate_or_throw(std::size_t bytes) {
  if (void* p = strata::allocate(bytes)) [[likely]]
    return p;
  void* p = retry_with_handler([bytes] { return strata::allocate(bytes); });
  if (p == nullptr) throw_bad_alloc();
  return p;
}

inline void* allocate_or_throw(std::size_t bytes, std::align_val_t alignment) {
  const auto boundary = static_cast<std::size_t>(alignment);
  if (void* p = strata::allocate_aligned(boundary, bytes)) [[likely]]
    return p;
  void* p = retry_with_handler([=] { return strata::allocate_aligned(boundary, bytes); });
  if (p == nullptr) throw_bad_alloc();
  return p;
}

inline void* allocate_or_null(std::size_t bytes) noexcept {
  if (void* p = strata::allocate(bytes)) [[likely]]
    return p;
  return retry_with_handler_or_null([bytes] { return strata::allocate(bytes); });
}

inline void* allocate_or_null(std::size_t bytes, std::align_val_t alignment) noexcept {
  const auto boundary = static_cast<std::size_t>(alignment);
  if (void* p = strata::allocate_aligned(boundary, bytes)) [[likely]]
    return p;
  return retry_with_handler_or_null([=] { return strata::allocate_aligned(boundary, bytes); });
}

}  // namespace

STRATA_EXPORT void* operator new(std::size_t bytes) { return allocate_or_throw(bytes); }
STRATA_EXPORT void* operator new[](std::size_t bytes) { return allocate_or_throw(bytes); }
STRATA_EXPORT void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate_or_null(bytes);
}
STRATA_EXPORT void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate_or_null(bytes);
}
STRATA_EXPORT void* operator new(std::size_t bytes, std::align_val_t a) {
  return allocate_or_throw(bytes, a);
}
STRATA_EXPORT void* operator new[](std::size_t bytes, std::align_val_t a) {
  return allocate_or_throw(bytes, a);
}
STRATA_EXPORT void* operator new(std::size_t bytes, std::align_val_t a,
                                 const std::nothrow_t&) noexcept {
  return allocate_or_null(bytes, a);
}
STRATA_EXPORT void* operator new[](std::size_t bytes, std::align_val_t a,
                                   const std::nothrow_t&) noexcept {
  return allocate_or_null(bytes, a);
}

STRATA_EXPORT void operator delete(void* p) noexcept { strata::deallocate(p); }
STRATA_EXPORT void operator delete[](void* p) noexcept { strata::deallocate(p); }
STRATA_EXPORT void operator delete(void* p, std::size_t) noexcept { strata::deallocate(p); }
STRATA_EXPORT void operator delete[](void* p, std::size_t) noexcept { strata::deallocate(p); }
STRATA_EXPORT void operator delete(void* p, const std::nothrow_t&) noexcept {
  strata::deallocate(p);
}
STRATA_EXPORT void operator delete[](void* p, const std::nothrow_t&) noexcept {
  strata::deallocate(p);
}
STRATA_EXPORT void operator delete(void* p, std::align_val_t) noexcept { strata::deallocate(p); }
STRATA_EXPORT void operator delete[](void* p, std::align_val_t) noexcept { strata::deallocate(p); }
STRATA_EXPORT void operator delete(void* p, std::size_t, std::align_val_t) noexcept {
  strata::deallocate(p);
}
STRATA_EXPORT void operator delete[](void* p, std::size_t, std::align_val_t) noexcept {
  strata::deallocate(p);
}
STRATA_EXPORT void operator delete(void* p, std::align_val_t, const std::nothrow_t&) noexcept {
  strata::deallocate(p);
}
STRATA_EXPORT void operator delete[](void* p, std::align_val_t, const std::nothrow_t&) noexcept {
  strata::deallocate(p);
}
