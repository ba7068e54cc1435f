#include "malloc/profiler.h"

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

/// The record of a watched object: the site below, the bytes asked for above. 0: not live.
constexpr std::uint64_t record(std::uint32_t site, std::size_t bytes) noexcept {
  return std::uint64_t{bytes} << 32 | site;
}
constexpr std::uint32_t site_in(std::uint64_t record) noexcept {
  return static_cast<std::uint32_t>(record);
}
constexpr std::size_t bytes_in(std::uint64_t record) noexcept { return record >> 32; }

/// How many bytes the detour counts an allocation as.
std::size_t counted(unsigned size_class, std::size_t bytes) noexcept {
  return size_class != 0 ? SizeClassMap::bytes_of(size_class) : bytes + 1;
}

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

bool Profiler::start(std::size_t rate, std::uint64_t seed) noexcept {
  if (rate < 1 || rate > Sampling::kMaxRate) return false;
  os::prepare_stacks();
  sampling_.seed(seed);
  const bool goes_on = started_ns_.load(std::memory_order_relaxed) != 0 &&
                       rate_.load(std::memory_order_relaxed) == rate;
  rate_.store(rate, std::memory_order_relaxed);
  if (!goes_on) started_ns_.store(os::wall_clock_ns(), std::memory_order_relaxed);
  is_on_.store(true, std::memory_order_relaxed);
  detour_.begin(Detour::kByBytes, *this);
  return true;
}

void Profiler::stop() noexcept {
  is_on_.store(false, std::memory_order_relaxed);
  detour_.end(Detour::kByBytes);
}

bool Profiler::write(const char* path) noexcept {
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

void Profiler::report_live() noexcept {
  // Chosen: what a person reads.
  constexpr std::size_t kMostSites = 50;
  FileSink out("");
  write_live_sites(sites_, rate_.load(std::memory_order_relaxed), kMostSites, out,
                   os::kernel_pages());
}

std::int64_t Profiler::draw_interval() noexcept {
  return sampling_.draw_interval(rate_.load(std::memory_order_relaxed));
}

Engine::Block Profiler::allocate(const Allocation& allocation) noexcept {
  const auto [bytes, alignment, by_aligned_new, by] = allocation;
  Engine::Block block{nullptr, false};
  const std::uint32_t site = site_of_caller();
  if (site == 0) return block;
  const unsigned size_class = alignment <= SizeClassMap::kGrain
                                  ? SizeClassMap::class_of(bytes)
                                  : SizeClassMap::class_of_aligned(bytes, alignment);
  if (size_class != 0) {
    block = engine_.allocate_watched(size_class);
    if (block.address == nullptr) return block;
    *engine_.record_of(block.address) = record(site, bytes);
  } else {
    block = engine_.allocate_large(bytes, alignment);
    if (block.address == nullptr || !live_.insert(block.address, {bytes, site})) return block;
  }
  sites_.site(site).add(counted(size_class, bytes), bytes);
  return block;
}

void Profiler::adopt(void* p, std::size_t bytes) noexcept {
  const std::uint32_t site = site_of_caller();
  if (site != 0 && live_.insert(p, {bytes, site})) sites_.site(site).add(counted(0, bytes), bytes);
}

void Profiler::forget(void* p) noexcept {
  if (std::uint64_t* const record = engine_.record_of(p)) {
    // If two threads free it at once, its span reports the second.
    const std::uint64_t was =
        std::atomic_ref<std::uint64_t>(*record).exchange(0, std::memory_order_relaxed);
    if (was == 0) return;
    sites_.site(site_in(was)).remove(engine_.usable_bytes(p, "free"), bytes_in(was));
    return;
  }
  LargeBlock block;
  if (live_.remove(p, block)) sites_.site(block.site).remove(counted(0, block.bytes), block.bytes);
}

void Profiler::for_each_lock(LockVisitor visit) noexcept {
  visit(sites_.lock());
  visit(live_.lock());
}

void Profiler::check_invariants() noexcept {
  sites_.check_invariants();
  live_.check_invariants();
}

std::uint32_t Profiler::site_of_caller() noexcept {
  std::uintptr_t frames[SiteTable::kMaxDepth];
  const std::size_t depth = os::capture_stack(frames, SiteTable::kMaxDepth);
  return sites_.intern(frames, depth, rate_.load(std::memory_order_relaxed));
}

}  // namespace strata
