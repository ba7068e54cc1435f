#include "consumer.h"

int use_from_another_file(Messages& messages, strata::BlockAllocator& blocks) {
  auto message = messages.make(42);
  void* block = blocks.allocate();
  blocks.deallocate(block);
  strata::SizeClassAllocator sizes;
  sizes.deallocate(sizes.allocate(100));
  return blocks.owns(block) ? message->value : 0;
}
