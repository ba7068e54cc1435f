#pragma once

#include <strata/malloc.h>

#include <malloc.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "support/check.h"

/// \file  Strata's own functions, for a program that need not be linked with Strata: they are found
/// in the linked or preloaded library.

#pragma weak strata_stats_json
#pragma weak strata_release_memory

/// The statistics as JSON, in a static buffer: this allocates nothing.
inline const char* stats_json() {
  static char buffer[1 << 16];
  mallinfo2();  // a weak name alone does not bring its object file in from the archive
  CHECK(strata_stats_json != nullptr, "the program does not run on Strata");
  const std::size_t length = strata_stats_json(buffer, sizeof buffer);
  CHECK(length < sizeof buffer, "64 KiB were not enough");
  return buffer;
}

/// The number after the first `"name":` in the statistics.
inline std::size_t stats_number(const char* name, const char* statistics = stats_json()) {
  char key[64];
  std::snprintf(key, sizeof key, "\"%s\":", name);
  const char* at = std::strstr(statistics, key);
  CHECK(at != nullptr, "no such number in the statistics");
  return std::strtoull(at + std::strlen(key), nullptr, 10);
}
