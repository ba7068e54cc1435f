#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/metadata_arena.h"
#include "size_class/size_class_map.h"
#include "span/heap_names.h"
#include "span/page.h"
#include "span/page_heap.h"
#include "span/page_map.h"

namespace strata {

/// Pages of a span of the class: one if it has room for kMinObjects objects; otherwise the fewest
/// that have room for them and leave a tail below 1/kTailShare of the span.
constexpr unsigned span_pages_of(unsigned size_class) noexcept {
  // Chosen: fewer objects would make the page heap the common path; more would keep large spans
  // alive for one of them. A span takes at most half a region.
  constexpr std::size_t kMinObjects = 8;
  constexpr std::size_t kMostMinBytes = kRegionBytes / 2;
  // Chosen: at this share, a page or two more than kMinObjects need hold a whole number of objects.
  constexpr std::size_t kTailShare = 32;
  const std::size_t bytes = SizeClassMap::bytes_of(size_class);
  if (kMinObjects * bytes <= kPageBytes) return 1;
  const std::size_t objects = kMinObjects * bytes <= kMostMinBytes ? kMinObjects : kMinObjects / 2;
  std::size_t pages = (objects * bytes + kPageBytes - 1) / kPageBytes;
  while (pages * kPageBytes % bytes > pages * kPageBytes / kTailShare) ++pages;
  return static_cast<unsigned>(pages);
}
/// Classes below this one, including class 0, have spans of one page.
inline constexpr unsigned kOnePageClasses = [] {
  unsigned c = 1;
  while (c < SizeClassMap::kCount && span_pages_of(c) == 1) ++c;
  return c;
}();

/// Tells where objects start in spans of one page, without reading the span.
class OnePageObjects {
 public:
  /// \pre   a span of the class contains `p`; size_class < kOnePageClasses
  /// \cost  8 instructions
  static bool starts_at(const void* p, std::size_t size_class) noexcept {
    const auto offset =
        static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(p) % kPageBytes);
    const Divisor divisor = kDivisors[size_class];
    return offset * divisor.reciprocal < divisor.reciprocal && offset <= divisor.last_start;
  }

 private:
  /// The product of a number and the reciprocal, modulo 2^32, is below the reciprocal exactly if
  /// the number is a multiple.
  /// \source  Lemire, Kaser, Kurz, "Faster remainder by direct computation" (2019)
  struct Divisor {
    std::uint32_t reciprocal;  // ceil(2^32 / object_bytes)
    std::uint32_t last_start;
  };
  static constexpr auto kDivisors = [] {
    std::array<Divisor, kOnePageClasses> divisors{};
    for (unsigned c = 1; c < kOnePageClasses; ++c) {
      const auto bytes = static_cast<std::uint32_t>(SizeClassMap::bytes_of(c));
      divisors[c] = {UINT32_MAX / bytes + 1,
                     static_cast<std::uint32_t>((kPageBytes / bytes - 1) * bytes)};
    }
    return divisors;
  }();
};

static_assert(span_pages_of(SizeClassMap::kCount - 1) <= kPagesPerRegion,
              "the largest class's span fits a region");
static_assert(kPageBytes % SizeClassMap::kMaxAlignment == 0,
              "a span starts where the alignment of its objects needs it");

static_assert(!Span::tracks_fresh(SizeClassMap::kMaxTableBytes),
              "the hot path of malloc does not say that it hands objects out");
static_assert(
    [] {
      for (unsigned c = 1; c < SizeClassMap::kCount; ++c) {
        const std::size_t bytes = SizeClassMap::bytes_of(c);
        if (Span::tracks_fresh(bytes) && span_pages_of(c) * kPageBytes / bytes > 32) return false;
      }
      return true;
    }(),
    "the objects of a span that tracks which are fresh fit the word's bits");

/// Makes spans of small objects from pages of the page heap, and gives the pages back: the seam
/// between pages and objects. CentralLists call it.
/// \threads  Any number at once.
class SpanSource {
 public:
  enum class Use : bool { kSmall, kWatched };

  constexpr SpanSource(PageMap& map, PageHeap& page_heap, MetadataArena& metadata,
                       os::PageSource& pages, Use use = Use::kSmall) noexcept
      : map_(map), page_heap_(page_heap), metadata_(metadata), pages_(pages), use_(use) {}

  /// From now on small objects have records, too, for full checks, and holes stay committed, so
  /// that what a record says of an object's contents stays true. Call before the first span.
  void keep_records() noexcept { keeps_records_ = true; }
  /// Whether spans of small objects made from now on have states (ObjectStates). If they once had
  /// them, later ones get ObjectStates::nowhere() instead. Existing spans stay as they are.
  /// \pre  to turn it on: no span was made so far
  void keep_states(bool keeps) noexcept {
    if (keeps) has_state_places_ = true;
    keeps_states_.store(keeps, std::memory_order_release);
  }

  /// Bytes of all states.
  /// \threads  any; a hint
  std::size_t state_bytes() const noexcept { return state_bytes_.load(std::memory_order_relaxed); }

  /// From now on the first object of each span to be handed out is random; 0: the lowest.
  void set_seed(std::uint64_t seed) noexcept { seed_ = seed; }

