#pragma once

#include <stdio.h>
#include <stdlib.h>

#include <cstddef>

/// \file  What the programs of tests/ share. They allocate nothing but what is under test.

/// Ends the program with a sentence if the condition does not hold.
#define CHECK(condition, sentence)                                                               \
  ((condition) ? static_cast<void>(0)                                                            \
               : (fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, sentence, #condition), \
                  _exit(1)))

/// A value the compiler knows nothing about.
template <typename T>
T opaque(T value) {
  asm volatile("" : "+r"(value)::"memory");
  return value;
}
