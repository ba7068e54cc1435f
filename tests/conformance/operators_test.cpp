// Every replaceable operator new and delete, the new handler, and exceptions that pass our frames.

#include <gtest/gtest.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <cstdint>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "support/check.h"

namespace {

constexpr std::size_t kImpossible = PTRDIFF_MAX;

bool is_aligned(const void* p, std::align_val_t alignment) {
  return reinterpret_cast<std::uintptr_t>(p) % static_cast<std::size_t>(alignment) == 0;
}

/// Restores the program's new handler at its end.
class HandlerGuard {
 public:
  explicit HandlerGuard(std::new_handler handler) : before_(std::set_new_handler(handler)) {}
  ~HandlerGuard() { std::set_new_handler(before_); }

 private:
  std::new_handler before_;
};

TEST(Operators, ServeEveryFormOfNewAndDelete) {
  for (const std::size_t n : {0, 1, 16, 100, 1024, 1025, 70'000, 200'000, 3'000'000}) {
    void* p = ::operator new(n);
    ASSERT_TRUE(p != nullptr && is_aligned(p, std::align_val_t{16}));
    std::memset(p, 1, n);
    ::operator delete(p);
    ::operator delete(::operator new(n), n);
    ::operator delete(::operator new(n, std::nothrow), std::nothrow);
    ::operator delete[](::operator new[](n));
    ::operator delete[](::operator new[](n), n);
    ::operator delete[](::operator new[](n, std::nothrow), std::nothrow);
    for (const std::size_t power : {8, 16, 32, 64, 256, 4096, 65'536, 1 << 21}) {
      const std::align_val_t a{power};
      p = ::operator new(n, a);
      ASSERT_TRUE(p != nullptr && is_aligned(p, a)) << n << " aligned to " << power;
      std::memset(p, 1, n);
      ::operator delete(p, a);
      ::operator delete(::operator new(n, a), n, a);
      ::operator delete(::operator new(n, a, std::nothrow), a, std::nothrow);
      p = ::operator new[](n, a);
      ASSERT_TRUE(p != nullptr && is_aligned(p, a));
      ::operator delete[](p, a);
      ::operator delete[](::operator new[](n, a), n, a);
      ::operator delete[](::operator new[](n, a, std::nothrow), a, std::nothrow);
    }
  }
  ::operator delete(nullptr);
  ::operator delete[](nullptr, std::size_t{5});
  ::operator delete (nullptr, std::align_val_t{64});
}

TEST(Operators, AreStratas) {
  void* p = ::operator new(opaque<std::size_t>(1));
  EXPECT_EQ(malloc_usable_size(p), 16u);
  ::operator delete(p);
}

TEST(Operators, ThrowBadAllocThroughOurFrames) {
  const std::string lives_on(100, 'x');
  EXPECT_THROW(static_cast<void>(::operator new(opaque(kImpossible))), std::bad_alloc);
  EXPECT_THROW(static_cast<void>(::operator new[](opaque(kImpossible))), std::bad_alloc);
  EXPECT_THROW(static_cast<void>(::operator new (opaque(kImpossible), std::align_val_t{64})),
               std::bad_alloc);
  EXPECT_THROW(static_cast<void>(::operator new[](opaque(kImpossible), std::align_val_t{64})),
               std::bad_alloc);
  EXPECT_EQ(::operator new(opaque(kImpossible), std::nothrow), nullptr);
  EXPECT_EQ(::operator new[](opaque(kImpossible), std::nothrow), nullptr);
  EXPECT_EQ(::operator new (opaque(kImpossible), std::align_val_t{64}, std::nothrow), nullptr);
  EXPECT_EQ(::operator new[](opaque(kImpossible), std::align_val_t{64}, std::nothrow), nullptr);
  EXPECT_THROW(std::vector<char>(opaque(kImpossible)), std::bad_alloc);
}

TEST(Operators, FreeWhatAConstructorLeavesWhenItThrows) {
  struct Throws {
    explicit Throws(int value) { throw value; }
    char bytes[1000];
  };
  const std::size_t before = mallinfo2().uordblks;
  for (int i = 0; i < 1000; ++i) {
    try {
      Throws* never = new Throws(i);
      FAIL() << never;
    } catch (int value) {
      ASSERT_EQ(value, i);
    }
  }
  EXPECT_LT(mallinfo2().uordblks, before + 100'000);
}

int g_handler_calls;

TEST(NewHandler, IsCalledUntilItGivesUp) {
  g_handler_calls = 0;
  const HandlerGuard guard([] {
    if (++g_handler_calls == 3) std::set_new_handler(nullptr);
  });
  EXPECT_THROW(static_cast<void>(::operator new(opaque(kImpossible))), std::bad_alloc);
  EXPECT_EQ(g_handler_calls, 3);
}

TEST(NewHandler, IsCalledByTheNothrowFormsToo) {
  g_handler_calls = 0;
  const HandlerGuard guard([] {
    if (++g_handler_calls == 2) std::set_new_handler(nullptr);
  });
  EXPECT_EQ(::operator new(opaque(kImpossible), std::nothrow), nullptr);
  EXPECT_EQ(g_handler_calls, 2);
}

/// The usual limit of the address space, which the handler restores.
rlimit g_usual;

TEST(NewHandler, MakesRoomForWhatIsThenAlignedAsAsked) {
  ASSERT_EQ(getrlimit(RLIMIT_AS, &g_usual), 0);
  static int handled;
  handled = 0;
  const HandlerGuard guard([] {
    ++handled;
    setrlimit(RLIMIT_AS, &g_usual);
  });
  const rlimit none{1, g_usual.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &none), 0);
  rlimit now;
  ASSERT_EQ(getrlimit(RLIMIT_AS, &now), 0);
  setrlimit(RLIMIT_AS, &g_usual);
  if (now.rlim_cur != none.rlim_cur) GTEST_SKIP() << "an emulator sets no limit of addresses";
  const std::align_val_t a{std::size_t{64} << 20};
  const std::size_t n = opaque(std::size_t{3} << 20);
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(setrlimit(RLIMIT_AS, &none), 0);
    void* const thrown = ::operator new(n, a);
    ASSERT_EQ(setrlimit(RLIMIT_AS, &none), 0);
    void* const not_thrown = ::operator new(n, a, std::nothrow);
    setrlimit(RLIMIT_AS, &g_usual);
    EXPECT_TRUE(is_aligned(thrown, a));
    EXPECT_TRUE(not_thrown != nullptr && is_aligned(not_thrown, a));
    ::operator delete(thrown, a);
    ::operator delete(not_thrown, a);
  }
  EXPECT_GT(handled, 0);
}

struct NotEnough : std::bad_alloc {};

TEST(NewHandler, MayThrowThroughOurFrames) {
  const HandlerGuard guard([] { throw NotEnough(); });
  EXPECT_THROW(static_cast<void>(::operator new(opaque(kImpossible))), NotEnough);
  EXPECT_THROW(static_cast<void>(::operator new (opaque(kImpossible), std::align_val_t{256})),
               NotEnough);
}

// As the standard says: the nothrow forms turn the handler's exception into a null pointer.
TEST(NewHandler, ThatThrowsMakesTheNothrowFormsReturnNull) {
  const HandlerGuard guard([] { throw NotEnough(); });
  EXPECT_EQ(::operator new(opaque(kImpossible), std::nothrow), nullptr);
  EXPECT_EQ(::operator new[](opaque(kImpossible), std::nothrow), nullptr);
  EXPECT_EQ(::operator new (opaque(kImpossible), std::align_val_t{256}, std::nothrow), nullptr);
  EXPECT_EQ(::operator new[](opaque(kImpossible), std::align_val_t{256}, std::nothrow), nullptr);
}

}  // namespace
