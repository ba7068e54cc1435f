// What STRATA_HUGE_PAGES says: whether the memory of a small heap, of a large one and of a large
// block asks for huge pages.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "support/check.h"

namespace {

/// Whether programs may ask for them.
bool may_ask() {
  FILE* file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
  if (file == nullptr) return false;
  char line[256] = "";
  const bool is_read = fgets(line, sizeof line, file) != nullptr;
  fclose(file);
  return is_read && strstr(line, "[never]") == nullptr;
}

/// Whether any mapping of the process has asked.
bool has_asked() {
  FILE* file = fopen("/proc/self/smaps", "r");
  CHECK(file != nullptr, "the kernel does not say");
  bool is_asked = false;
  char line[512];
  while (fgets(line, sizeof line, file) != nullptr) {
    is_asked |= strncmp(line, "VmFlags:", 8) == 0 && strstr(line, " hg") != nullptr;
  }
  fclose(file);
  return is_asked;
}

void allocate(std::size_t bytes, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    void* p = opaque(malloc(bytes));
    CHECK(p != nullptr, "malloc failed");
    std::memset(p, 1, bytes);
  }
}

}  // namespace

int main() {
  if (!may_ask()) {
    printf("skipped: the system has no huge pages for programs\n");
    return 0;
  }
  const char* const option = getenv("STRATA_HUGE_PAGES");
  const std::string_view when = option != nullptr ? option : "auto";
  CHECK(!has_asked() || when == "always", "what is no heap, or a heap of some KB");
  allocate(1000, 1000);
  CHECK(has_asked() == (when == "always"), "a heap of 1 MB");
  allocate(1000, 100'000);
  CHECK(has_asked() == (when == "always" || when == "auto"), "a heap of 100 MB");
  allocate(std::size_t{64} << 20, 1);
  CHECK(has_asked() == (when == "always" || when == "auto"), "a block of 64 MiB");
  return 0;
}
