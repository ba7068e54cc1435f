#include "pool/bitmap_pool_other_unit.h"

namespace strata {

void* allocate_in_other_unit() { return shared_pool.allocate(); }
bool deallocate_in_other_unit(void* p) { return shared_pool.deallocate(p); }

}  // namespace strata
