// A program that replaces only the two plain forms of operator new and delete, by its own arena,
// while Strata serves malloc. The forms of new and delete that it did not replace call those that
// it did, as the language requires; no block gets to the wrong one.

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "neighbours/crossing.h"
#include "support/child.h"

namespace {

constexpr std::size_t kArenaBytes = std::size_t{256} << 20;
alignas(16) char g_arena[kArenaBytes];
std::atomic<std::size_t> g_used{0};
std::atomic<long> g_live{0};
thread_local bool t_refuse = false;

bool is_own(const void* p) { return p >= g_arena && p < g_arena + kArenaBytes; }

}  // namespace

void* operator new(std::size_t bytes) {
  const std::size_t at = t_refuse ? kArenaBytes : g_used.fetch_add((bytes + 15) / 16 * 16 + 16);
  if (at + bytes > kArenaBytes) throw std::bad_alloc();
  ++g_live;
  return g_arena + at;
}
// Like programs from before C++14.
#if !defined(__clang__)  // which has no such warning
#pragma GCC diagnostic ignored "-Wsized-deallocation"
#endif
void operator delete(void* p) noexcept {
  if (p == nullptr) return;
  CHECK(is_own(p), "the program's operator delete got what its operator new never gave");
  --g_live;
}

namespace {

struct alignas(64) Wide {
  char bytes[64];
};
struct Text {
  std::string text = std::string(100, 't');
};

/// Calls each form of new, and the forms of delete that may free its block.
void every_form() {
  const std::size_t n = opaque(std::size_t{100});
  const auto expect_own = [](void* p) {
    CHECK(is_own(p), "a form of operator new passes the program's by");
    return p;
  };
  ::operator delete(expect_own(::operator new(n)));
  ::operator delete(expect_own(::operator new(n)), n);
  ::operator delete(expect_own(::operator new(n)), std::nothrow);
  ::operator delete(expect_own(::operator new(n, std::nothrow)));
  ::operator delete(expect_own(::operator new(n, std::nothrow)), n);
  ::operator delete[](expect_own(::operator new[](n)));
  ::operator delete[](expect_own(::operator new[](n)), n);
  ::operator delete[](expect_own(::operator new[](n)), std::nothrow);
  ::operator delete[](expect_own(::operator new[](n, std::nothrow)));
  ::operator delete[](expect_own(::operator new[](n, std::nothrow)), n);
  ::operator delete[](static_cast<void*>(nullptr), n);
  t_refuse = true;
  CHECK(::operator new(n, std::nothrow) == nullptr, "nothrow new threw, or found memory");
  CHECK(::operator new[](n, std::nothrow) == nullptr, "nothrow new[] threw, or found memory");
  t_refuse = false;

  // The aligned forms stay Strata's.
  const std::align_val_t a{64};
  const auto expect_strata = [](void* p) {
    CHECK(!is_own(p) && malloc_usable_size(p) >= 64, "an aligned form is not Strata's");
    return p;
  };
  ::operator delete(expect_strata(::operator new(n, a)), a);
  ::operator delete(expect_strata(::operator new(n, a)), n, a);
  ::operator delete(expect_strata(::operator new(n, a, std::nothrow)), a, std::nothrow);
  ::operator delete[](expect_strata(::operator new[](n, a)), a);
  ::operator delete[](expect_strata(::operator new[](n, a)), n, a);
  ::operator delete[](expect_strata(::operator new[](n, a, std::nothrow)), a, std::nothrow);
  delete opaque(new Wide);
  delete[] opaque(new Wide[3]);
  delete opaque(new Text);
  delete[] opaque(new Text[20]);
}

void work() {
  every_form();
  cross_the_c_library(
      [](void* p) { CHECK(!is_own(p) && malloc_usable_size(p) != 0, "malloc is not Strata's"); });
  std::vector<std::string> strings;
  for (int i = 0; i < 500; ++i) strings.push_back(std::string(static_cast<std::size_t>(i), 's'));
  std::stable_sort(strings.begin(), strings.end(), std::greater<>());  // nothrow new, plain delete
  std::map<int, std::shared_ptr<Text>> map;
  for (int i = 0; i < 100; ++i) map[i] = std::make_shared<Text>();
  const std::function<std::size_t()> function = [map] { return map.size(); };
  CHECK(function() == 100, "a function");
}

}  // namespace

int main() {
  work();
  const long live_before = g_live;
  work();
  CHECK(g_live == live_before, "what the program's operator new gave came back to another");
  for (int i = 0; i < 3; ++i) std::thread(work).join();
  expect_in_child("the same work", work);
  return 0;
}
