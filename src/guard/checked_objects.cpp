#include "guard/checked_objects.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <string_view>

#include "base/fatal.h"
#include "base/random.h"
#include "guard/pattern.h"

namespace strata {
namespace {

enum class State : std::uint64_t { kUnused, kLive, kQuarantined, kFree };

/// The record of one object, a word of its span's records.
///   bits 0-1 state · 2-19 bytes asked for · 20-24 log2 of the alignment, +1 · 25 by aligned new
///   26 kUnused, with its edges filled · 27-28 by malloc, new or new[]
class Record {
 public:
  Record(State state, const Allocation& allocation) noexcept
      : word_(static_cast<std::uint64_t>(state) |
              static_cast<std::uint64_t>(allocation.bytes) << kBytesShift |
              static_cast<std::uint64_t>(std::bit_width(allocation.alignment)) << kAlignmentShift |
              (allocation.by_aligned_new ? 1u : 0u) << kAlignedNewShift |
              static_cast<std::uint64_t>(allocation.by) << kByShift) {}
  explicit Record(std::uint64_t word) noexcept : word_(word) {}

  std::uint64_t word() const noexcept { return word_; }
  State state() const noexcept { return static_cast<State>(word_ % 4); }
  Record with(State state) const noexcept {
    return Record((word_ & ~std::uint64_t{3}) | static_cast<std::uint64_t>(state));
  }
  std::size_t bytes() const noexcept {
    return (word_ >> kBytesShift) % (1u << (kAlignmentShift - kBytesShift));
  }
  static Record unused_with_edges() noexcept { return Record(std::uint64_t{1} << kEdgesShift); }
  bool has_edges() const noexcept {
    return state() == State::kUnused && (word_ >> kEdgesShift & 1) != 0;
  }
  /// Filled with the pattern: no write to it is legal.
  bool is_filled() const noexcept {
    return state() == State::kQuarantined || state() == State::kFree;
  }
  Allocation allocation() const noexcept {
    const unsigned width =
        (word_ >> kAlignmentShift) % (1u << (kAlignedNewShift - kAlignmentShift));
    return {bytes(), width == 0 ? 0 : std::size_t{1} << (width - 1),
            (word_ >> kAlignedNewShift & 1) != 0,
            static_cast<Allocation::By>(word_ >> kByShift & 3)};
  }

 private:
  static constexpr unsigned kBytesShift = 2;
  static constexpr unsigned kAlignmentShift = 20;
  static constexpr unsigned kAlignedNewShift = 25;
  static constexpr unsigned kEdgesShift = 26;
  static constexpr unsigned kByShift = 27;
  static_assert(SizeClassMap::kMaxBytes >> (kAlignmentShift - kBytesShift) == 0,
                "the largest small size fits its bits");
  static_assert(std::bit_width(SizeClassMap::kMaxAlignment) < 32,
                "the largest alignment fits its five bits");