  /// \returns  A span of the class with all objects free, of shard 0; nullptr when out of memory.
  Span* create(unsigned size_class, PageHeap::Pages which = PageHeap::Pages::kAny,
               PagePlace place = PagePlace(0)) noexcept;

  /// \pre  every object is back: free_count == object_count
  void destroy(Span& span, Was was = Was::kInUse) noexcept;

  /// Counts the span's holes as held again, before its objects are handed out.
  /// \returns  False if the limit forbids it.
  bool fill_holes(Span& span) noexcept { return span.hole_bytes == 0 || take_back_holes(span); }

  /// Whether objects can be homeward: only if free relies on the page map alone.
  bool has_homeward() const noexcept { return use_ == Use::kSmall && !keeps_records_; }
  /// Sends objects freed from the span to the bin of homeward objects, or to that of their class.
  /// \threads  Under the lock of the span's list. A thread that frees meanwhile may do either.
  void set_homeward(Span& span, bool is_homeward) noexcept {
    span.is_homeward = is_homeward;
    map_.set_class(span, is_homeward ? SizeClassMap::kHomeward : span.size_class);
  }

  /// As PageHeap's.
  std::size_t take_growth() noexcept { return page_heap_.take_growth(); }
  std::size_t growth_bytes() const noexcept { return page_heap_.growth_bytes(); }
  std::size_t used_bytes() const noexcept { return page_heap_.used_pages() * kPageBytes; }
  /// Bytes in holes of all spans.
  /// \threads  any; a hint
  std::size_t hole_bytes() const noexcept { return hole_bytes_.load(std::memory_order_relaxed); }
  /// Bytes, since the start, of holes made for growth and filled again.
  std::size_t refilled_bytes() const noexcept {
    return refilled_bytes_.load(std::memory_order_relaxed);
  }
  /// Bytes decommitted as holes since the start.
  std::size_t decommitted_bytes() const noexcept {
    return decommitted_bytes_.load(std::memory_order_relaxed);
  }

  const PageMap& map() const noexcept { return map_; }
  void die_if_of_another_heap(const char* action, const void* p) const noexcept {
    strata::die_if_of_another_heap(map_, action, p, page_heap_.number());
  }
  /// Span::use of the spans of a class.
  constexpr std::uint32_t use_of(unsigned size_class) const noexcept {
    return span_use(page_heap_.number(), size_class, use_ == Use::kWatched);
  }
  /// Whether this made the span of its page heap. The page map says so, too, except in the child of
  /// a fork for a span that was just being made or destroyed.
  bool owns(const Span& span) const noexcept { return span.use == use_of(span.size_class); }

 private:
  // Chosen: holes split the huge page that they lie in, so a span's have to be worth that.
  static constexpr std::size_t kLeastHolesInHugePage = kPageBytes / 8;

  bool begin(Span& span, unsigned size_class) noexcept;
  std::uint32_t choose_first(const Span& span) noexcept;
  friend class HoleBatch;
  bool is_worth_holes(const Span& span, std::size_t bytes) const noexcept;
  /// Called before holes of the span are decommitted.
  void prepare_holes(const Span& span) noexcept { page_heap_.split_region_of(span); }
  std::size_t open_holes(Span& span, std::size_t bytes) noexcept;
  bool close_holes(Span& span, Was was) noexcept;
  [[gnu::cold]] bool take_back_holes(Span& span) noexcept;
  /// A piece of a span's bookkeeping; nullptr: none.
  struct Part {
    void* memory = nullptr;
    std::size_t bytes = 0;
  };
  bool give_bitmap(Span& span) noexcept;
  bool give_records(Span& span) noexcept;
  bool give_states(Span& span) noexcept;
  Part take_states(Span& span) noexcept;
  void give_up(Span& span, bool is_clean, Was was) noexcept;
  bool keeps_states() const noexcept { return keeps_states_.load(std::memory_order_acquire); }
  bool has_records() const noexcept { return use_ == Use::kWatched || keeps_records_; }
  void forget_holes(Span& span) noexcept {
    hole_bytes_.fetch_sub(span.hole_bytes, std::memory_order_relaxed);
    span.hole_bytes = 0;
    span.hole_bytes_for_growth = 0;
  }

  PageMap& map_;
  PageHeap& page_heap_;
  MetadataArena& metadata_;
  os::PageSource& pages_;
  const Use use_;
  bool keeps_records_ = false;
  bool has_state_places_ = false;  // each span has a place, if only nowhere()
  // A span made during the change may go either way. release after it is written that frees are no
  // longer verified, acquire before a span goes without states: a thread that finds an object
  // without one sees that, too.
  std::atomic<bool> keeps_states_{false};
  std::uint64_t seed_ = 0;
  std::atomic<std::uint64_t> draws_{0};  // relaxed: two spans may share a draw
  // relaxed, all: sums that guard nothing.
  std::atomic<std::size_t> hole_bytes_{0};
  std::atomic<std::size_t> refilled_bytes_{0};
  std::atomic<std::size_t> decommitted_bytes_{0};
  std::atomic<std::size_t> state_bytes_{0};
};

}  // namespace strata
