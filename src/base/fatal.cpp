#include "base/fatal.h"

#include "base/text_writer.h"
#include "os/process.h"

namespace strata {

void fatal(std::string_view sentence) noexcept {
  TextWriter line;
  line.text("strata: ").text(sentence).text("\n");
  os::write_stderr(line.view());
  os::abort_process();
}

void fatal_pointer(std::string_view before, const void* address, std::string_view after) noexcept {
  TextWriter line;
  line.text("strata: ").text(before).pointer(address).text(after).text("\n");
  os::write_stderr(line.view());
  os::abort_process();
}

}  // namespace strata