  std::uint64_t word_;
};

Record record_of(const Span& span, std::uint32_t index) noexcept {
  return Record(span.records[index]);
}
void set_record(const Span& span, std::uint32_t index, Record record) noexcept {
  span.records[index] = record.word();
}

// Chosen: what a loop that runs too far, or a header before an object, writes; all of a small
// object.
constexpr std::size_t kMostEdgeBytes = 64;
std::size_t edge_bytes_of(std::size_t object_bytes) noexcept {
  return std::min(object_bytes, kMostEdgeBytes);
}

void fill_edges(char* object, std::size_t object_bytes, unsigned char value) noexcept {
  const std::size_t edge = edge_bytes_of(object_bytes);
  std::memset(object, value, edge);
  std::memset(object + object_bytes - edge, value, edge);
}

void verify_freed(const char* object, Record record, std::size_t object_bytes) noexcept {
  const std::size_t change = find_change(object, object_bytes, kFreedByte);
  if (change != object_bytes)
    die_of_write("use after free", object, record.bytes(), static_cast<std::ptrdiff_t>(change));
}

/// Verifies what ends where the object begins. A change that begins at a live neighbour's own end
/// is the neighbour's overflow; one that begins before a freed neighbour's end is a write to that.
void verify_before(const char* object, Record record, Record neighbour,
                   std::size_t object_bytes) noexcept {
  const bool is_live = neighbour.state() == State::kLive;
  if (!is_live && !neighbour.is_filled() && !neighbour.has_edges()) return;
  const std::size_t watched =
      is_live ? object_bytes - neighbour.bytes() : edge_bytes_of(object_bytes);
  const std::size_t change =
      find_change(object - watched, watched, is_live ? kSlackByte : kFreedByte);
  if (change == watched) return;
  if (change == 0 && is_live)
    die_of_write("overflow", object - object_bytes, neighbour.bytes(),
                 static_cast<std::ptrdiff_t>(neighbour.bytes()));
  if (neighbour.is_filled() && object_bytes - watched + change < neighbour.bytes())
    verify_freed(object - object_bytes, neighbour, object_bytes);
  die_of_write("underflow", object, record.bytes(), -static_cast<std::ptrdiff_t>(watched - change));
}

/// Verifies what begins where the object ends, slack included. An overflow that spared the slack is
/// less likely than a write to a free object.
void verify_behind(const char* object, Record record, Record neighbour,
                   std::size_t object_bytes) noexcept {
  if (!neighbour.is_filled() && !neighbour.has_edges()) return;
  const std::size_t watched = edge_bytes_of(object_bytes);
  const std::size_t change = find_change(object + object_bytes, watched, kFreedByte);
  if (change == watched) return;
  if (neighbour.is_filled()) verify_freed(object + object_bytes, neighbour, object_bytes);
  die_of_write("overflow", object, record.bytes(),
               static_cast<std::ptrdiff_t>(object_bytes + change));
}

void verify_around(const Span& span, std::uint32_t index) noexcept {
  const char* const object = span.start + std::size_t{index} * span.object_bytes;
  const Record record = record_of(span, index);
  if (index != 0) verify_before(object, record, record_of(span, index - 1), span.object_bytes);
  if (index + 1 != span.object_count)
    verify_behind(object, record, record_of(span, index + 1), span.object_bytes);
}

/// Fills an object's edges, before anything lives beside it.
void watch_edges(const Span& span, std::uint32_t index) noexcept {
  if (index >= span.object_count || record_of(span, index).word() != 0) return;
  fill_edges(span.start + std::size_t{index} * span.object_bytes, span.object_bytes, kFreedByte);
  set_record(span, index, Record::unused_with_edges());
}

/// Verifies an object at the end of the process.
void verify_object(const Span& span, std::uint32_t index) noexcept {
  const char* const object = span.start + std::size_t{index} * span.object_bytes;
  const Record record = record_of(span, index);
  if (record.state() == State::kUnused) return;
  if (record.state() == State::kLive)
    verify_slack(object, record.bytes(), span.object_bytes - record.bytes());
  verify_around(span, index);
  if (record.is_filled()) verify_freed(object, record, span.object_bytes);
}

}  // namespace

constexpr std::size_t CheckedObjects::quarantine_capacity(unsigned size_class) noexcept {
  return std::clamp(kQuarantineBytes / SizeClassMap::bytes_of(size_class), kMinQuarantined,
                    kMaxQuarantined);
}

constexpr std::size_t CheckedObjects::most_quarantined_bytes() noexcept {
  std::size_t bytes = 0;
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c)
    bytes += quarantine_capacity(c) * SizeClassMap::bytes_of(c);
  return bytes;
}

bool CheckedObjects::start(std::uint64_t seed) noexcept {
  seed_ = seed;
  if (classes_ != nullptr) return true;
  void* const memory = metadata_.allocate_forever(sizeof(Class) * SizeClassMap::kCount);
  if (memory == nullptr) return false;
  classes_ = static_cast<Class*>(memory);
  for (unsigned c = 0; c < SizeClassMap::kCount; ++c) new (&classes_[c]) Class;
  return true;
}

void* CheckedObjects::allocate(unsigned size_class, const Allocation& allocation) noexcept {
  static_assert(most_quarantined_bytes() < 10 << 20, "all quarantines together stay below 10 MiB");
  const std::size_t object_bytes = SizeClassMap::bytes_of(size_class);
  STRATA_DCHECK(allocation.bytes + kLeastSlack <= object_bytes);
  Class& of_class = classes_[size_class];
  LockGuard guard(of_class.lock);
  void* const claimed = central_.claim_at_random(size_class, draw(of_class, size_class));
  auto* const object = static_cast<char*>(FreeObject(claimed).address());
  if (object == nullptr) return nullptr;
  const Span& span = *map_.span_of(object);
  const std::uint32_t index = span.index_of(object);
  const Record before = record_of(span, index);
  if (before.state() == State::kFree) verify_freed(object, before, object_bytes);
  // Its edges were another object's surroundings. Zero is what they were in fresh memory.
  if (before.has_edges()) fill_edges(object, object_bytes, 0);
  watch_edges(span, index - 1);
  watch_edges(span, index + 1);
  set_record(span, index, Record(State::kLive, allocation));
  std::memset(object + allocation.bytes, kSlackByte, object_bytes - allocation.bytes);
  return claimed;
}

