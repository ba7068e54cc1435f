// A program that replaces only one of the operators for arrays, by a call of the one for objects.
// So arrays are made by one kind of operator and freed by the other, which is no mistake.

#include <new>

#include "support/check.h"

#if defined(OWN_NEW)
void* operator new[](std::size_t bytes) { return ::operator new(bytes); }
#elif defined(OWN_DELETE)
#if !defined(__clang__)  // which has no such warning
#pragma GCC diagnostic ignored "-Wsized-deallocation"
#endif
void operator delete[](void* p) noexcept { ::operator delete(p); }
#elif defined(OWN_ALIGNED_NEW)
void* operator new[](std::size_t bytes, std::align_val_t a) { return ::operator new(bytes, a); }
#elif defined(OWN_ALIGNED_DELETE)
void operator delete[](void* p, std::align_val_t a) noexcept { ::operator delete(p, a); }
#endif

int main() {
  const std::size_t n = opaque(std::size_t{100});
  const std::align_val_t a{64};
  ::operator delete[](opaque(::operator new[](n)));
  ::operator delete[](opaque(::operator new[](n, a)), a);
  ::operator delete(opaque(::operator new(n)));
  ::operator delete(opaque(::operator new(n, a)), a);
  return 0;
}
