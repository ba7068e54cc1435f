#include <strata/bitmap_pool.hpp>

/// \file  Operations as separate functions, whose code bitmap_pool_codegen_test.cmake examines.

namespace strata {

using detail::UncountedSteps;

extern "C" bool probe_set_bit(std::atomic<detail::BitWord>& word, unsigned bit) {
  return detail::set_bit<UncountedSteps>(word, bit, std::memory_order_acquire);
}

extern "C" bool probe_clear_bit(std::atomic<detail::BitWord>& word, unsigned bit) {
  return detail::clear_bit<UncountedSteps>(word, bit, std::memory_order_seq_cst);
}

extern "C" unsigned probe_claim_one(std::atomic<detail::BitWord>& word, detail::BitWord usable) {
  bool lost_race = false;
  return detail::claim_one<UncountedSteps>(word, usable, lost_race);
}

extern "C" detail::BitWord probe_clear_bits(std::atomic<detail::BitWord>& word,
                                            detail::BitWord mask) {
  return detail::clear_bits<UncountedSteps>(word, mask);
}

extern "C" bool probe_deallocate(BitmapPool<>& pool, void* p) { return pool.deallocate(p); }

extern "C" bool probe_deallocate_large(BitmapPool<64, 65536>& pool, void* p) {
  return pool.deallocate(p);
}

}  // namespace strata
