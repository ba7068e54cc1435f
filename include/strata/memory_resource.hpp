#pragma once

#include <strata/allocator.hpp>
#include <strata/detail/bits.hpp>
#include <strata/detail/hints.hpp>
#include <strata/detail/refuse.hpp>
#include <strata/page_arena.hpp>

#include <cstddef>
#include <cstring>
#include <memory_resource>

namespace strata {

/// A std::pmr resource over a source (defined in strata/allocator.hpp), by default the malloc (link
/// strata::malloc). A request that is too large or too aligned for the source, or finds it
/// exhausted, goes to `upstream`, which by default throws std::bad_alloc. The malloc has no
/// upstream: it takes every address for its own.
///
/// Source and upstream must outlive the resource, and the resource its containers.
/// \threads  As the source, and as the upstream.
/// \cost     The source's, and a virtual call.
template <typename Source = Malloc>
class MemoryResource final : public std::pmr::memory_resource {
 public:
  /// Only for a stateless source.
  template <typename S = Source, typename = std::enable_if_t<std::is_empty_v<S>>>
  MemoryResource() noexcept {}
  explicit MemoryResource(Source& source) noexcept : source_(source) {}
  /// Only for a source that knows its own addresses.
  template <typename S = Source, typename = std::enable_if_t<detail::kKnowsItsOwn<S>>>
  MemoryResource(Source& source, std::pmr::memory_resource* upstream) noexcept
      : source_(source), upstream_(upstream) {}
  MemoryResource(const MemoryResource&) = delete;
  MemoryResource& operator=(const MemoryResource&) = delete;

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    void* p = source_.get().try_allocate(bytes, alignment);
    if (p != nullptr) return p;
    return (upstream_ != nullptr ? upstream_ : std::pmr::null_memory_resource())
        ->allocate(bytes, alignment);
  }
  void do_deallocate(void* p, std::size_t bytes, std::size_t alignment) override {
    if constexpr (detail::kKnowsItsOwn<Source>) {
      if (upstream_ != nullptr && !source_.get().owns(p))
        return upstream_->deallocate(p, bytes, alignment);
    }
    detail::give_back(source_.get(), p);
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    if (this == &other) return true;
    if (!is_of_this_class(other)) return false;
    // Two resources over one source can free each other's memory if they share the upstream too.
    const auto& same = static_cast<const MemoryResource&>(other);
    if (!source_.is_same_as(same.source_)) return false;
    if (upstream_ == nullptr || same.upstream_ == nullptr) return upstream_ == same.upstream_;
    return *upstream_ == *same.upstream_;
  }

  // Compares the pointers to the virtual tables, with which objects begin: files compiled without
  // RTTI have no type information. A library's own copy of the table is another class.
  bool is_of_this_class(const std::pmr::memory_resource& other) const noexcept {
    const void* own_table;
    const void* other_table;
    std::memcpy(&own_table, static_cast<const void*>(this), sizeof own_table);
    std::memcpy(&other_table, static_cast<const void*>(&other), sizeof other_table);
    return own_table == other_table;
  }

  detail::bases::SourceHandle<Source> source_;
  std::pmr::memory_resource* upstream_ = nullptr;  // nullptr: all blocks are the source's
};

/// Over a PageArena: serves any size in order and frees nothing before reset(). A request may span
/// pages that are adjacent. If the arena has no room, the request goes to `upstream`, if any.
///
/// Arena and upstream must outlive the resource, and the resource its containers. Do not reset the
/// arena itself: the resource would go on using pages that then belong to others.
/// \threads  One at a time.
template <>
class MemoryResource<PageArena> final : public std::pmr::memory_resource {
 public:
  explicit MemoryResource(PageArena& arena, std::pmr::memory_resource* upstream = nullptr) noexcept
      : arena_(arena),
        upstream_(upstream != nullptr ? upstream : std::pmr::null_memory_resource()) {}
  MemoryResource(const MemoryResource&) = delete;
  MemoryResource& operator=(const MemoryResource&) = delete;

  /// Resets the arena. This frees everything in its pages, including what others allocated there;
  /// nobody may use it any more. Memory from upstream stays.
  void reset() noexcept {
    next_ = end_ = 0;
    arena_.reset();
  }

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    // Loops twice at most: pages that do not adjoin the rest replace it, and the next ones adjoin
    // them.
    do {
      if (void* p = cut(bytes, alignment)) return p;
    } while (add_pages(bytes, alignment));
    return upstream_->allocate(bytes, alignment);
  }
  void do_deallocate(void* p, std::size_t bytes, std::size_t alignment) override {
    if (!arena_.owns(p)) upstream_->deallocate(p, bytes, alignment);
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }

  void* cut(std::size_t bytes, std::size_t alignment) noexcept {
    // No address is in the upper half, so rounding one up to a power of two cannot overflow.
    const std::size_t start = detail::round_up(next_, alignment);
    const std::size_t taken = bytes_taken(bytes);
    if (start > end_ || taken > end_ - start) return nullptr;
    next_ = start + taken;
    return reinterpret_cast<void*>(start);  // NOLINT: addresses are what is rounded here
  }

  // Takes the pages that the request needs beyond the rest. They become the new rest, together with
  // the old one if they adjoin it.
  bool add_pages(std::size_t bytes, std::size_t alignment) noexcept {
    const std::size_t start = detail::round_up(next_, alignment);
    const std::size_t taken = bytes_taken(bytes);
    if (taken > static_cast<std::size_t>(-1) - start) return false;
    const std::size_t page = arena_.page_size();
    const std::size_t count = detail::divide_rounding_up(start + taken - end_, page);
    void* pages = arena_.allocate_pages(count);
    if (pages == nullptr) return false;
    if (detail::address_of(pages) != end_) next_ = detail::address_of(pages);
    end_ = detail::address_of(pages) + count * page;
    return true;
  }

  // Each request gets a distinct address.
  static constexpr std::size_t bytes_taken(std::size_t bytes) noexcept {
    return bytes == 0 ? 1 : bytes;
  }

  PageArena& arena_;
  std::pmr::memory_resource* upstream_;
  std::size_t next_ = 0;  // where the unused rest of the latest pages begins
  std::size_t end_ = 0;
};

/// The malloc as a resource that lives for ever: std::pmr::set_default_resource(malloc_resource()).
/// A template, so that a program needs the malloc only if it calls it: GCC 16 takes each class that
/// it knows for one that a call of std::pmr might lead to.
template <typename Source = Malloc>
std::pmr::memory_resource* malloc_resource() noexcept {
  // Never destroyed: containers in static storage may free after every destructor has run.
  alignas(MemoryResource<Source>) static unsigned char storage[sizeof(MemoryResource<Source>)];
  static auto* resource = ::new (static_cast<void*>(storage)) MemoryResource<Source>();
  return resource;
}

}  // namespace strata
