// A program that has a whole malloc of its own, beside Strata. The program and the C library use
// this malloc, operator new stays Strata's, and each gets back what it handed out. Functions that
// the program does not define are served by those that it defines.

#include <dlfcn.h>
#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <iostream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "neighbours/crossing.h"
#include "support/child.h"

namespace {

/// The program's malloc: one block behind the other, each with its size in front. A freed block is
/// only marked.
constexpr std::size_t kArenaBytes = std::size_t{128} << 20;
alignas(4096) char g_arena[kArenaBytes];
std::atomic<std::size_t> g_used{0};
std::atomic<long> g_live{0};

struct Header {
  std::size_t bytes;
  std::size_t mark;
};
constexpr std::size_t kLive = 0x11febeef, kFreed = 0xdead;

bool is_own(const void* p) { return p >= g_arena && p < g_arena + kArenaBytes; }

Header& header_of(void* p) { return static_cast<Header*>(p)[-1]; }

void* take(std::size_t bytes, std::size_t alignment) {
  const std::size_t room = bytes + alignment + 2 * sizeof(Header);
  const std::size_t at = g_used.fetch_add((room + 15) / 16 * 16);
  if (at + room > kArenaBytes) {
    errno = ENOMEM;
    return nullptr;
  }
  const auto start = reinterpret_cast<std::uintptr_t>(g_arena + at) + sizeof(Header);
  void* p = reinterpret_cast<void*>((start + alignment - 1) / alignment * alignment);
  header_of(p) = {bytes, kLive};
  ++g_live;
  return p;
}

}  // namespace

extern "C" {
void* malloc(std::size_t bytes) noexcept { return take(bytes, 16); }
void* calloc(std::size_t count, std::size_t bytes) noexcept { return take(count * bytes, 16); }
void* memalign(std::size_t a, std::size_t bytes) noexcept { return take(bytes, a < 16 ? 16 : a); }
void* aligned_alloc(std::size_t a, std::size_t bytes) noexcept { return memalign(a, bytes); }
int posix_memalign(void** out, std::size_t a, std::size_t bytes) noexcept {
  *out = memalign(a, bytes);
  return *out != nullptr ? 0 : ENOMEM;
}
void free(void* p) noexcept {
  if (p == nullptr) return;
  CHECK(is_own(p) && header_of(p).mark == kLive, "the program's free got what it never gave");
  header_of(p).mark = kFreed;
  --g_live;
}
std::size_t malloc_usable_size(void* p) noexcept { return p != nullptr ? header_of(p).bytes : 0; }
void* realloc(void* p, std::size_t bytes) noexcept {
  if (p == nullptr) return malloc(bytes);
  CHECK(is_own(p) && header_of(p).mark == kLive, "the program's realloc got what it never gave");
  void* moved = malloc(bytes);
  if (moved != nullptr) std::memcpy(moved, p, std::min(bytes, header_of(p).bytes));
  free(p);
  return moved;
}
}

namespace {

/// The function that programs find under a name that this program does not define.
template <typename Function>
Function* find(const char* name) {
  auto* const function = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
  CHECK(function != nullptr, name);
  return function;
}

void use_what_the_program_leaves_out() {
  void* p = find<void*(void*, std::size_t, std::size_t)>("reallocarray")(malloc(10), 10, 10);
  CHECK(is_own(p), "reallocarray is not by the program's realloc");
  free(p);
  // Without Strata's library, the C library's own functions call its own malloc.
  if (dlsym(RTLD_DEFAULT, "strata_malloc") == nullptr) return;
  for (const char* name : {"valloc", "pvalloc"}) {
    p = find<void*(std::size_t)>(name)(100);
    CHECK(is_own(p), "valloc and pvalloc are not by the program's memalign");
    free(p);
  }
  find<void(void*, std::size_t)>("free_sized")(malloc(100), 100);
  find<void(void*, std::size_t, std::size_t)>("free_aligned_sized")(memalign(64, 100), 64, 100);
}

void work() {
  use_what_the_program_leaves_out();
  cross_the_c_library([](void* p) { CHECK(is_own(p), "the C library uses another malloc"); });

  std::unique_ptr<int> single(new int(1));
  CHECK(!is_own(single.get()), "operator new is not Strata's");
  std::vector<std::string> strings;
  for (int i = 0; i < 2000; ++i) strings.push_back(std::string(static_cast<std::size_t>(i), 's'));
  for (const std::string& s : strings) CHECK(s.empty() || !is_own(s.data()), "operator new");
  std::stable_sort(strings.begin(), strings.end());
  std::ostringstream stream;
  stream << 1 << strings[50] << 2.5;
  CHECK(stream.str().size() > 50, "a stream");
  try {  // an exception comes from malloc, its text from operator new
    throw std::runtime_error(std::string(500, 'e'));
  } catch (const std::exception& e) {
    CHECK(std::strlen(e.what()) == 500, "an exception");
  }
  for (std::size_t bytes = 1; bytes < 3'000'000; bytes *= 3) {
    void* p = opaque(malloc(bytes));
    std::memset(p, 1, bytes);
    p = realloc(p, bytes + 100);
    CHECK(is_own(p), "the program's malloc is another");
    free(p);
    ::operator delete(opaque(::operator new(bytes)));
    ::operator delete(opaque(::operator new(bytes, std::align_val_t(256))), std::align_val_t(256));
  }
}

}  // namespace

int main() {
  work();
  const long live_before = g_live;
  work();
  CHECK(g_live <= live_before, "something of the program's malloc was given to another");
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back(work);
  for (auto& thread : threads) thread.join();
  expect_in_child("the same work", work);
  std::cout << "whole" << std::endl;
  return 0;
}
