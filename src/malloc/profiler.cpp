#include "malloc/profiler.h"

#include "os/stack.h"

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

}  // namespace

bool Profiler::start(std::size_t rate, std::uint64_t seed) noexcept {
  if (!profile_->start(rate, seed)) return false;
  watch();
  return true;
}

void Profiler::watch() noexcept {
  if (heap_name_ != nullptr && label_.load(std::memory_order_relaxed) == nullptr)
    label_.store(profile_->sites().label(heap_name_), std::memory_order_relaxed);
  detour_.begin(Detour::kByBytes, *this);
}

void Profiler::stop() noexcept {
  profile_->stop();
  unwatch();
}

std::int64_t Profiler::draw_interval() noexcept { return profile_->draw_interval(); }

Engine::Block Profiler::allocate(const Allocation& allocation) noexcept {
  const auto [bytes, alignment, by_aligned_new, by] = allocation;
  Engine::Block block{nullptr, false};
  const std::uint32_t site = site_of_caller();
  if (site == 0) return block;
  const unsigned size_class = SizeClassMap::class_of_aligned(bytes, alignment);
  if (size_class != 0) {
    block = engine_.allocate_watched(size_class);
    if (block.address == nullptr) return block;
    *engine_.record_of(block.address) = record(site, bytes);
  } else {
    block = engine_.allocate_large(bytes, alignment);
    if (block.address == nullptr || !live_.insert(block.address, {bytes, site})) return block;
  }
  profile_->sites().site(site).add(Detour::counted(size_class, bytes), bytes);
  return block;
}

void Profiler::adopt(void* p, std::size_t bytes) noexcept {
  const std::uint32_t site = site_of_caller();
  if (site != 0 && live_.insert(p, {bytes, site}))
    profile_->sites().site(site).add(Detour::counted(0, bytes), bytes);
}

/// Counts as freed, and as allocated again by the place that allocated it, which has the rate of
/// the sample.
void Profiler::resize(void* p, std::size_t bytes) noexcept {
  std::uint64_t* const known = engine_.record_of(p);
  if (!detour_.is_on(Detour::kByBytes) || *known == 0) return;
  Site& site = profile_->sites().site(site_in(*known));
  const std::size_t counted = engine_.usable_bytes(p, "realloc");
  site.remove(counted, bytes_in(*known));
  site.add(counted, bytes);
  *known = record(site_in(*known), bytes);
}

void Profiler::forget(void* p) noexcept {
  if (std::uint64_t* const record = engine_.record_of(p)) {
    // If two threads free it at once, its span reports the second.
    const std::uint64_t was =
        std::atomic_ref<std::uint64_t>(*record).exchange(0, std::memory_order_relaxed);
    if (was == 0) return;
    profile_->sites().site(site_in(was)).remove(engine_.usable_bytes(p, "free"), bytes_in(was));
    return;
  }
  let_go(set_aside(p));
}

Profiler::LargeBlock Profiler::set_aside(void* p) noexcept {
  LargeBlock block{};
  live_.remove(p, block);
  return block;
}

/// Accepted: when out of memory for this, the block counts as freed.
void Profiler::put_back(void* p, const LargeBlock& block) noexcept {
  if (block.site != 0 && !live_.insert(p, block)) let_go(block);
}

void Profiler::let_go(const LargeBlock& block) noexcept {
  if (block.site != 0)
    profile_->sites().site(block.site).remove(Detour::counted(0, block.bytes), block.bytes);
}

void Profiler::forget_all() noexcept {
  if (!detour_.has_watchers()) return;
  engine_.page_heap().for_each_span([this](const Span& span) {
    // Others may have records of full checks.
    if (span.records == nullptr || !engine_.watched_spans().owns(span)) return;
    for (std::uint32_t i = 0; i != span.object_count; ++i) {
      const std::uint64_t record = span.records[i];
      if (record != 0)
        profile_->sites().site(site_in(record)).remove(span.object_bytes, bytes_in(record));
    }
  });
  live_.for_each([this](std::uintptr_t, const LargeBlock& block) { let_go(block); });
  live_.forget_all();
}

void Profiler::hold_locks_for_fork() noexcept {
  LocksInFork::hold(own_.sites().lock());
  LocksInFork::hold(live_.lock());
}

void Profiler::check_invariants() noexcept {
  profile_->sites().check_invariants();
  live_.check_invariants();
}

std::uint32_t Profiler::site_of_caller() noexcept {
  std::uintptr_t frames[SiteTable::kMaxDepth];
  const std::size_t depth = os::capture_stack(frames, SiteTable::kMaxDepth);
  return profile_->sites().intern(frames, depth, profile_->rate(),
                                  label_.load(std::memory_order_relaxed));
}

}  // namespace strata
