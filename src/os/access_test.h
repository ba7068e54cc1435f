#pragma once

#include <cinttypes>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

namespace strata::os {

/// What the process may do at an address, as /proc/self/maps says: "rw-p"; "" if nothing is mapped.
inline std::string access_at(const void* p) {
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t start = 0;
    std::uintptr_t end = 0;
    char access[5] = "";
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %4s", &start, &end, access) == 3 &&
        address >= start && address < end) {
      return access;
    }
  }
  return "";
}

/// Whether a range is mapped with this access, and the pages before and after it with none.
inline bool lies_apart(const void* p, std::size_t bytes, const std::string& access) {
  const char* const start = static_cast<const char*>(p);
  return access_at(start) == access && access_at(start + bytes - 1) == access &&
         access_at(start - 1) == "---p" && access_at(start + bytes) == "---p";
}

}  // namespace strata::os
