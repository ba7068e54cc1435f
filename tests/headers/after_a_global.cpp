// A parameter of a template that has the name of a global of the program is a warning where the
// program's compiler does not take these headers for the system's.
#include <strata/strata.hpp>

strata::BitmapPool<64, 4096> pool;

void use_magazines() {
  strata::BitmapPoolMagazine one(pool);
  one.deallocate(one.allocate());
  strata::BitmapPoolMagazines magazines(pool, 2);
  decltype(magazines)::Magazine mine(magazines);
  mine.deallocate(mine.allocate());
}

long sum_of(strata::ObjectPool<long>& objects) {
  const auto handle = objects.make(1L);
  long sum = 0;
  for (const long value : objects) sum += value;
  return sum;
}
