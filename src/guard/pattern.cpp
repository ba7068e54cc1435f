#include "guard/pattern.h"

#include "base/fatal.h"

namespace strata {

void say_access(TextWriter& sentence, const char* mistake, const void* object, std::size_t bytes,
                const char* verb, std::ptrdiff_t offset) noexcept {
  sentence.text(mistake).text(" of ").pointer(object).text(": the program ").text(verb);
  sentence.text(" at offset ").text(offset < 0 ? "-" : "");
  sentence.decimal(static_cast<std::size_t>(offset < 0 ? -offset : offset));
  sentence.text(" of this object of ").decimal(bytes).text(" bytes");
}

void die_of_write(const char* mistake, const void* object, std::size_t bytes,
                  std::ptrdiff_t offset) noexcept {
  TextWriter sentence;
  say_access(sentence, mistake, object, bytes, "wrote", offset);
  fatal_about(object, sentence.view());
}

}  // namespace strata
