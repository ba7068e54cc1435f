// realloc beyond the hot path: in place where possible, otherwise by a copy.

#include <algorithm>
#include <bit>
#include <cstring>

#include "malloc/malloc_instance.h"
#include "os/errors.h"

namespace strata {
namespace {

// Chosen: what a block that grows in small steps gets beyond its size, as a share of it, if the
// thread has such an object at hand. It moves half as often, and no measured program took more
// memory by 1%.
constexpr std::size_t kHeadroomShare = 4;

// Chosen: from this size on a growing block passes two classes per doubling instead of eight. Each
// class has touched as many objects as were ever in it at once (docs/decisions/0003).
constexpr std::size_t kFewClassesFromBytes = 1024;

/// Whether its pages hold a block of that many bytes as tightly as an object of its size class.
bool fills_pages(std::size_t bytes) noexcept {
  const std::size_t size_class = SizeClassMap::class_of(bytes);
  return size_class == 0 ||
         SizeClassMap::bytes_of(size_class) >= detail::round_up(bytes, kPageBytes);
}

/// The next power of two, or five eighths of it: no object is less than half full by so little that
/// the next smaller size moves it back.
std::size_t of_few_classes(std::size_t bytes) noexcept {
  const std::size_t whole = std::bit_ceil(bytes);
  const std::size_t smaller = whole / 8 * 5;
  return bytes <= smaller ? smaller : whole;
}

/// The size to request for a block that moves. One that was moved just before grows step by step:
/// it gets some room for that, if that is at hand.
/// \pre  bytes <= Engine::kPagesForGrownFrom
std::size_t with_headroom(const ThreadState& thread, const void* p, std::size_t old_bytes,
                          std::size_t bytes) noexcept {
  if (p != thread.moved || bytes <= old_bytes) return bytes;
  return std::clamp(old_bytes + old_bytes / kHeadroomShare, bytes, Engine::kPagesForGrownFrom);
}

void* pop_to_move(ThreadState& thread, const void* p, std::size_t old_bytes,
                  std::size_t bytes) noexcept {
  if (bytes > Engine::kPagesForGrownFrom) return nullptr;
  const std::size_t wanted = with_headroom(thread, p, old_bytes, bytes);
  if (void* const object = HotPath::pop(thread, wanted)) return object;
  return FreeObject(HotPath::pop_beyond_table(thread, wanted)).address();
}

}  // namespace

/// First the block that keeps its pages, without a stack frame: it often does so for many steps.
void* MallocInstance::reallocate_slowly(ThreadState& thread, void* p, std::size_t bytes) noexcept {
  if (p == nullptr) return allocate(thread, bytes);
  const bool is_seen = has_full_checks() || detour_.has_watchers();
  if (!is_seen && engine_.fits_its_pages(p, bytes)) return p;
  return resize_or_move(thread, p, bytes);
}

[[gnu::noinline]] void* MallocInstance::resize_or_move(ThreadState& thread, void* p,
                                                       std::size_t bytes) noexcept {
  const bool is_seen = has_full_checks() || detour_.has_watchers();
  if (!is_seen && engine_.resize_on_its_pages(p, bytes)) return p;
  if (must_not_wait()) {
    if (!is_known_without_lock(p)) {
      os::set_errno_no_memory();
      return nullptr;
    }
  } else if (!is_seen && engine_.resize_in_mapping(p, bytes)) {
    return p;
  }
  if (verifies_frees() && --thread.frees_left < 0) count_verified(thread);
  const std::size_t old_bytes = usable_bytes(p, "realloc");
  if (bytes == 0) return move(thread, 0, p, old_bytes, 0);
  const auto size_class = static_cast<unsigned>(engine_.class_of(p));
  if (spare_.owns(p)) {
    if (bytes <= old_bytes) return p;
  } else if (size_class == 0 && !shrinks_to_object(old_bytes, bytes)) {
    if (void* resized = resize_large(thread, p, bytes)) {
      after_slow_path(thread);
      return resized;
    }
  } else if (!is_checked() && Engine::stays_in_place(old_bytes, bytes)) {
    return p;
  }
  return move(thread, size_class, p, old_bytes, bytes);
}

/// Whether a block that shrinks is copied to an object: in a large heap, if it might have been an
/// object before, leaves more than half of its pages, and does not fill the others. Longer blocks
/// stay, since those that grow again must not be copied to and fro.
bool MallocInstance::shrinks_to_object(std::size_t old_bytes, std::size_t bytes) noexcept {
  return bytes < old_bytes / 2 && old_bytes <= SizeClassMap::kMaxBytes && !fills_pages(bytes) &&
         !engine_.page_heap().is_small();
}

/// Moves the contents to a new block and frees the old one; `size_class` is the page map's.
/// \returns  nullptr if there is none, and the old one stays; or if 0 bytes were asked for
void* MallocInstance::move(ThreadState& thread, unsigned size_class, void* p, std::size_t old_bytes,
                           std::size_t bytes) noexcept {
  if (bytes == 0) [[unlikely]] {
    deallocate(thread, p);
    return nullptr;
  }
  void* moved = nullptr;
  if (bytes > kFewClassesFromBytes && bytes > old_bytes && is_started()) [[unlikely]]
    moved = allocate_grown(thread, bytes);
  if (moved == nullptr) moved = pop_to_move(thread, p, old_bytes, bytes);
  if (moved == nullptr && verifies_frees())
    moved = pop_verified_to_move(thread, p, old_bytes, bytes);
  if (moved == nullptr) [[unlikely]] {
    const int error = bytes > old_bytes ? 0 : os::current_errno();
    moved = allocate(thread, bytes);
    if (moved == nullptr) {
      // Shrinking is not refused: the block stays as it is, unless its size or its class is
      // compared later.
      const bool is_compared = size_class != 0 && options_.compares_frees();
      if (bytes > old_bytes || is_compared || is_checked() || guards_.owns(p)) return nullptr;
      os::set_errno(error);
      return p;
    }
  }
  thread.moved = moved;
  std::memcpy(moved, p, bytes < old_bytes ? bytes : old_bytes);
  if (!thread.free_bins->push(size_class, p) &&
      !HotPath::push_verified(thread, engine_.map(), p, {}))
    deallocate_slowly(thread, p, {});
  return moved;
}

/// As pop_to_move(), where frees are verified. Separate, since it needs a stack.
[[gnu::noinline]] void* MallocInstance::pop_verified_to_move(ThreadState& thread, const void* p,
                                                             std::size_t old_bytes,
                                                             std::size_t bytes) noexcept {
  if (bytes > Engine::kPagesForGrownFrom) return nullptr;
  return pop_looked_at(thread, with_headroom(thread, p, old_bytes, bytes));
}

/// Finds a new place for a growing block, which usually goes on growing. It therefore gets an
/// object of a few classes or, from some size on, pages of its own, into which it can grow and
/// which fit any other use afterwards. Otherwise each step would leave an object that only a block
/// of its size can use.
/// \returns  nullptr: serve it like any other
void* MallocInstance::allocate_grown(ThreadState& thread, std::size_t bytes) noexcept {
  // What it does not touch of pages of its own takes no memory in a small heap, but in a large one.
  const bool grows_apart =
      engine_.page_heap().is_small() || (bytes > kPageBytes && fills_pages(bytes));
  // Others decide there where it lies, or count it by its size class.
  if (!grows_apart || bytes > Engine::kMaxBytes || detour_.is_on() || thread.is_in_window ||
      is_checked() || must_not_wait()) {
    return nullptr;
  }
  if (bytes <= Engine::kPagesForGrownFrom) return allocate(thread, of_few_classes(bytes));
  const bool is_chosen = is_block_chosen(thread, bytes);
  void* const moved = is_chosen ? nullptr : engine_.allocate_to_grow(bytes, thread.pages);
  if (moved == nullptr)
    return serve_large(thread, {bytes, SizeClassMap::kGrain}, is_chosen).address;
  count_towards_window(thread);
  after_slow_path(thread);
  return moved;
}

/// Resizes a block in no size class of the page map, without copying.
/// \returns  nullptr if it has to be moved.
void* MallocInstance::resize_large(ThreadState& thread, void* p, std::size_t bytes) noexcept {
  if (guards_.owns(p) || empties_.owns(p) || is_checked()) return nullptr;
  if (!detour_.has_watchers()) return engine_.resize_large(p, bytes);
  if (engine_.record_of(p) != nullptr) {
    void* const resized = engine_.resize_large(p, bytes);
    if (resized != nullptr) profiler_.resize(p, bytes);
    return resized;
  }
  // To a profile a block that is resized is freed and allocated again, even in place.
  const Profiler::LargeBlock known = profiler_.set_aside(p);
  void* const resized = engine_.resize_large(p, bytes);
  if (resized == nullptr) {
    profiler_.put_back(p, known);
    return nullptr;
  }
  profiler_.let_go(known);
  if (detour_.is_on() && thread.count_down(Detour::counted(0, bytes)))
    detour_.adopt(thread, resized, bytes);
  return resized;
}

bool MallocInstance::resize_in_place(void* p, std::size_t bytes) noexcept {
  if (must_not_wait()) return false;
  const std::size_t old_bytes = usable_bytes(p, "realloc");
  if (spare_.owns(p)) return bytes <= old_bytes;
  if (is_checked() || guards_.owns(p) || empties_.owns(p)) return bytes == old_bytes;
  const bool is_large = engine_.class_of(p) == 0 && !detour_.has_watchers();
  if (bytes <= old_bytes) {
    if (is_large && engine_.resize_large(p, bytes) != nullptr) {
      keep_to_soft_limit();
      scavenger_.notice();
    }
    // Verified frees compare the size that a caller says with the object's.
    return is_large || !verifies_frees() || Engine::stays_in_place(old_bytes, bytes);
  }
  return is_large && !engine_.is_huge(p) && engine_.resize_large(p, bytes) == p;
}

}  // namespace strata
