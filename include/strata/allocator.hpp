#pragma once

#include <strata/detail/misuse.hpp>
#include <strata/detail/refuse.hpp>
#include <strata/malloc_source.hpp>

#include <cstddef>
#include <limits>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

/// \file  The allocator of the standard containers and std::unique_ptr over any source.
///
/// Malloc, Heap, BlockAllocator, GrowingBlockAllocator, SizeClassAllocator, BitmapPool and its
/// views, CoalescingHeap and ThreadHeaps are sources, and so is any type with these:
///   void* try_allocate(std::size_t bytes, std::size_t alignment) noexcept;  // nullptr: refused
///   void deallocate(void* p) noexcept;          // or bool: false if nothing was freed
///   bool owns(const void* p) const noexcept;    // for a MemoryResource with an upstream
///   static std::size_t good_size(std::size_t bytes) noexcept;  // optional

namespace strata {

/// What Allocator::allocate_at_least() returns: the standard's type if the library has it.
#if defined(__cpp_lib_allocate_at_least)
template <typename Pointer>
using AllocationResult = std::allocation_result<Pointer>;
#else
template <typename Pointer>
struct AllocationResult {
  Pointer ptr;
  std::size_t count;
};
#endif

namespace detail {

/// Frees a block. If the pool refuses it, the program ends, since containers ignore the result.
template <typename Source>
void give_back(Source&& source, void* p) noexcept {
  if constexpr (std::is_void_v<decltype(source.deallocate(p))>) {
    source.deallocate(p);
  } else {
    if (!source.deallocate(p)) misuse("free of ", p, ": it is no taken block of its pool");
  }
}

/// True if the source can tell its own memory from foreign memory.
template <typename Source, typename = void>
inline constexpr bool kKnowsItsOwn = false;
template <typename Source>
inline constexpr bool
    kKnowsItsOwn<Source, std::void_t<decltype(std::declval<const Source&>().owns(nullptr))>> = true;

/// True if the source knows the usable size of a request without allocating.
template <typename Source, typename = void>
inline constexpr bool kKnowsGoodSizes = false;
template <typename Source>
inline constexpr bool kKnowsGoodSizes<Source, std::void_t<decltype(Source::good_size(1))>> = true;

/// Base classes of public classes. This namespace has no functions: argument-dependent lookup would
/// consider them for such a class, or a container with such an allocator.
namespace bases {

/// How an adapter refers to its source: by address, or by nothing if the source is stateless.
template <typename Source, bool = std::is_empty_v<Source>>
class SourceHandle {
 public:
  constexpr explicit SourceHandle(Source& source) noexcept : source_(&source) {}
  constexpr Source& get() const noexcept { return *source_; }
  constexpr bool is_same_as(const SourceHandle& other) const noexcept {
    return source_ == other.source_;
  }

 private:
  Source* source_;
};

template <typename Source>
class SourceHandle<Source, true> {
 public:
  constexpr SourceHandle() noexcept = default;
  constexpr explicit SourceHandle(Source&) noexcept {}
  constexpr Source get() const noexcept { return {}; }
  constexpr bool is_same_as(const SourceHandle&) const noexcept { return true; }
};

}  // namespace bases
}  // namespace detail

/// A standard allocator over a source, by default the malloc (link strata::malloc):
///   std::vector<int, strata::Allocator<int>> v;
///   std::list<int, strata::Allocator<int, SizeClassAllocator>> l(sizes);
///
/// The source must outlive the container. Allocators of the same source are equal. Moving or
/// swapping containers moves or swaps their allocators. A copy-constructed container has its
/// original's allocator; a copy-assigned one keeps its own.
/// \threads  As the source.
template <typename T, typename Source = Malloc>
class Allocator : private detail::bases::SourceHandle<Source> {
  using Handle = detail::bases::SourceHandle<Source>;

 public:
  using value_type = T;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using is_always_equal = std::is_empty<Source>;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;
  using propagate_on_container_copy_assignment = std::false_type;

  /// Only for a stateless source.
  template <typename S = Source, typename = std::enable_if_t<std::is_empty_v<S>>>
  constexpr Allocator() noexcept {}
  constexpr Allocator(Source& source) noexcept : Handle(source) {}  // NOLINT: containers take it so
  template <typename U>
  constexpr Allocator(const Allocator<U, Source>& other) noexcept  // NOLINT: rebinding is implicit
      : Handle(other.handle()) {}

  /// \errors  std::bad_alloc if the source refuses; ends a program without exceptions.
  [[nodiscard]] STRATA_MAY_REFUSE T* allocate(std::size_t count) {
    if (count > std::numeric_limits<std::size_t>::max() / sizeof(T))
      detail::refuse_memory(kTooMany);
    void* p = this->get().try_allocate(count * sizeof(T), alignof(T));
    if (p == nullptr) detail::refuse_memory(kRefused);
    return static_cast<T*>(p);
  }
  /// Allocates at least `count` elements: as many as the block has room for, if the source knows
  /// that. C++23's containers call it. deallocate() frees the result.
  /// \errors  as allocate()
  /// \cost    some instructions more than allocate()
  [[nodiscard]] STRATA_MAY_REFUSE AllocationResult<T*> allocate_at_least(std::size_t count) {
    if constexpr (detail::kKnowsGoodSizes<Source>) {
      // A larger alignment has size classes of its own.
      if (alignof(T) <= alignof(std::max_align_t) && count != 0 &&
          count <= std::numeric_limits<std::size_t>::max() / sizeof(T)) {
        const std::size_t usable = Source::good_size(count * sizeof(T)) / sizeof(T);
        if (usable > count) count = usable;
      }
    }
    return {allocate(count), count};
  }
  void deallocate(T* p, std::size_t) noexcept { detail::give_back(this->get(), p); }

