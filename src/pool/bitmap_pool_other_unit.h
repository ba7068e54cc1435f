#pragma once

#include <strata/bitmap_pool.hpp>

namespace strata {

/// A pool that two translation units of the tests use: the headers must link from both.
inline constinit BitmapPool<64, 128> shared_pool;
void* allocate_in_other_unit();
bool deallocate_in_other_unit(void* p);

}  // namespace strata
