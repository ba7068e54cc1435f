// When memory is out, operator new calls the new handler, and throws. See late_runtime.c.

#include <stdio.h>
#include <unistd.h>

#include <cstddef>
#include <initializer_list>
#include <new>

#include "support/check.h"

namespace {

constexpr std::align_val_t kAlignment{256};

int g_calls = 0;

void give_up_at_the_third_call() {
  if (++g_calls == 3) std::set_new_handler(nullptr);
}

void throw_something() { throw ++g_calls; }

template <typename Call>
bool throws_bad_alloc(Call call) {
  try {
    call(opaque(std::size_t{1} << 62));
  } catch (const std::bad_alloc&) {
    return true;
  }
  return false;
}

template <typename Call>
bool returns_null(Call call) {
  try {
    return call(opaque(std::size_t{1} << 62)) == nullptr;
  } catch (...) {
    return false;
  }
}

void* make(std::size_t bytes) { return ::operator new(bytes); }
void* make_array(std::size_t bytes) { return ::operator new[](bytes); }
void* make_aligned(std::size_t bytes) { return ::operator new(bytes, kAlignment); }
void* make_aligned_array(std::size_t bytes) { return ::operator new[](bytes, kAlignment); }
void* try_make(std::size_t bytes) { return ::operator new(bytes, std::nothrow); }
void* try_make_array(std::size_t bytes) { return ::operator new[](bytes, std::nothrow); }
void* try_make_aligned(std::size_t bytes) {
  return ::operator new(bytes, kAlignment, std::nothrow);
}
void* try_make_aligned_array(std::size_t bytes) {
  return ::operator new[](bytes, kAlignment, std::nothrow);
}

}  // namespace

extern "C" void run_out_of_memory() {
  for (const auto call : {make, make_array, make_aligned, make_aligned_array}) {
    CHECK(throws_bad_alloc(call), "operator new does not throw");
    g_calls = 0;
    std::set_new_handler(give_up_at_the_third_call);
    CHECK(throws_bad_alloc(call), "operator new does not throw after the handler is gone");
    CHECK(g_calls == 3, "the handler is not called until it is gone");
  }
  for (const auto call : {try_make, try_make_array, try_make_aligned, try_make_aligned_array}) {
    CHECK(returns_null(call), "the nothrow form does not return a null pointer");
    g_calls = 0;
    std::set_new_handler(give_up_at_the_third_call);
    CHECK(returns_null(call), "the nothrow form does not return after the handler is gone");
    CHECK(g_calls == 3, "the nothrow form does not call the handler until it is gone");
    g_calls = 0;
    std::set_new_handler(throw_something);
    CHECK(returns_null(call), "the nothrow form lets an exception of the handler through");
    CHECK(g_calls == 1, "the nothrow form does not call a handler that throws");
    std::set_new_handler(nullptr);
  }
}
