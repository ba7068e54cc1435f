// This file is compiled with -fno-exceptions -fno-rtti.
#include <cstring>

#include "consumer.h"

#if defined(__cpp_exceptions) || defined(__cpp_rtti)
#error "this file is here to be compiled without them"
#endif

void be_refused_without_exceptions(const char* what) {
  const auto asked_for = [what](const char* name) { return std::strcmp(what, name) == 0; };
  strata::PageArena arena(1 << 20);
  strata::SizeClassAllocator sizes;
  if (asked_for("arena")) strata::PageArena nothing(100);
  if (asked_for("blocks")) strata::BlockAllocator nothing(arena, 7, 1);
  if (asked_for("pages")) strata::BlockAllocator nothing(arena, 64, 1 << 20);
  if (asked_for("sizes")) strata::SizeClassAllocator nothing({64, 32});
  if (asked_for("length")) sizes.allocate(257);
  if (asked_for("slots")) Messages nothing(~std::size_t{0});
  if (asked_for("objects")) Messages(0, strata::Exhaustion::kThrow).create(1);
  if (asked_for("region")) strata::CoalescingHeap nothing(0);
  if (asked_for("heaps")) strata::ThreadHeaps nothing(contradictory_options());
  if (asked_for("source")) strata::make_unique_from<char[]>(sizes, 257);
}

int use_without_exceptions() {
  if (use_what_may_refuse([](int n) { return n; }) != 42) return 8;
  const char* reason = nullptr;
  if (strata::PageArena::try_create(0, 0, &reason) || reason == nullptr) return 1;
  auto arena = strata::PageArena::try_create(1 << 20);
  if (!arena) return 2;
  if (strata::BlockAllocator::try_create(*arena, 64, 1 << 20, 16, &reason)) return 3;
  auto blocks = strata::BlockAllocator::try_create(*arena, 64, 100);
  if (!blocks || blocks->allocate() == nullptr) return 4;
  const std::size_t classes[] = {32, 64};
  auto sizes = strata::SizeClassAllocator::try_create(classes, 2);
  if (!sizes || sizes->try_allocate(65) != nullptr || sizes->try_allocate(64) == nullptr) return 5;
  auto heap = strata::CoalescingHeap::try_create(1 << 16);
  if (!heap || heap->allocate(1 << 16) != nullptr || heap->allocate(1 << 15) == nullptr) return 8;
  auto heaps = strata::ThreadHeaps::try_create({});
  if (!heaps || heaps->allocate(100) == nullptr) return 9;
  if (strata::ThreadHeaps::try_create(contradictory_options(), &reason)) return 10;
  PositiveMessages queue;
  PositiveMessage received(1);
  if (!queue.try_emplace(2) || !queue.try_push(received) || queue.try_emplace(3)) return 11;
  if (!queue.try_consume([](PositiveMessage& m) { m.value = 0; })) return 12;
  if (!queue.try_pop(received) || received.value != 1) return 13;
  Sizes source;
  const SizesResource resource(source);
  const SizesResource same(source);
  const std::pmr::memory_resource& any = resource;
  if (!any.is_equal(same) || any.is_equal(*std::pmr::get_default_resource())) return 14;
  Messages messages(strata::Exhaustion::kReturnNull);
  if (messages.create(1) != nullptr || !messages.reserve(1)) return 6;
  auto message = messages.make(1);
  return message && !messages.make(2) ? 0 : 7;
}
