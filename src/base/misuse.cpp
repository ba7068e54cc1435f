#include <strata/detail/misuse.hpp>

#include "base/fatal.h"
#include "base/text_writer.h"
#include "os/output.h"

namespace strata::detail {

void misuse(const char* sentence) noexcept { fatal(sentence); }

void misuse(const char* before, const void* address, const char* after) noexcept {
  fatal_pointer(before, address, after);
}

void report_leftovers(std::size_t count, const void* first) noexcept {
  TextWriter line;
  line.text("strata: ObjectPool destroyed with ").decimal(count);
  line.text(count == 1 ? " live object, at " : " live objects, the first at ");
  line.pointer(first).text("\n");
  os::write_stderr(line.view());
}

}  // namespace strata::detail
