#include "consumer.h"

#include <cstdio>
#include <new>
#include <stdexcept>

namespace {

template <typename Exception, typename Work>
bool throws(Work work) {
  try {
    work();
  } catch (const Exception&) {
    return true;
  }
  return false;
}

// If the linker took the other file's way of refusing, this program would end.
bool refuses_by_exception() {
  using Bad = std::invalid_argument;
  strata::PageArena arena(1 << 20);
  strata::SizeClassAllocator sizes;
  char buffer[8];
  std::size_t size = 0;
  Messages full(0, strata::Exhaustion::kThrow);
  strata::Allocator<char[512], strata::SizeClassAllocator> allocator(sizes);
  return throws<Bad>([] { strata::PageArena nothing(0); }) &&
         throws<Bad>([&] { strata::BlockAllocator nothing(arena, 7, 1); }) &&
         throws<std::bad_alloc>([&] { strata::BlockAllocator nothing(arena, 64, 1 << 20); }) &&
         throws<Bad>([&] { strata::BlockAllocator nothing(buffer, sizeof buffer, 64); }) &&
         throws<Bad>([] {
           strata::SizeClassAllocator nothing({64, 32});
         }) &&
         throws<Bad>([&] {
           strata::SizeClassAllocator nothing(arena, {64, 32});
         }) &&
         throws<std::length_error>([&] { sizes.allocate(1000); }) &&
         throws<std::length_error>([&] { sizes.allocate(1000, size); }) &&
         throws<std::bad_alloc>([] { Messages nothing(~std::size_t{0}); }) &&
         throws<Bad>([&] { Messages nothing(buffer, sizeof buffer); }) &&
         throws<Bad>([] { strata::CoalescingHeap nothing(0); }) &&
         throws<Bad>([&] { strata::CoalescingHeap nothing(buffer, sizeof buffer); }) &&
         throws<Bad>([] { strata::ThreadHeaps nothing(contradictory_options()); }) &&
         throws<std::bad_alloc>([&] { full.create(1); }) &&
         throws<std::bad_alloc>([&] { full.make(1); }) &&
         throws<std::bad_alloc>([&] { static_cast<void>(allocator.allocate(1)); }) &&
         throws<std::bad_alloc>([&] { strata::make_unique_from<char[]>(sizes, 1000); });
}

// With the other file's queue, the block of a message that was not built, or not accepted, would be
// lost.
bool refuses_messages_by_exception() {
  PositiveMessages messages;
  const auto none_taken = [&] { return messages.in_flight() == 0; };
  const auto throws_out = [](PositiveMessage&) { throw std::invalid_argument("not wanted"); };
  for (int i = 0; i < 3; ++i) {
    if (!throws<std::invalid_argument>([&] { messages.try_emplace(-1); }) || !none_taken())
      return false;
    if (!messages.try_push(PositiveMessage(1))) return false;
    if (!throws<std::invalid_argument>([&] { messages.try_consume(throws_out); }) || !none_taken())
      return false;
  }
  return true;
}

bool knows_equal_resources() {
  Sizes sizes;
  Sizes others;
  SizesResource resource(sizes);
  SizesResource same(sizes);
  SizesResource of_others(others);
  SizesResource with_upstream(sizes, std::pmr::new_delete_resource());
  const std::pmr::memory_resource& any = resource;
  return any.is_equal(same) && !any.is_equal(of_others) && !any.is_equal(with_upstream) &&
         !any.is_equal(*std::pmr::new_delete_resource());
}

}  // namespace

PositiveMessage::PositiveMessage(int v) : value(v) {
  if (v < 0) throw std::invalid_argument("below zero");
}

int main(int count, char** arguments) {
  if (count > 1) {
    be_refused_without_exceptions(arguments[1]);
    return 0;
  }
  strata::PageArena arena(1 << 20);
  strata::BlockAllocator blocks(arena, 40, 100);
  Messages messages(10);
  if (use_from_another_file(messages, blocks) != 42) return 1;
  if (use_without_exceptions() != 0) return 2;
  if (use_what_may_refuse([](int n) { return n; }) != 42) return 3;
  if (!refuses_by_exception()) return 4;
  strata::ThreadHeaps heaps;
  strata::MemoryResource<strata::ThreadHeaps> resource(heaps);
  resource.deallocate(resource.allocate(100), 100);
  if (heaps.statistics().allocations != 1 || heaps.statistics().frees != 1) return 5;
  if (!refuses_messages_by_exception()) return 6;
  if (!knows_equal_resources()) return 7;
  std::puts("consumer ok");
}
