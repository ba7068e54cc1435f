// Every replaceable operator new and delete.
//
// A C program that preloads the library must not need the C++ runtime. So references to what only a
// failing operator new needs (the handler, the exception and its way through the nothrow forms) are
// weak: a program that calls operator new has it, or has loaded it with a library since; then it is
// looked up. Only this file is compiled with exceptions.

#include <cstddef>
#include <new>

#include "base/fatal.h"
#include "malloc/process.h"
#include "os/symbol.h"

/// Weak, so that a program that is linked with the archive may define any of them itself.
#define STRATA_OPERATOR __attribute__((weak, visibility("default")))

/// The address that the operator has here, even if another file defines one.
#define STRATA_OWN(name, operator_symbol) \
  __attribute__((alias(operator_symbol), visibility("hidden"))) void name()

namespace std {
__attribute__((weak, visibility("default"))) new_handler get_new_handler() noexcept;
__attribute__((weak, noreturn, visibility("default"))) void __throw_bad_alloc();
}  // namespace std

// The compiler refers to these for the one try block below, and Clang for functions that must not
// throw.
asm(".weak __gxx_personality_v0");
asm(".weak __cxa_begin_catch");
asm(".weak __cxa_end_catch");
asm(".weak _Unwind_Resume");
#if defined(__clang__)
asm(".weak _ZSt9terminatev");
#endif

// In a namespace of ours, so that a profile can leave out the frames between an operator and the
// malloc.
namespace strata::operators {
namespace {

/// Finds a function of the C++ runtime, wherever that came from.
/// \param bound  the function, if it was there when this file was loaded
/// \returns  nullptr if there is none
template <typename Function>
[[gnu::cold, gnu::noinline]] Function* find_in_runtime(const char* name,
                                                       Function* bound = nullptr) noexcept {
  if (bound != nullptr) return bound;
  void* found = strata::os::find_function_of("libstdc++.so.6", name);
  if (found == nullptr) found = strata::os::find_function_of("libc++.so.1", name);
  return reinterpret_cast<Function*>(found);
}

/// The rest of operator new when out of memory: calls the program's handler again and again, until
/// it has made room, has thrown, or is gone.
template <typename Retry>
[[gnu::cold, gnu::noinline]] void* retry_with_handler(Retry retry) {
  const auto get_handler = find_in_runtime("_ZSt15get_new_handlerv", &std::get_new_handler);
  for (;;) {
    const std::new_handler handler = get_handler != nullptr ? get_handler() : nullptr;
    if (handler == nullptr) return nullptr;
    handler();
    if (void* p = retry()) return p;
  }
}

/// The same for the nothrow forms: they call the handler, too, and turn what it throws into a null
/// pointer. If the runtime came later, nothing is caught here: its own nothrow form does that,
/// which calls the throwing one.
/// \param name  of that form, as the linker sees it
template <typename Retry, typename... Arguments>
[[gnu::cold, gnu::noinline]] void* retry_with_handler_or_null(const char* name, Retry retry,
                                                              Arguments... arguments) noexcept {
  // Not by the one that throws: a static program may have the others alone.
  if (&std::get_new_handler == nullptr) {
    const auto form = find_in_runtime<void*(Arguments..., const std::nothrow_t&)>(name);
    return form != nullptr ? form(arguments..., std::nothrow_t{}) : nullptr;
  }
  try {
    return retry_with_handler(retry);
  } catch (...) {
    return nullptr;
  }
}

[[noreturn, gnu::cold, gnu::noinline]] void throw_bad_alloc() {
  if (const auto thrower = find_in_runtime("_ZSt17__throw_bad_allocv", &std::__throw_bad_alloc))
    thrower();
  strata::fatal("out of memory in operator new, in a program without the C++ runtime");
}

using By = strata::Allocation::By;
constexpr auto kDelete = strata::FreeCall::By::kDelete;
constexpr auto kDeleteArray = strata::FreeCall::By::kDeleteArray;
constexpr auto kUnsaid = strata::FreeCall::kUnsaid;

// The slow paths. Separate, so that the operators need no stack.

template <By kBy>
[[gnu::noinline]] void* allocate_slowly_or_throw(std::size_t bytes) {
  void* p = strata::allocate_slowly(bytes, kBy);
  if (p == nullptr) p = retry_with_handler([bytes] { return strata::allocate(bytes, kBy); });
  if (p == nullptr) throw_bad_alloc();
  return p;
}

template <By kBy>
[[gnu::noinline]] void* allocate_slowly_or_throw(std::size_t bytes, std::size_t alignment) {
  void* p = strata::allocate_aligned_slowly(alignment, bytes, kBy);
  if (p == nullptr)
    p = retry_with_handler([=] { return strata::allocate_aligned(alignment, bytes, kBy); });
  if (p == nullptr) throw_bad_alloc();
  return p;
}

template <By kBy>
[[gnu::noinline]] void* allocate_slowly_or_null(std::size_t bytes) noexcept {
  if (void* p = strata::allocate_slowly(bytes, kBy)) return p;
  return retry_with_handler_or_null(
      kBy == By::kNew ? "_ZnwmRKSt9nothrow_t" : "_ZnamRKSt9nothrow_t",
      [bytes] { return strata::allocate(bytes, kBy); }, bytes);
}

template <By kBy>
[[gnu::noinline]] void* allocate_slowly_or_null(std::size_t bytes, std::size_t alignment) noexcept {
  if (void* p = strata::allocate_aligned_slowly(alignment, bytes, kBy)) return p;
  return retry_with_handler_or_null(
      kBy == By::kNew ? "_ZnwmSt11align_val_tRKSt9nothrow_t" : "_ZnamSt11align_val_tRKSt9nothrow_t",
      [=] { return strata::allocate_aligned(alignment, bytes, kBy); }, bytes,
      std::align_val_t{alignment});
}

template <By kBy>
inline void* allocate_or_throw(std::size_t bytes) {
  if (void* p = strata::try_allocate(bytes)) [[likely]]
    return p;
  return allocate_slowly_or_throw<kBy>(bytes);
}

template <By kBy>
inline void* allocate_or_throw(std::size_t bytes, std::align_val_t alignment) {
  const auto boundary = static_cast<std::size_t>(alignment);
  if (void* p = strata::try_allocate_aligned(boundary, bytes)) [[likely]]
    return p;
  return allocate_slowly_or_throw<kBy>(bytes, boundary);
}

template <By kBy>
inline void* allocate_or_null(std::size_t bytes) noexcept {
  if (void* p = strata::try_allocate(bytes)) [[likely]]
    return p;
  return allocate_slowly_or_null<kBy>(bytes);
}

template <By kBy>
inline void* allocate_or_null(std::size_t bytes, std::align_val_t alignment) noexcept {
  const auto boundary = static_cast<std::size_t>(alignment);
  if (void* p = strata::try_allocate_aligned(boundary, bytes)) [[likely]]
    return p;
  return allocate_slowly_or_null<kBy>(bytes, boundary);
}

/// For the nothrow forms: turns what a replacement throws into a null pointer.
template <typename Call>
[[gnu::cold, gnu::noinline]] void* call_or_null(Call call) noexcept {
  try {
    return call();
  } catch (...) {
    return nullptr;
  }
}

}  // namespace
}  // namespace strata::operators
using namespace strata::operators;

