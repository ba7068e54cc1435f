#pragma once

#include <strata/detail/misuse.hpp>

#include <optional>
#include <type_traits>
#if defined(__cpp_exceptions)
#include <new>
#include <stdexcept>
#endif

/// \file  Refusals: an exception where the program has them, else a last sentence.

/// Marks every inline function that may call one of those below, directly or not, or that must undo
/// something if a callee throws. One program may link files with and without exceptions, and a
/// linker keeps one body of each name. The tag gives each kind of file a name of its own, so that
/// none gets the other's answer, or a body that undoes nothing.
#if defined(__cpp_exceptions)
#define STRATA_MAY_REFUSE
#else
#define STRATA_MAY_REFUSE [[gnu::abi_tag("without_exceptions")]]
#endif

namespace strata::detail {

#if defined(__cpp_exceptions)
/// A std::bad_alloc that says whose memory has run out.
class OutOfMemory final : public std::bad_alloc {
 public:
  /// \pre  the sentence is in static memory
  explicit OutOfMemory(const char* sentence) noexcept : sentence_(sentence) {}
  const char* what() const noexcept override { return sentence_; }

 private:
  const char* sentence_;
};

[[noreturn, gnu::cold]] inline void refuse_argument(const char* sentence) {
  throw std::invalid_argument(sentence);
}
[[noreturn, gnu::cold]] inline void refuse_length(const char* sentence) {
  throw std::length_error(sentence);
}
[[noreturn, gnu::cold]] inline void refuse_memory(const char* sentence) {
  throw OutOfMemory(sentence);
}
#else
[[noreturn, gnu::cold]] STRATA_MAY_REFUSE inline void refuse_argument(const char* sentence) {
  misuse(sentence);
}
[[noreturn, gnu::cold]] STRATA_MAY_REFUSE inline void refuse_length(const char* sentence) {
  misuse(sentence);
}
[[noreturn, gnu::cold]] STRATA_MAY_REFUSE inline void refuse_memory(const char* sentence) {
  misuse(sentence);
}
#endif

/// What a try_create() returns that refuses.
inline std::nullopt_t refused(const char* sentence, const char** reason) noexcept {
  if (reason != nullptr) *reason = sentence;
  return std::nullopt;
}

/// How every constructor of the shelf refuses: create(&reason) is its try_create(), which returns a
/// std::optional. Returns what that holds, or throws: std::bad_alloc if the reason is among
/// `out_of_memory`, else std::invalid_argument.
template <typename Create, typename... Sentences>
STRATA_MAY_REFUSE auto made_or_refused(Create create, Sentences... out_of_memory) {
  const char* reason = nullptr;
  auto made = create(&reason);
  if (!made) {
    const bool lacks_memory = ((reason == out_of_memory) || ...);
    if (lacks_memory) refuse_memory(reason);
    refuse_argument(reason);
  }
  return static_cast<std::remove_reference_t<decltype(*made)>&&>(*made);
}

}  // namespace strata::detail
