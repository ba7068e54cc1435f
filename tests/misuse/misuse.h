#pragma once

#include <stdlib.h>

#include <cstddef>

#include "support/check.h"

/// \file  What the parts of the misuse program have in common.

struct Case {
  const char* name;
  void (*run)();
};

#define CASE(name) \
  { #name, name }

inline constexpr std::size_t kLarge = 250'000;
inline constexpr std::size_t kHuge = std::size_t{5} << 20;

inline char* get(std::size_t bytes) { return static_cast<char*>(opaque(malloc(bytes))); }

/// The cases that only full checks or guard pages notice.
/// \returns  false if no case has this name
bool run_checked_case(const char* name);
void list_checked_cases();
