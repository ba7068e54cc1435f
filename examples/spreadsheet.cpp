// Two allocators in one program: an ObjectPool for the cells of a sheet, which have one type and
// live long; a SizeClassAllocator for their text, which is short and of many sizes.
#include <strata/memory_resource.hpp>
#include <strata/object_pool.hpp>
#include <strata/size_class_allocator.hpp>

#include <cstdio>
#include <functional>
#include <map>
#include <memory_resource>
#include <string>
#include <utility>

struct Cell {
  Cell(std::pmr::memory_resource* memory, double v) : text(memory), value(v) {}
  std::pmr::string text;
  double value;
};
using Cells = strata::ObjectPool<Cell>;

int main() {
  strata::SizeClassAllocator sizes;
  // Text above 256 bytes is rare and comes from the heap.
  strata::MemoryResource<strata::SizeClassAllocator> memory(sizes, std::pmr::new_delete_resource());
  Cells cells(1024, strata::Exhaustion::kGrow);
  {
    // A cell lives as long as its place in the sheet: its handle returns it to the pool.
    std::map<std::pair<int, int>, Cells::Handle> sheet;
    for (int row = 0; row < 100; ++row) {
      for (int column = 0; column < 26; ++column) {
        auto cell = cells.make(&memory, row * column);
        cell->text.assign(static_cast<std::size_t>(row * 3 + 16), static_cast<char>('A' + column));
        sheet[{row, column}] = std::move(cell);
      }
    }
    double sum = 0;
    for (const Cell& cell : cells) sum += cell.value;
    std::printf("%zu cells, sum %.0f\n", cells.size(), sum);
    for (int row = 0; row < 100; row += 2) {
      for (int column = 0; column < 26; ++column) sheet.erase({row, column});
    }
    std::printf("%zu cells after half of the rows are gone\n", cells.size());
    if (cells.size() != 1300 || sum != 4950.0 * 325.0) return 1;
  }
  std::size_t blocks_left = 0;
  for (std::size_t i = 0; i < sizes.class_count(); ++i) blocks_left += sizes.in_use(i);
  return cells.empty() && blocks_left == 0 ? 0 : 1;
}
