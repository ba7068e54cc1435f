// A program that replaces only the two plain forms of aligned operator new and delete, by its own
// arena. The other aligned forms call these two, as the language requires.

#include <atomic>
#include <cstdint>
#include <new>

#include "support/check.h"

namespace {

constexpr std::size_t kArenaBytes = std::size_t{1} << 20;
alignas(64) char g_arena[kArenaBytes];
std::size_t g_used = 0;
int g_live = 0;
bool g_refuse = false;

bool is_own(const void* p) { return p >= g_arena && p < g_arena + kArenaBytes; }

}  // namespace

void* operator new(std::size_t bytes, std::align_val_t alignment) {
  const auto power = static_cast<std::size_t>(alignment);
  const std::size_t at = (g_used + power - 1) / power * power;
  if (g_refuse || at + bytes > kArenaBytes) throw std::bad_alloc();
  g_used = at + bytes;
  ++g_live;
  return g_arena + at;
}
void operator delete(void* p, std::align_val_t) noexcept {
  if (p == nullptr) return;
  CHECK(is_own(p), "the program's operator delete got what its operator new never gave");
  --g_live;
}

int main() {
  const std::size_t n = opaque(std::size_t{100});
  const std::align_val_t a{64};
  const auto expect_own = [](void* p) {
    CHECK(is_own(p), "a form of operator new passes the program's by");
    return p;
  };
  ::operator delete(expect_own(::operator new(n, a)), n, a);
  ::operator delete(expect_own(::operator new(n, a, std::nothrow)), a, std::nothrow);
  ::operator delete[](expect_own(::operator new[](n, a)), a);
  ::operator delete[](expect_own(::operator new[](n, a)), n, a);
  ::operator delete[](expect_own(::operator new[](n, a, std::nothrow)), a, std::nothrow);
  CHECK(g_live == 0, "what the program's operator new gave came back to another");
  g_refuse = true;
  CHECK(::operator new(n, a, std::nothrow) == nullptr, "nothrow new threw, or found memory");
  CHECK(::operator new[](n, a, std::nothrow) == nullptr, "nothrow new[] threw, or found memory");
  // The forms without an alignment stay Strata's.
  void* const plain = ::operator new(n);
  CHECK(!is_own(plain), "a form without an alignment is the program's");
  ::operator delete(plain);
  return 0;
}
