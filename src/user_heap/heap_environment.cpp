#include "user_heap/heap_environment.h"

#include <cstring>
#include <string_view>

#include "os/process.h"
#include "os/standard_error.h"

namespace strata {
namespace {

// For the exit handler, which takes no argument.
constinit HeapProfile* g_profile = nullptr;
constinit bool g_reports_leaks = false;
constinit char g_path[4096];

void write_at_exit() noexcept {
  if (g_reports_leaks) g_profile->report_live();
  if (g_path[0] != '\0') g_profile->write(g_path);
}

}  // namespace

void start_profile_of_environment(HeapProfile& profile, const Options& options) noexcept {
  g_profile = &profile;
  g_reports_leaks = options.leaks == Options::Leaks::kOn;
  const bool has_path =
      *options.profile != '\0' && write_name_of_heaps(options.profile, g_path, sizeof g_path);
  if (!g_reports_leaks && !has_path) return;
  os::keep_standard_error();
  os::register_exit_handler(write_at_exit);
  profile.start(g_reports_leaks ? 1 : options.profile_rate, seed_of(options.random));
}

bool write_name_of_heaps(const char* path, char* out, std::size_t capacity) noexcept {
  constexpr std::string_view kMark = ".heaps";
  const std::string_view whole(path);
  if (whole.size() + kMark.size() >= capacity) return false;
  const std::size_t slash = whole.rfind('/');
  const std::size_t name = slash == whole.npos ? 0 : slash + 1;
  const std::size_t dot = whole.find('.', name + 1);
  const std::size_t first = dot == whole.npos ? whole.size() : dot;
  std::memcpy(out, path, first);
  std::memcpy(out + first, kMark.data(), kMark.size());
  std::memcpy(out + first + kMark.size(), path + first, whole.size() - first + 1);
  return true;
}

}  // namespace strata
