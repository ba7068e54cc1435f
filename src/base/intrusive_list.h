#pragma once

#include "base/fatal.h"

namespace strata {

/// The links of an element; a type may be in as many lists at once as it has links (bases with
/// different tags).
template <typename Tag = void>
struct ListLink {
  ListLink* next = nullptr;
  ListLink* previous = nullptr;
  bool is_linked() const noexcept { return next != nullptr; }
};

/// A doubly linked list through its elements: constant time, no allocation, owns nothing.
/// Constant-initialised empty, so it may live in a constinit global.
/// \threads  One at a time; the owner's lock guards it.
template <typename T, typename Tag = void>
class IntrusiveList {
  using Link = ListLink<Tag>;

 public:
  constexpr IntrusiveList() noexcept = default;
  IntrusiveList(const IntrusiveList&) = delete;
  IntrusiveList& operator=(const IntrusiveList&) = delete;

  bool is_empty() const noexcept { return head_ == nullptr; }
  T* front() const noexcept { return element(head_); }

  void push_front(T& item) noexcept {
    Link* link = &item;
    STRATA_DCHECK(!link->is_linked());
    link->previous = nullptr;
    // The last element points at itself, so that a linked element always has a next.
    link->next = head_ != nullptr ? head_ : link;
    if (head_ != nullptr) head_->previous = link;
    head_ = link;
  }

  void remove(T& item) noexcept {
    Link* link = &item;
    STRATA_DCHECK(link->is_linked());
    Link* next = link->next == link ? nullptr : link->next;
    if (next != nullptr) next->previous = link->previous;
    if (link->previous != nullptr) {
      link->previous->next = next != nullptr ? next : link->previous;
    } else {
      head_ = next;
    }
    link->next = link->previous = nullptr;
  }

  T* pop_front() noexcept {
    T* item = front();
    if (item != nullptr) remove(*item);
    return item;
  }

  /// The element behind `item`, nullptr at the end.
  static T* next(const T& item) noexcept {
    const Link* link = &item;
    return link->next == link ? nullptr : element(link->next);
  }

 private:
  static T* element(Link* link) noexcept { return static_cast<T*>(link); }

  Link* head_ = nullptr;
};

}  // namespace strata