// The language lets a program replace some of these operators and requires all others to call them:
// an array form the single one, a nothrow or sized form the plain one. Here all are equivalent, and
// none calls another until one turns out to be the program's.

// Addresses to compare, never called: their types say nothing. All operators have one, even those
// that are not compared: valgrind replaces a malloc in the program only where it finds strong
// symbols.
#pragma GCC diagnostic push
#if !defined(__clang__)  // which knows neither warning
#pragma GCC diagnostic ignored "-Wattribute-alias"
#pragma GCC diagnostic ignored "-Wmissing-attributes"
#endif
extern "C" {
STRATA_OWN(strata_own_new, "_Znwm");
STRATA_OWN(strata_own_new_array, "_Znam");
STRATA_OWN(strata_own_nothrow_new, "_ZnwmRKSt9nothrow_t");
STRATA_OWN(strata_own_nothrow_new_array, "_ZnamRKSt9nothrow_t");
STRATA_OWN(strata_own_aligned_new, "_ZnwmSt11align_val_t");
STRATA_OWN(strata_own_aligned_new_array, "_ZnamSt11align_val_t");
STRATA_OWN(strata_own_aligned_nothrow_new, "_ZnwmSt11align_val_tRKSt9nothrow_t");
STRATA_OWN(strata_own_aligned_nothrow_new_array, "_ZnamSt11align_val_tRKSt9nothrow_t");
STRATA_OWN(strata_own_delete, "_ZdlPv");
STRATA_OWN(strata_own_delete_array, "_ZdaPv");
STRATA_OWN(strata_own_sized_delete, "_ZdlPvm");
STRATA_OWN(strata_own_sized_delete_array, "_ZdaPvm");
STRATA_OWN(strata_own_nothrow_delete, "_ZdlPvRKSt9nothrow_t");
STRATA_OWN(strata_own_nothrow_delete_array, "_ZdaPvRKSt9nothrow_t");
STRATA_OWN(strata_own_aligned_delete, "_ZdlPvSt11align_val_t");
STRATA_OWN(strata_own_aligned_delete_array, "_ZdaPvSt11align_val_t");
STRATA_OWN(strata_own_sized_aligned_delete, "_ZdlPvmSt11align_val_t");
STRATA_OWN(strata_own_sized_aligned_delete_array, "_ZdaPvmSt11align_val_t");
STRATA_OWN(strata_own_aligned_nothrow_delete, "_ZdlPvSt11align_val_tRKSt9nothrow_t");
STRATA_OWN(strata_own_aligned_nothrow_delete_array, "_ZdaPvSt11align_val_tRKSt9nothrow_t");
}
#pragma GCC diagnostic pop

