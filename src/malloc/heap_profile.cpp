#include "malloc/heap_profile.h"

#include <algorithm>
#include <cstring>

#include "base/text_writer.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/process.h"
#include "os/stack.h"
#include "os/standard_error.h"
#include "profile/gzip_sink.h"
#include "profile/pprof_writer.h"
#include "profile/site_report.h"

namespace strata {
namespace {

class FileOf final : public TextSink {
 public:
  explicit FileOf(os::NewFile& file) noexcept : file_(file) {}
  void write(std::string_view bytes) noexcept override { file_.write(bytes); }

 private:
  os::NewFile& file_;
};

/// The path with the process's number for %p.
/// \returns  false if it is too long
bool expand(const char* path, char* out, std::size_t capacity) noexcept {
  std::size_t size = 0;
  for (; *path != '\0'; ++path) {
    if (path[0] == '%' && path[1] == 'p') {
      TextWriter number;
      for (char digit : number.decimal(os::process_id()).view()) {
        if (size + 1 >= capacity) return false;
        out[size++] = digit;
      }
      ++path;
      continue;
    }
    if (size + 1 >= capacity) return false;
    out[size++] = *path;
  }
  out[size] = '\0';
  return true;
}

void warn_about(const char* path, std::string_view what, std::string_view reason) noexcept {
  TextWriter line;
  line.text("strata: warning: the profile ")
      .text({path, std::min<std::size_t>(std::strlen(path), 512)})
      .text(what)
      .text(reason)
      .text("\n");
  os::write_file(os::standard_error(), line.view());
}

void say_not_written(const char* path, std::string_view reason) noexcept {
  warn_about(path, " is not written: ", reason);
}

}  // namespace

bool HeapProfile::start(std::size_t rate, std::uint64_t seed) noexcept {
  if (rate < 1 || rate > Sampling::kMaxRate) return false;
  os::prepare_stacks();
  sampling_.seed(seed);
  const bool goes_on = started_ns_.load(std::memory_order_relaxed) != 0 &&
                       rate_.load(std::memory_order_relaxed) == rate;
  rate_.store(rate, std::memory_order_relaxed);
  if (!goes_on) started_ns_.store(os::wall_clock_ns(), std::memory_order_relaxed);
  is_on_.store(true, std::memory_order_relaxed);
  if (Heaps* const heaps = heaps_.load(std::memory_order_acquire)) heaps->begin_watches();
  return true;
}

void HeapProfile::stop() noexcept {
  is_on_.store(false, std::memory_order_relaxed);
  if (Heaps* const heaps = heaps_.load(std::memory_order_acquire)) heaps->end_watches();
}

bool HeapProfile::write(const char* path) noexcept {
  char expanded[4096];
  if (!expand(path, expanded, sizeof expanded)) {
    say_not_written(path, "its name is too long");
    return false;
  }
  os::NewFile file;
  if (!file.open(expanded)) {
    say_not_written(expanded, file.reason());
    return false;
  }
  FileOf raw(file);
  GzipSink gzip(raw);
  PprofWriter writer(gzip, os::kernel_pages());
  if (!writer.write(sites_, rate_.load(std::memory_order_relaxed),
                    started_ns_.load(std::memory_order_relaxed))) {
    say_not_written(expanded, "no memory is left");
    return false;
  }
  gzip.finish();
  if (!file.commit()) {
    say_not_written(expanded, file.reason());
    return false;
  }
  if (!writer.has_all_files())
    warn_about(expanded, " has addresses without names: ", "/proc/self/maps cannot be read");
  return true;
}

void HeapProfile::explain_absence(const char* path) noexcept {
  char expanded[4096];
  if (!expand(path, expanded, sizeof expanded) || !os::LineReader(expanded).has_failed()) return;
  say_not_written(expanded, "the program's malloc is not this library's");
}

void HeapProfile::report_live() noexcept {
  // Chosen: what a person reads.
  constexpr std::size_t kMostSites = 50;
  FileSink out("");
  write_live_sites(sites_, rate_.load(std::memory_order_relaxed), kMostSites, out,
                   os::kernel_pages());
}

}  // namespace strata
