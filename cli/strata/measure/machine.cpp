#include "measure/machine.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <ctime>
#include <fstream>

#include "output/units.h"

namespace strata::cli {
namespace {

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// The value of the first line "key<spaces>separator value" of a file, without quotes.
std::string value_of(const char* path, const std::string& key, char separator) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t at = line.find_first_not_of(" \t", key.size());
    if (!line.starts_with(key) || at == std::string::npos || line[at] != separator) continue;
    line.erase(0, line.find_first_not_of(" \"", at + 1));
    return line.erase(line.find_last_not_of(" \"") + 1);
  }
  return {};
}

/// "always [madvise] never" -> "madvise".
std::string chosen(const std::string& line) {
  std::size_t open = line.find('[');
  std::size_t close = line.find(']');
  if (open == std::string::npos || close == std::string::npos) return {};
  return line.substr(open + 1, close - open - 1);
}

int usable_cores() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
}

}  // namespace

nlohmann::ordered_json describe_machine() {
  nlohmann::ordered_json machine;
  auto put = [&](const char* key, const std::string& value) {
    if (!value.empty()) machine[key] = value;
  };
  utsname names{};
  ::uname(&names);
  auto page_bytes = ::sysconf(_SC_PAGESIZE);
  std::string cpu = value_of("/proc/cpuinfo", "model name", ':');
  machine["cpu"] = cpu.empty() ? names.machine : cpu;
  machine["architecture"] = names.machine;
  machine["cores"] = usable_cores();
  machine["memory_bytes"] = static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) * page_bytes;
  machine["page_bytes"] = page_bytes;
  machine["kernel"] = fmt::format("{} {}", names.sysname, names.release);
  put("distribution", value_of("/etc/os-release", "PRETTY_NAME", '='));
  machine["libc"] = fmt::format("glibc {}", ::gnu_get_libc_version());
  put("thp", chosen(first_line("/sys/kernel/mm/transparent_hugepage/enabled")));
  put("overcommit", first_line("/proc/sys/vm/overcommit_memory"));
  return machine;
}

std::string machine_line(const nlohmann::ordered_json& machine) {
  const int cores = machine.value("cores", 0);
  const std::uint64_t memory_bytes = machine.value("memory_bytes", std::uint64_t{0});
  return fmt::format("{}{}, {}, {}, huge pages: {}", cores > 0 ? fmt::format("{} x ", cores) : "",
                     machine.value("cpu", "unknown processor"),
                     memory_bytes > 0 ? bytes_text(memory_bytes) : "unknown memory",
                     machine.value("kernel", "unknown kernel"), machine.value("thp", "unknown"));
}

std::string time_of_day() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

}  // namespace strata::cli