namespace {

/// \cost  Three instructions. The address of the operator in use is a word that the loader wrote.
template <typename Operator>
[[gnu::always_inline]] inline bool is_replaced(Operator* in_use, void (*own)()) noexcept {
  // Two names of one definition: Clang would say that they are equal before the program is linked.
  asm("" : "+r"(own));
  return reinterpret_cast<void (*)()>(in_use) != own;
}

using New = void*(std::size_t);
using AlignedNew = void*(std::size_t, std::align_val_t);
using Delete = void(void*);
using AlignedDelete = void(void*, std::align_val_t);

inline bool is_new_replaced() noexcept { return is_replaced<New>(::operator new, strata_own_new); }
inline bool is_new_array_replaced() noexcept {
  return is_new_replaced() || is_replaced<New>(::operator new[], strata_own_new_array);
}
inline bool is_aligned_new_replaced() noexcept {
  return is_replaced<AlignedNew>(::operator new, strata_own_aligned_new);
}
inline bool is_aligned_new_array_replaced() noexcept {
  return is_aligned_new_replaced() ||
         is_replaced<AlignedNew>(::operator new[], strata_own_aligned_new_array);
}
inline bool is_delete_replaced() noexcept {
  return is_replaced<Delete>(::operator delete, strata_own_delete);
}
inline bool is_delete_array_replaced() noexcept {
  return is_delete_replaced() || is_replaced<Delete>(::operator delete[], strata_own_delete_array);
}
inline bool is_aligned_delete_replaced() noexcept {
  return is_replaced<AlignedDelete>(::operator delete, strata_own_aligned_delete);
}
inline bool is_aligned_delete_array_replaced() noexcept {
  return is_aligned_delete_replaced() ||
         is_replaced<AlignedDelete>(::operator delete[], strata_own_aligned_delete_array);
}

/// A program that replaces only one array operator has arrays made by one kind and freed by the
/// other: then nothing is compared.
strata::FreeCall::By known_kind(strata::FreeCall::By by) noexcept {
  using Kind = strata::FreeCall::By;
  return is_new_array_replaced() || is_delete_array_replaced() || is_aligned_new_array_replaced() ||
                 is_aligned_delete_array_replaced()
             ? Kind::kDeleteAny
             : by;
}

[[gnu::noinline]] void give_back_slowly(void* p, strata::FreeCall::By by, std::size_t bytes,
                                        std::size_t alignment) noexcept {
  // Before it is asked for what only a sentence needs.
  if (strata::HotPath::push_verified(strata::t_thread, strata::g_page_map, p,
                                     {by, bytes, alignment}))
    return;
  strata::deallocate_slowly(p, known_kind(by), bytes, alignment);
}

[[gnu::always_inline]] inline void give_back(void* p, strata::FreeCall::By by) noexcept {
  if (strata::HotPath::push_or_verify(strata::t_thread, strata::g_page_map, p)) [[likely]]
    return;
  if (p != nullptr) give_back_slowly(p, by, kUnsaid, kUnsaid);
}
[[gnu::always_inline]] inline void give_back(void* p, strata::FreeCall::By by,
                                             std::size_t bytes) noexcept {
  if (strata::HotPath::push_or_verify(strata::t_thread, strata::g_page_map, p, bytes)) [[likely]]
    return;
  if (p != nullptr) give_back_slowly(p, by, bytes, kUnsaid);
}
[[gnu::always_inline]] inline void give_back(void* p, strata::FreeCall::By by, std::size_t bytes,
                                             std::size_t alignment) noexcept {
  if (strata::HotPath::push(strata::t_thread, strata::g_page_map, p)) [[likely]]
    return;
  if (p != nullptr) give_back_slowly(p, by, bytes, alignment);
}

}  // namespace

