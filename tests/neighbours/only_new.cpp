// A C++ program that says new and never malloc or free, as most do. Linked with the archive, what
// the C library allocates comes from Strata all the same, and what options ask for happens: under
// STRATA_GUARD_RATE=1 small objects stand between guard pages.

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
