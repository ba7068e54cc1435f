#pragma once

#include "base/text_writer.h"
#include "span/page.h"

namespace strata {

class PageMap;

/// Knows all heaps of the process, including the malloc (number 0). Called only on the way to a
/// fatal error about a pointer. Functions have bodies instead of = 0, which would need the C++
/// runtime.
/// \threads  any, with any lock of one heap held; it takes no lock.
class HeapNames {
 public:
  /// Finds the heap whose memory `p` points into.
  /// \returns  false if it is no heap's
  virtual bool find_owner(const void* p, HeapNumber& owner) noexcept { return false; }
  /// Writes the heap's name as in a sentence: "the heap 'session'", "the malloc".
  virtual void write_name(HeapNumber heap, TextWriter& out) noexcept {}

 protected:
  ~HeapNames() = default;
};

/// If `p` is known to be another heap's than `own`, dies with a sentence that names both.
/// \param action  the sentence's first word: free, realloc
void die_if_of_another_heap(const PageMap& map, const char* action, const void* p,
                            HeapNumber own) noexcept;

}  // namespace strata
