#pragma once

#include "base/fatal.h"

namespace strata {

/// The links of an element; a type may be in as many lists at once as it has links (bases with
/// different tags).
template <typename Tag = void>
struct ListLink {
  ListLink* next = nullptr;
  ListLink* previous = nullptr;
  bool is_linked = false;
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

  bool is_empty() const noexcept { return front_ == nullptr; }
  T* front() const noexcept { return static_cast<T*>(front_); }
  T* back() const noexcept { return static_cast<T*>(back_); }

  void push_front(T& item) noexcept {
    Link* link = &item;
    STRATA_DCHECK(!link->is_linked);
    link->is_linked = true;
    link->previous = nullptr;
    link->next = front_;
    (front_ != nullptr ? front_->previous : back_) = link;
    front_ = link;
  }

  void push_back(T& item) noexcept {
    Link* link = &item;
    STRATA_DCHECK(!link->is_linked);
    link->is_linked = true;
    link->next = nullptr;
    link->previous = back_;
    (back_ != nullptr ? back_->next : front_) = link;
    back_ = link;
  }

  void remove(T& item) noexcept {
    Link* link = &item;
    STRATA_DCHECK(link->is_linked);
    link->is_linked = false;
    (link->next != nullptr ? link->next->previous : back_) = link->previous;
    (link->previous != nullptr ? link->previous->next : front_) = link->next;
  }

  T* pop_front() noexcept {
    Link* const link = front_;
    if (link == nullptr) return nullptr;
    link->is_linked = false;
    front_ = link->next;
    (front_ != nullptr ? front_->previous : back_) = nullptr;
    return static_cast<T*>(link);
  }

  void move_to_front(T& item) noexcept {
    remove(item);
    push_front(item);
  }
  void move_to_back(T& item) noexcept {
    remove(item);
    push_back(item);
  }

  /// Drops every element at once. Their links stay as they were: an element that is used again has
  /// to have them reset.
  void forget_all() noexcept { front_ = back_ = nullptr; }

  /// The element before `item`, nullptr at the beginning.
  static T* previous(const T& item) noexcept {
    return static_cast<T*>(static_cast<const Link&>(item).previous);
  }
  /// The element after `item`, nullptr at the end.
  static T* next(const T& item) noexcept {
    return static_cast<T*>(static_cast<const Link&>(item).next);
  }

  /// For loops over all elements, from the front. None is added or removed
  /// meanwhile, unless the loop ends with it.
  class Iterator {
   public:
    explicit Iterator(T* item) noexcept : item_(item) {}
    T& operator*() const noexcept { return *item_; }
    Iterator& operator++() noexcept {
      item_ = next(*item_);
      return *this;
    }
    bool operator==(const Iterator&) const noexcept = default;

   private:
    T* item_;
  };
  Iterator begin() const noexcept { return Iterator(front()); }
  Iterator end() const noexcept { return Iterator(nullptr); }

 private:
  Link* front_ = nullptr;
  Link* back_ = nullptr;
};

}  // namespace strata
