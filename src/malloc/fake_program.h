#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "malloc/checked_heap.h"
#include "malloc/engine.h"
#include "malloc/options.h"
#include "malloc/statistics.h"
#include "os/fake_page_source.h"
#include "thread_cache/thread_cache.h"

namespace strata {

inline constexpr std::size_t kMiB = std::size_t{1} << 20;

/// One thread of a program on an engine: what the process's malloc does, without its globals.
class FakeProgramThread {
 public:
  explicit FakeProgramThread(Engine& engine) : engine_(engine), cache_(engine.registry().adopt()) {}
  /// Under full checks there are no caches.
  explicit FakeProgramThread(Engine& engine, CheckedHeap& checked)
      : engine_(engine), cache_(nullptr), checked_(&checked) {}
  ~FakeProgramThread() { end(); }
  FakeProgramThread(const FakeProgramThread&) = delete;
  FakeProgramThread& operator=(const FakeProgramThread&) = delete;

  /// Hands the cache back; from here on every call goes the direct way.
  void end() {
    if (cache_ != nullptr) engine_.registry().park(*cache_);
    cache_ = nullptr;
  }
  ThreadCache* cache() { return cache_; }

  Engine::Block allocate(std::size_t bytes, std::size_t alignment = 16) {
    if (checked_ != nullptr) return checked_->allocate({bytes, alignment, false});
    const unsigned size_class = alignment <= 16 ? SizeClassMap::class_of(bytes)
                                                : SizeClassMap::class_of_aligned(bytes, alignment);
    if (size_class == 0) return engine_.allocate_large(bytes, alignment);
    void* object = cache_ != nullptr ? cache_->pop(size_class) : nullptr;
    if (object == nullptr) {
      object = cache_ != nullptr ? cache_->refill_and_pop(size_class)
                                 : engine_.allocate_object(size_class);
      engine_.gather_if_growing(cache_);
    }
    const bool is_tracked = Span::tracks_fresh(SizeClassMap::bytes_of(size_class));
    return {object, object != nullptr && is_tracked && engine_.take_fresh(object)};
  }

  void deallocate(void* p) {
    if (checked_ != nullptr) return checked_->deallocate(p, {});
    const auto size_class = static_cast<unsigned>(engine_.class_of(p));
    if (size_class == 0) {
      engine_.deallocate_large(p);
    } else if (cache_ == nullptr) {
      engine_.deallocate_object(size_class, p);
    } else if (!cache_->push(size_class, p)) {
      cache_->flush_and_push(size_class, p);
      engine_.gather_if_growing(cache_);
    }
  }

  /// \returns  nullptr with the old block untouched when out of memory.
  void* reallocate(void* p, std::size_t bytes) {
    const std::size_t old_bytes = usable_bytes(p);
    if (checked_ == nullptr && engine_.class_of(p) == 0) {
      if (void* resized = engine_.resize_large(p, bytes)) return resized;
    }
    void* moved = allocate(bytes).address;
    if (moved == nullptr) return nullptr;
    std::memcpy(moved, p, std::min(bytes, old_bytes));
    deallocate(p);
    return moved;
  }

  std::size_t usable_bytes(const void* p) {
    return checked_ != nullptr ? checked_->requested_bytes(p, "realloc")
                               : engine_.usable_bytes(p, "realloc");
  }

 private:
  Engine& engine_;
  ThreadCache* cache_;
  CheckedHeap* checked_ = nullptr;
};

/// An engine over a page source of the test's.
struct FakeProgram {
  os::FakePageSource pages;
  std::unique_ptr<Engine> engine = std::make_unique<Engine>(pages);

  void start(Options options = {}) { ASSERT_TRUE(engine->start(options, 1)); }

  Statistics statistics() {
    Statistics now;
    collect_statistics(*engine, now);
    return now;
  }

  /// At rest every byte is in exactly one place.
  void check() {
    engine->check_invariants();
    const Statistics now = statistics();
    ASSERT_EQ(now.mapped, now.live + now.cached + now.free() + now.metadata + now.returned());
    ASSERT_EQ(now.limit.held, now.mapped - now.returned());
    ASSERT_EQ(pages.mapped_bytes(), now.mapped + now.page_map);
  }

  /// After the program freed everything and its threads ended: nothing may be left.
  void check_nothing_is_left() {
    engine->release_all();
    check();
    const Statistics now = statistics();
    ASSERT_EQ(now.live, 0u);
    ASSERT_EQ(now.cached, 0u);
    ASSERT_EQ(now.in_spans, 0u);
    ASSERT_EQ(now.idle, 0u);
    ASSERT_EQ(now.mapped, now.metadata + now.clean);
    ASSERT_EQ(now.huge_blocks, 0u);
    ASSERT_EQ(now.threads, 0u);
  }
};

}  // namespace strata
