// A C++ program that uses new and never malloc or free, like most. It is linked with the archive;
// still, the C library allocates from Strata, too, and options have their effect: with
// STRATA_GUARD_RATE=1, small objects lie between guard pages.

#include <string>

#include "operations/strata_api.h"

int main() {
  const std::string* const kept = opaque(new std::string(300, 'k'));
  CHECK(stats_number("objects") > 0,
        "nothing is guarded: the malloc did not start with the program");
  const std::string text(100'000, 't');
  const std::size_t before = stats_number("live");
  const char* const copy = opaque(strdup(text.c_str()));
  CHECK(copy[99'999] == 't', "strdup");
  CHECK(stats_number("live") >= before + 100'000, "the C library has another malloc");
  delete kept;
  return 0;
}
