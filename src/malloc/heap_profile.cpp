#include "malloc/heap_profile.h"

#include <new>

#include "base/file_warning.h"
#include "base/scratch.h"
#include "base/text_sink.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/path.h"
#include "os/process.h"
#include "os/stack.h"
#include "os/text_parts.h"
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

/// Replaces %p in the path by the process ID.
/// \returns  false if it is too long
bool expand(std::string_view path, os::Path& out) noexcept {
  for (out.clear(); !path.empty();) {
    const bool is_process = os::begins_with(path, "%p");
    if (is_process) {
      out.add(os::process_id());
    } else {
      out.add(os::start_of(path, 1));
    }
    path.remove_prefix(is_process ? 2 : 1);
  }
  return out.fits();
}

void warn_of_profile(const char* path, std::string_view problem, std::string_view reason) noexcept {
  warn_of_file("the profile", path, problem, reason);
}

void say_not_written(const char* path, std::string_view reason) noexcept {
  warn_of_profile(path, "is not written", reason);
}

/// A file being written, with all buffers: too large for a small stack.
class Writing {
 public:
  explicit Writing(const char* path) noexcept
      : is_named_(expand(path, path_)), is_open_(is_named_ && file_.open(path_.c_str())) {
    if (!is_open_)
      say_not_written(is_named_ ? path_.c_str() : path,
                      is_named_ ? file_.reason() : "its name is too long");
  }
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;

  bool is_ready() const noexcept { return is_open_; }

  bool write(SiteTable& sites, std::size_t rate, std::uint64_t started_ns) noexcept {
    const bool is_complete = writer_.write(sites, rate, started_ns);
    if (is_complete) gzip_.finish();
    if (!is_complete || !file_.commit()) {
      say_not_written(path_.c_str(), is_complete ? file_.reason() : "no memory is left");
      return false;
    }
    if (!writer_.has_all_files())
      warn_of_profile(path_.c_str(), "has addresses without names",
                      "the kernel did not say which files are mapped");
    if (!sites.tells_all_apart())
      warn_of_profile(path_.c_str(), "has callers that it does not tell apart",
                      "there were too many, or no memory was left");
    return true;
  }

 private:
  os::Path path_;
  os::NewFile file_;
  const bool is_named_;
  const bool is_open_;
  FileOf raw_{file_};
  GzipSink gzip_{raw_};
  PprofWriter writer_{gzip_, os::kernel_pages()};
};

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
  const Scratch scratch(os::kernel_pages(), sizeof(Writing));
  if (scratch.memory() == nullptr) {
    say_not_written(path, "no memory is left");
    return false;
  }
  auto* const writing = new (scratch.memory()) Writing(path);
  const bool is_written =
      writing->is_ready() && writing->write(sites_, rate_.load(std::memory_order_relaxed),
                                            started_ns_.load(std::memory_order_relaxed));
  writing->~Writing();
  return is_written;
}

void HeapProfile::explain_absence(const char* path) noexcept {
  os::Path expanded;
  if (!expand(path, expanded) || !os::LineReader(expanded.c_str()).has_failed()) return;
  say_not_written(expanded.c_str(), "the program's malloc is not this library's");
}

void HeapProfile::report_live() noexcept {
  // Chosen: what a person reads.
  constexpr std::size_t kMostSites = 50;
  FileSink out("");
  write_live_sites(sites_, rate_.load(std::memory_order_relaxed), kMostSites, out,
                   os::kernel_pages());
}

}  // namespace strata