STRATA_OPERATOR void* operator new(std::size_t bytes) { return allocate_or_throw<By::kNew>(bytes); }
STRATA_OPERATOR void* operator new[](std::size_t bytes) {
  if (is_new_replaced()) [[unlikely]]
    return ::operator new(bytes);
  return allocate_or_throw<By::kNewArray>(bytes);
}
STRATA_OPERATOR void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  if (is_new_replaced()) [[unlikely]]
    return call_or_null([=] { return ::operator new(bytes); });
  return allocate_or_null<By::kNew>(bytes);
}
STRATA_OPERATOR void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  if (is_new_array_replaced()) [[unlikely]]
    return call_or_null([=] { return ::operator new[](bytes); });
  return allocate_or_null<By::kNewArray>(bytes);
}

STRATA_OPERATOR void* operator new(std::size_t bytes, std::align_val_t a) {
  return allocate_or_throw<By::kNew>(bytes, a);
}
STRATA_OPERATOR void* operator new[](std::size_t bytes, std::align_val_t a) {
  if (is_aligned_new_replaced()) [[unlikely]]
    return ::operator new(bytes, a);
  return allocate_or_throw<By::kNewArray>(bytes, a);
}
STRATA_OPERATOR void* operator new(std::size_t bytes, std::align_val_t a,
                                   const std::nothrow_t&) noexcept {
  if (is_aligned_new_replaced()) [[unlikely]]
    return call_or_null([=] { return ::operator new(bytes, a); });
  return allocate_or_null<By::kNew>(bytes, a);
}
STRATA_OPERATOR void* operator new[](std::size_t bytes, std::align_val_t a,
                                     const std::nothrow_t&) noexcept {
  if (is_aligned_new_array_replaced()) [[unlikely]]
    return call_or_null([=] { return ::operator new[](bytes, a); });
  return allocate_or_null<By::kNewArray>(bytes, a);
}

STRATA_OPERATOR void operator delete(void* p) noexcept { give_back(p, kDelete); }
STRATA_OPERATOR void operator delete[](void* p) noexcept {
  if (is_delete_replaced()) [[unlikely]]
    return ::operator delete(p);
  give_back(p, kDeleteArray);
}
STRATA_OPERATOR void operator delete(void* p, std::size_t bytes) noexcept {
  if (is_delete_replaced()) [[unlikely]]
    return ::operator delete(p);
  give_back(p, kDelete, bytes);
}
STRATA_OPERATOR void operator delete[](void* p, std::size_t bytes) noexcept {
  if (is_delete_array_replaced()) [[unlikely]]
    return ::operator delete[](p);
  give_back(p, kDeleteArray, bytes);
}
STRATA_OPERATOR void operator delete(void* p, const std::nothrow_t&) noexcept {
  if (is_delete_replaced()) [[unlikely]]
    return ::operator delete(p);
  give_back(p, kDelete);
}
STRATA_OPERATOR void operator delete[](void* p, const std::nothrow_t&) noexcept {
  if (is_delete_array_replaced()) [[unlikely]]
    return ::operator delete[](p);
  give_back(p, kDeleteArray);
}

STRATA_OPERATOR void operator delete(void* p, std::align_val_t a) noexcept {
  give_back(p, kDelete, kUnsaid, static_cast<std::size_t>(a));
}
STRATA_OPERATOR void operator delete[](void* p, std::align_val_t a) noexcept {
  if (is_aligned_delete_replaced()) [[unlikely]]
    return ::operator delete(p, a);
  give_back(p, kDeleteArray, kUnsaid, static_cast<std::size_t>(a));
}
STRATA_OPERATOR void operator delete(void* p, std::size_t bytes, std::align_val_t a) noexcept {
  if (is_aligned_delete_replaced()) [[unlikely]]
    return ::operator delete(p, a);
  give_back(p, kDelete, bytes, static_cast<std::size_t>(a));
}
STRATA_OPERATOR void operator delete[](void* p, std::size_t bytes, std::align_val_t a) noexcept {
  if (is_aligned_delete_array_replaced()) [[unlikely]]
    return ::operator delete[](p, a);
  give_back(p, kDeleteArray, bytes, static_cast<std::size_t>(a));
}
STRATA_OPERATOR void operator delete(void* p, std::align_val_t a, const std::nothrow_t&) noexcept {
  if (is_aligned_delete_replaced()) [[unlikely]]
    return ::operator delete(p, a);
  give_back(p, kDelete, kUnsaid, static_cast<std::size_t>(a));
}
STRATA_OPERATOR void operator delete[](void* p, std::align_val_t a,
                                       const std::nothrow_t&) noexcept {
  if (is_aligned_delete_array_replaced()) [[unlikely]]
    return ::operator delete[](p, a);
  give_back(p, kDeleteArray, kUnsaid, static_cast<std::size_t>(a));
}
