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

/// Pages a span of the class has: one if that is room for kMinObjects objects; otherwise as few as
/// are room for them and leave a tail below 1/kTailShare of the span.
constexpr unsigned span_pages_of(unsigned size_class) noexcept {
  // Chosen: fewer objects would make the page heap the common path, more would keep large spans
  // alive for one of them. A span takes half a region at the most.
  constexpr std::size_t kMinObjects = 8;
  constexpr std::size_t kMostMinBytes = kRegionBytes / 2;
  // Chosen: a page or two more than kMinObjects need is room for a whole number of objects.
  constexpr std::size_t kTailShare = 32;
  const std::size_t bytes = SizeClassMap::bytes_of(size_class);
  if (kMinObjects * bytes <= kPageBytes) return 1;
  const std::size_t objects = kMinObjects * bytes <= kMostMinBytes ? kMinObjects : kMinObjects / 2;
  std::size_t pages = (objects * bytes + kPageBytes - 1) / kPageBytes;
  while (pages * kPageBytes % bytes > pages * kPageBytes / kTailShare) ++pages;
  return static_cast<unsigned>(pages);
}
/// The classes below this one, class 0 included, have spans of one page.
inline constexpr unsigned kOnePageClasses = [] {
  unsigned c = 1;
  while (c < SizeClassMap::kCount && span_pages_of(c) == 1) ++c;
  return c;
}();

/// Tells, for spans of one page and without a look at the span, where objects start.
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
  /// The product of a multiple and the reciprocal, modulo 2^32, is smaller than the reciprocal, and
  /// no other number's is.
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

/// Makes spans of small objects from pages: the seam between pages and objects.
/// \threads  Any number at once.
class SpanSource {
 public:
  enum class Use : bool { kSmall, kWatched };

  constexpr SpanSource(PageMap& map, PageHeap& page_heap, MetadataArena& metadata,
                       os::PageSource& pages, Use use = Use::kSmall) noexcept
      : map_(map), page_heap_(page_heap), metadata_(metadata), pages_(pages), use_(use) {}

  /// From now on small objects have records, too, for full checks, and holes stay committed: what a
  /// record says of an object's contents stays true. Before the first span.
  void keep_records() noexcept { keeps_records_ = true; }
  /// From now on spans of small objects have states (ObjectStates), or ObjectStates::nowhere()
  /// instead once they had. What was made before stays as it is.
  /// \pre  to begin with: no span was made so far
  void keep_states(bool keeps) noexcept {
    if (keeps) has_state_places_ = true;
    keeps_states_.store(keeps, std::memory_order_release);
  }

  /// Bytes of all states.
  /// \threads  any; a hint
  std::size_t state_bytes() const noexcept { return state_bytes_.load(std::memory_order_relaxed); }

  /// From now on chance decides which object of a span is handed out first; 0: the lowest.
  void set_seed(std::uint64_t seed) noexcept { seed_ = seed; }

  /// \returns  A span of the class with every object in it, of shard 0; nullptr when out of memory.
  Span* create(unsigned size_class, PageHeap::Pages which = PageHeap::Pages::kAny,
               PagePlace place = PagePlace(0)) noexcept;

  /// \pre  every object is back: free_count == object_count
  void destroy(Span& span, Was was = Was::kInUse) noexcept;

  /// Objects of the span are about to be handed out: its holes are held again.
  /// \returns  False if the limit forbids it.
  bool fill_holes(Span& span) noexcept { return span.hole_bytes == 0 || take_back_holes(span); }

  /// Whether objects can be homeward: where free goes by the page map alone.
  bool has_homeward() const noexcept { return use_ == Use::kSmall && !keeps_records_; }
  /// From now on what is freed of the span goes to the bin of homeward objects, or to that of its
  /// class.
  /// \threads  Under the lock of the span's list. A thread that frees meanwhile does either.
  void set_homeward(Span& span, bool is_homeward) noexcept {
    span.is_homeward = is_homeward;
    map_.set_class(span, is_homeward ? SizeClassMap::kHomeward : span.size_class);
  }

  /// As PageHeap's.
  std::size_t take_growth() noexcept { return page_heap_.take_growth(); }
  std::size_t growth_bytes() const noexcept { return page_heap_.growth_bytes(); }
  /// Bytes of all pages in use.
  std::size_t used_bytes() const noexcept { return page_heap_.used_pages() * kPageBytes; }
  /// Bytes in holes of all spans.
  /// \threads  any; a hint
  std::size_t hole_bytes() const noexcept { return hole_bytes_.load(std::memory_order_relaxed); }
  /// Bytes, since the start, of holes that were made for growth and filled again.
  std::size_t refilled_bytes() const noexcept {
    return refilled_bytes_.load(std::memory_order_relaxed);
  }
  /// Bytes decommitted as holes since the start.
  std::size_t decommitted_bytes() const noexcept {
    return decommitted_bytes_.load(std::memory_order_relaxed);
  }

  const PageMap& map() const noexcept { return map_; }
  /// Dies with a sentence if `p` is another heap's.
  void die_if_of_another_heap(const char* action, const void* p) const noexcept {
    strata::die_if_of_another_heap(map_, action, p, page_heap_.number());
  }
  /// What the spans of a class say that they are used for.
  constexpr std::uint32_t use_of(unsigned size_class) const noexcept {
    return span_use(page_heap_.number(), size_class, use_ == Use::kWatched);
  }
  /// Whether a span of its page heap is one of these. So says the page map, too, but in the child
  /// of a fork not of one that was just being made or destroyed.
  bool owns(const Span& span) const noexcept { return span.use == use_of(span.size_class); }

 private:
  // Chosen: holes split the huge page they lie in, so those of a span have to be worth that.
  static constexpr std::size_t kLeastHolesInHugePage = kPageBytes / 8;

  bool begin(Span& span, unsigned size_class) noexcept;
  std::uint32_t choose_first(const Span& span) noexcept;
  friend class HoleBatch;
  bool prepare_holes(const Span& span, std::size_t bytes) noexcept;
  std::size_t open_holes(Span& span, std::size_t bytes) noexcept;
  bool close_holes(Span& span, Was was) noexcept;
  [[gnu::cold]] bool take_back_holes(Span& span) noexcept;
  /// Of the bookkeeping; nullptr: none.
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
  // A span made meanwhile may go either way. release after it is written that frees are verified no
  // more, acquire before a span has no states: who finds an object without one sees that, too.
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
