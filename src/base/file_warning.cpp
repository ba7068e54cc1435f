#include "base/file_warning.h"

#include "base/text_writer.h"
#include "os/file.h"
#include "os/standard_error.h"
#include "os/text_parts.h"

namespace strata {

void warn_of_file(std::string_view what, const char* path, std::string_view problem,
                  std::string_view reason, std::string_view rest) noexcept {
  // Chosen: leaves the reason its place in the line.
  constexpr std::size_t kMostOfPath = TextWriter::kCapacity / 2;
  TextWriter line;
  line.text("strata: warning: ").text(what).text(" ");
  line.name(*path == '\0' ? "''" : os::start_of(path, kMostOfPath)).text(" ");
  line.text(problem).text(": ").text(reason).text(rest).text("\n");
  os::write_file(os::standard_error(), line.view());
}

}  // namespace strata
