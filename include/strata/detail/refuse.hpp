#pragma once

#include <strata/detail/misuse.hpp>

#if defined(__cpp_exceptions)
#include <new>
#include <stdexcept>
#endif

/// \file  Saying no: an exception where the program has them, a last sentence where it does not.
/// The two forms live in different inline namespaces, so that both kinds of program can be linked
/// into one.

namespace strata::detail {

#if defined(__cpp_exceptions)
inline namespace by_exception {
[[noreturn, gnu::cold]] inline void refuse_argument(const char* sentence) {
  throw std::invalid_argument(sentence);
}
[[noreturn, gnu::cold]] inline void refuse_length(const char* sentence) {
  throw std::length_error(sentence);
}
[[noreturn, gnu::cold]] inline void refuse_memory(const char*) { throw std::bad_alloc(); }
}  // namespace by_exception
#else
inline namespace by_sentence {
[[noreturn, gnu::cold]] inline void refuse_argument(const char* sentence) { misuse(sentence); }
[[noreturn, gnu::cold]] inline void refuse_length(const char* sentence) { misuse(sentence); }
[[noreturn, gnu::cold]] inline void refuse_memory(const char* sentence) { misuse(sentence); }
}  // namespace by_sentence
#endif

}  // namespace strata::detail
