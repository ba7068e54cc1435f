// A C++ program that takes from the C++ runtime only what it refers to: no strings, no streams.
// Still, all forms of new that fail call its new handler, also those that do not throw.

#include <unistd.h>

#include <cstddef>
#include <new>

#include "support/check.h"

namespace {

int g_calls = 0;

void give_up() {
  ++g_calls;
  std::set_new_handler(nullptr);
}

template <typename New>
void expect_handler(New allocate) {
  g_calls = 0;
  std::set_new_handler(give_up);
  CHECK(allocate() == nullptr, "so much is nowhere");
  CHECK(g_calls == 1, "the handler was not called");
}

}  // namespace

int main() {
  volatile std::size_t huge = std::size_t{1} << 60;
  constexpr std::align_val_t kAligned{64};
  expect_handler([&] { return operator new(huge, std::nothrow); });
  expect_handler([&] { return operator new[](huge, std::nothrow); });
  expect_handler([&] { return operator new(huge, kAligned, std::nothrow); });
  return 0;
}