void CheckedObjects::deallocate(unsigned size_class, void* p, const FreeCall& call) noexcept {
  const std::size_t object_bytes = SizeClassMap::bytes_of(size_class);
  Class& of_class = classes_[size_class];
  LockGuard guard(of_class.lock);
  const auto [span, index] = find_live(size_class, p, "free");
  const Record record = record_of(*span, index);
  TextWriter sentence;
  if (contradicts(call, record.allocation(), p, sentence)) fatal_about(p, sentence.view());
  auto* const object = static_cast<char*>(p);
  verify_slack(object, record.bytes(), object_bytes - record.bytes());
  verify_around(*span, index);
  std::memset(object, kFreedByte, object_bytes);
  set_record(*span, index, record.with(State::kQuarantined));
  put_into_quarantine(of_class, size_class, p);
}

std::size_t CheckedObjects::requested_bytes(unsigned size_class, const void* p,
                                            const char* action) noexcept {
  LockGuard guard(classes_[size_class].lock);
  const auto [span, index] = find_live(size_class, p, action);
  return record_of(*span, index).bytes();
}

bool CheckedObjects::flush_quarantine() noexcept {
  bool had_any = false;
  for (unsigned c = 1; c < classes().size(); ++c) {
    Class& of_class = classes_[c];
    LockGuard guard(of_class.lock);
    while (of_class.count != 0) {
      release_oldest(of_class, c, quarantine_capacity(c));
      had_any = true;
    }
  }
  return had_any;
}

void CheckedObjects::forget_objects() noexcept {
  for (Class& each : classes()) {
    LockGuard guard(each.lock);
    each.oldest = each.count = 0;
  }
}

void CheckedObjects::verify_all(PageHeap& pages) noexcept STRATA_NO_THREAD_SAFETY_ANALYSIS {
  for (Class& of_class : classes()) of_class.lock.lock();
  pages.for_each_span([this](const Span& span) {
    // What a profile watches has records of its own, and is in no class.
    if (span.records == nullptr || map_.class_of(span.start) == 0) return;
    for (std::uint32_t index = 0; index != span.object_count; ++index) verify_object(span, index);
  });
  for (Class& of_class : classes()) of_class.lock.unlock();
}

std::size_t CheckedObjects::quarantined_objects(unsigned size_class) noexcept {
  if (classes_ == nullptr) return 0;
  LockGuard guard(classes_[size_class].lock);
  return classes_[size_class].count;
}

/// Finds the live object that starts at `p`. Spans of the class come and go only under its lock.
CheckedObjects::Place CheckedObjects::find_live(unsigned size_class, const void* p,
                                                const char* action) const noexcept {
  Span* const span = map_.span_of(p);
  if (span == nullptr || span->size_class != size_class)
    fatal_call(action, p, ": it was freed before, or never allocated");
  const std::uint32_t index = span->index_of(p);
  if (index == span->object_count)
    fatal_call(action, p, ": it points into an object, not at its start");
  if (record_of(*span, index).state() == State::kLive) return {span, index};
  fatal_call(
      action, p,
      std::string_view(action) == "free" ? ": the object is free already" : ": the object is free",
      true);
}

/// The next random word of the class.
std::uint64_t CheckedObjects::draw(Class& of_class, unsigned size_class) noexcept {
  return random_word(seed_ + size_class, of_class.draws++);
}

void CheckedObjects::put_into_quarantine(Class& of_class, unsigned size_class, void* p) noexcept {
  const std::size_t capacity = quarantine_capacity(size_class);
  if (of_class.waiting == nullptr) {
    of_class.waiting = static_cast<void**>(metadata_.allocate(capacity * sizeof(void*)));
    if (of_class.waiting == nullptr) return release(size_class, p);
  }
  if (of_class.count == capacity) release_oldest(of_class, size_class, capacity);
  const std::size_t end = of_class.oldest + of_class.count++;
  of_class.waiting[end % capacity] = p;
}

void CheckedObjects::release_oldest(Class& of_class, unsigned size_class,
                                    std::size_t capacity) noexcept {
  const std::uint32_t oldest = of_class.oldest;
  void* const p = of_class.waiting[oldest];
  of_class.oldest = static_cast<std::uint32_t>((oldest + 1) % capacity);
  --of_class.count;
  release(size_class, p);
}

void CheckedObjects::release(unsigned size_class, void* p) noexcept {
  const Span& span = *map_.span_of(p);
  const std::uint32_t index = span.index_of(p);
  const Record record = record_of(span, index);
  verify_freed(static_cast<const char*>(p), record, SizeClassMap::bytes_of(size_class));
  set_record(span, index, record.with(State::kFree));
  central_.release_to_spans(size_class, &p, 1);
}

void CheckedObjects::hold_locks_for_fork() noexcept {
  for (Class& of_class : classes()) LocksInFork::hold(of_class.lock);
}

}  // namespace strata
