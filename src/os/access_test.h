#pragma once

#include <cinttypes>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

namespace strata::os {

/// A line of /proc/self/maps: a range, and what the process may do there, as "rw-p".
struct Mapping {
  std::uintptr_t start;
  std::uintptr_t end;
  std::string access;

  bool holds(const void* p) const {
    const auto address = reinterpret_cast<std::uintptr_t>(p);
    return address >= start && address < end;
  }
};

/// All mappings of the process, in the order of their addresses.
inline std::vector<Mapping> mappings() {
  std::vector<Mapping> all;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    Mapping mapping{};
    char access[5] = "";
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %4s", &mapping.start, &mapping.end,
                    access) != 3)
      continue;
    mapping.access = access;
    all.push_back(mapping);
  }
  return all;
}

/// What the process may do at an address; "" if nothing is mapped there.
inline std::string access_at(const void* p) {
  for (const Mapping& mapping : mappings()) {
    if (mapping.holds(p)) return mapping.access;
  }
  return "";
}

/// Whether a range is mapped with this access, and the pages before and after it with another.
inline bool lies_apart(const void* p, std::size_t bytes, const std::string& access,
                       const std::string& beside = "---p") {
  const char* const start = static_cast<const char*>(p);
  return access_at(start) == access && access_at(start + bytes - 1) == access &&
         access_at(start - 1) == beside && access_at(start + bytes) == beside;
}

}  // namespace strata::os
