#include "span/heap_names.h"

#include "base/fatal.h"
#include "span/page_map.h"

namespace strata {

void die_if_of_another_heap(const PageMap& map, const char* action, const void* p,
                            HeapNumber own) noexcept {
  HeapNames* const names = map.names();
  HeapNumber owner;
  if (names == nullptr || !names->find_owner(p, owner) || owner == own) return;
  TextWriter sentence;
  sentence.text("invalid ").text(action).text(" of ").pointer(p).text(": it belongs to ");
  names->write_name(owner, sentence);
  sentence.text(", not to ");
  names->write_name(own, sentence);
  fatal(sentence.view());
}

}  // namespace strata
