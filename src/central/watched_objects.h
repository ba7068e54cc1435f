#pragma once

#include <cstddef>
#include <utility>

#include "base/lock_visitor.h"
#include "central/central_list.h"
#include "size_class/size_class_map.h"

namespace strata {

/// The objects of all classes that a watcher handed out: a CentralList per class over watched
/// spans, without ready batches, so that each object comes from its span and is verified when it
/// returns.
/// \threads  Any number at once; a lock per class.
class WatchedObjects {
 public:
  /// \pre  `spans` makes watched spans
  explicit constexpr WatchedObjects(SpanSource& spans) noexcept
      : WatchedObjects(spans, std::make_integer_sequence<unsigned, SizeClassMap::kCount>{}) {}

  /// \returns  nullptr when out of memory.
  void* claim(unsigned size_class) noexcept {
    void* object = nullptr;
    lists_[size_class].claim(&object + 1, 1);
    return object;
  }
  void release(unsigned size_class, void* p) noexcept { lists_[size_class].release(&p, 1); }

  /// Returns the holes of spans to the kernel.
  /// \returns  bytes
  std::size_t release_holes(CentralList::Spans which) noexcept {
    std::size_t returned = 0;
    for (CentralList& list : lists_) returned += list.release_holes(which);
    return returned;
  }

  CentralList::Statistics statistics(unsigned size_class) noexcept {
    return lists_[size_class].statistics();
  }
  void check_invariants() noexcept {
    for (CentralList& list : lists_) list.check_invariants();
  }

  void for_each_lock(LockVisitor visit) noexcept {
    for (CentralList& list : lists_) visit(list.lock());
  }

 private:
  template <unsigned... kClasses>
  constexpr WatchedObjects(SpanSource& spans, std::integer_sequence<unsigned, kClasses...>) noexcept
      : lists_{CentralList{kClasses, spans}...} {}

  CentralList lists_[SizeClassMap::kCount];
};

}  // namespace strata
