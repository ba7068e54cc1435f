// Malloc under STRATA_CHECKS=frees: every small object has a state (ObjectStates), which says
// whether it is live. malloc sets it as it hands the object out; free, realloc and
// malloc_usable_size look.

#include <string_view>

#include "base/fatal.h"
#include "base/text_writer.h"
#include "malloc/malloc.h"

namespace strata {
namespace {

/// An object of a class, freed by a call that says how large it is, or how it is aligned.
bool fits(const FreeCall& call, unsigned size_class) noexcept {
  if (!call.says_bytes() || call.size_class() == size_class) return true;
  // realloc leaves an object in place whose class would be another one now; delete frees none such.
  return call.by == FreeCall::By::kFree && call.alignment == FreeCall::kUnsaid &&
         Engine::stays_in_place(SizeClassMap::bytes_of(size_class), call.bytes);
}

[[noreturn, gnu::cold]] void die_of_size(const void* p, unsigned size_class,
                                         const FreeCall& call) noexcept {
  TextWriter before;
  before.text("mismatched ")
      .text(call.by != FreeCall::By::kFree        ? "sized delete"
            : call.alignment != FreeCall::kUnsaid ? "free_aligned_sized"
                                                  : "free_sized")
      .text(" of ");
  TextWriter after;
  after.text(": it is an object of ")
      .decimal(SizeClassMap::bytes_of(size_class))
      .text(" bytes and was freed with ")
      .decimal(call.bytes);
  fatal_pointer(before.view(), p, after.view());
}

}  // namespace

/// Dies with a sentence if no live object starts at `p`.
/// \pre  frees are verified, and the page map has `size_class` for `p`; where it has none, the
///       engine looks.
void Malloc::expect_live(const void* p, unsigned size_class, const char* action) const noexcept {
  if (size_class == 0) return;
  const ObjectStates::Place place = engine_.map().states_of(p);
  const std::uint8_t now = place != ObjectStates::kNoPlace
                               ? ObjectStates::at(place, p).load(std::memory_order_relaxed)
                               : ObjectStates::kNever;
  if (now == ObjectStates::live_at(p)) [[likely]]
    return;
  engine_.object_bytes(p, size_class, action);  // dies if no object starts there
  const bool is_double = now == ObjectStates::kFreed && std::string_view(action) == "free";
  TextWriter before;
  before.text(is_double ? "double " : "invalid ").text(action).text(" of ");
  fatal_pointer(before.view(), p,
                now == ObjectStates::kFreed ? ": the object is free already"
                                            : ": it was freed before, or never allocated");
}

/// The program frees the object: it has to be live, and of the size that the call says.
void Malloc::take_back(void* p, unsigned size_class, const FreeCall& call) noexcept {
  expect_live(p, size_class, "free");
  if (!fits(call, size_class)) die_of_size(p, size_class, call);
  ObjectStates::at(engine_.map().states_of(p), p)
      .store(ObjectStates::kFreed, std::memory_order_relaxed);
}

}  // namespace strata