  const Handle& handle() const noexcept { return *this; }

 private:
  static constexpr char kTooMany[] = "Allocator: more elements than the address space holds";
  static constexpr char kRefused[] = "Allocator: the source has no memory for this request";
};

template <typename T, typename U, typename Source>
bool operator==(const Allocator<T, Source>& a, const Allocator<U, Source>& b) noexcept {
  return a.handle().is_same_as(b.handle());
}
template <typename T, typename U, typename Source>
bool operator!=(const Allocator<T, Source>& a, const Allocator<U, Source>& b) noexcept {
  return !(a == b);
}

/// The deleter of make_unique(): destroys and deallocates. Does not convert to the deleter of a
/// base class, whose address may differ.
template <typename T, typename Source = Malloc>
class Deleter : private detail::bases::SourceHandle<Source> {
 public:
  template <typename S = Source, typename = std::enable_if_t<std::is_empty_v<S>>>
  constexpr Deleter() noexcept {}
  constexpr explicit Deleter(Source& source) noexcept
      : detail::bases::SourceHandle<Source>(source) {}

  void operator()(T* object) const noexcept {
    object->~T();
    detail::give_back(this->get(), const_cast<std::remove_cv_t<T>*>(object));
  }
};

namespace detail {

/// The type to construct and destroy one by one: before C++20 std::destroy_n() takes no arrays.
template <typename Element>
using Innermost = std::remove_cv_t<std::remove_all_extents_t<Element>>;

}  // namespace detail

/// The same for arrays: remembers how many elements to destroy.
template <typename T, typename Source>
class Deleter<T[], Source> : private detail::bases::SourceHandle<Source> {
 public:
  template <typename S = Source, typename = std::enable_if_t<std::is_empty_v<S>>>
  constexpr Deleter() noexcept {}
  constexpr Deleter(Source& source, std::size_t count) noexcept
      : detail::bases::SourceHandle<Source>(source), count_(count) {}

  void operator()(T* array) const noexcept {
    using Innermost = detail::Innermost<T>;
    void* const memory = const_cast<std::remove_cv_t<T>*>(array);
    std::destroy_n(static_cast<Innermost*>(memory), count_ * (sizeof(T) / sizeof(Innermost)));
    detail::give_back(this->get(), memory);
  }

 private:
  std::size_t count_ = 0;
};

namespace detail {

/// Deallocates the memory if the constructor that runs in it throws.
template <typename Source>
struct MemoryGuard {
  Source& source;
  void* memory;
  ~MemoryGuard() {
    if (memory != nullptr) detail::give_back(source, memory);  // not one of the source's namespace
  }
};

}  // namespace detail

/// Makes an object in memory of `source`, which must outlive it.
/// \errors  std::bad_alloc if the source refuses (ends a program without exceptions). What the
///          constructor throws, after the memory is deallocated.
template <typename T, typename Source, typename... Arguments>
STRATA_MAY_REFUSE std::enable_if_t<!std::is_array_v<T>, std::unique_ptr<T, Deleter<T, Source>>>
make_unique_from(Source& source, Arguments&&... arguments) {
  using Object = std::remove_cv_t<T>;  // the memory is not constant yet
  detail::MemoryGuard<Source> guard{source, Allocator<Object, Source>(source).allocate(1)};
  T* object = ::new (guard.memory) T(std::forward<Arguments>(arguments)...);
  guard.memory = nullptr;
  return std::unique_ptr<T, Deleter<T, Source>>(object, Deleter<T, Source>(source));
}

/// `count` elements, value-initialised: make_unique_from<int[]>(source, 100).
template <typename T, typename Source>
STRATA_MAY_REFUSE std::enable_if_t<std::is_array_v<T> && std::extent_v<T> == 0,
                                   std::unique_ptr<T, Deleter<T, Source>>>
make_unique_from(Source& source, std::size_t count) {
  using Element = std::remove_cv_t<std::remove_extent_t<T>>;
  detail::MemoryGuard<Source> guard{source, Allocator<Element, Source>(source).allocate(count)};
  using Innermost = detail::Innermost<Element>;
  std::uninitialized_value_construct_n(static_cast<Innermost*>(guard.memory),
                                       count * (sizeof(Element) / sizeof(Innermost)));
  auto* array = static_cast<Element*>(guard.memory);
  guard.memory = nullptr;
  return std::unique_ptr<T, Deleter<T, Source>>(array, Deleter<T, Source>(source, count));
}

/// Out of reach of argument-dependent lookup: after `using std::make_unique`, make_unique<T>(heap)
/// is the standard's.
namespace called_by_name {

/// The same from the malloc: make_unique<T>(arguments…), make_unique<T[]>(count).
template <typename T, typename... Arguments>
STRATA_MAY_REFUSE std::enable_if_t<!std::is_array_v<T>, std::unique_ptr<T, Deleter<T>>> make_unique(
    Arguments&&... arguments) {
  Malloc source;
  return make_unique_from<T>(source, std::forward<Arguments>(arguments)...);
}
template <typename T>
STRATA_MAY_REFUSE
    std::enable_if_t<std::is_array_v<T> && std::extent_v<T> == 0, std::unique_ptr<T, Deleter<T>>>
    make_unique(std::size_t count) {
  Malloc source;
  return make_unique_from<T>(source, count);
}

}  // namespace called_by_name
using namespace called_by_name;

}  // namespace strata
