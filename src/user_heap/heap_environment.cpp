#include "user_heap/heap_environment.h"

#include <cstddef>

#include "os/process.h"
#include "os/standard_error.h"
#include "os/text_parts.h"

namespace strata {
namespace {

// For the exit handler, which takes no argument.
constinit HeapProfile* g_profile = nullptr;
constinit bool g_reports_leaks = false;
constinit os::Path g_path;

void write_at_exit() noexcept {
  if (g_reports_leaks) g_profile->report_live();
  if (!g_path.view().empty()) g_profile->write(g_path.c_str());
}

}  // namespace

void start_profile_of_environment(HeapProfile& profile, const Options& options) noexcept {
  g_profile = &profile;
  g_reports_leaks = options.leaks == Options::Leaks::kOn;
  const bool has_path = *options.profile != '\0' && write_name_of_heaps(options.profile, g_path);
  if (!g_reports_leaks && !has_path) return;
  os::keep_standard_error();
  os::register_exit_handler(write_at_exit);
  profile.start(g_reports_leaks ? 1 : options.profile_rate, seed_of(options.random));
}

bool write_name_of_heaps(std::string_view path, os::Path& out) noexcept {
  const std::size_t slash = path.rfind('/');
  const std::size_t name = slash == path.npos ? 0 : slash + 1;
  const std::string_view first = os::start_of(path, path.find('.', name + 1));
  path.remove_prefix(first.size());
  return out.clear().add(first).add(".heaps").add(path).fits();
}

}  // namespace strata
