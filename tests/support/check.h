#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstddef>

/// \file  What all programs in tests/ use. It allocates nothing itself, so only the tested code
/// does.

/// Ends the program with a sentence if the condition does not hold.
#define CHECK(condition, sentence)                                                               \
  ((condition) ? static_cast<void>(0)                                                            \
               : (fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, sentence, #condition), \
                  _exit(1)))

/// Hides from the compiler where the value comes from.
template <typename T>
T opaque(T value) {
  asm volatile("" : "+r"(value)::"memory");
  return value;
}
