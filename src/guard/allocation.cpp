#include "guard/allocation.h"

namespace strata {
namespace {

bool is_said(std::size_t value) noexcept { return value != FreeCall::kUnsaid; }

bool alignments_differ(const FreeCall& call, const Allocation& allocation) noexcept {
  if (call.by != FreeCall::By::kFree && allocation.by_aligned_new)
    return call.alignment != allocation.alignment;
  // A runtime of its own may have raised a small alignment before it asked for it.
  return is_said(call.alignment) && call.alignment > allocation.alignment &&
         call.alignment > alignof(std::max_align_t);
}

/// Whether the freeing function does not match the allocating one.
bool kinds_differ(const FreeCall& call, const Allocation& allocation) noexcept {
  using By = Allocation::By;
  const bool is_new = allocation.by != By::kMalloc;
  const bool is_delete = call.by != FreeCall::By::kFree;
  if (!is_new || !is_delete) return call.keeps_to_its_kind && is_new != is_delete;
  if (call.by == FreeCall::By::kDeleteAny) return false;
  return (allocation.by == By::kNewArray) != (call.by == FreeCall::By::kDeleteArray);
}

void say_kinds(const FreeCall& call, const Allocation& allocation, const void* p,
               TextWriter& sentence) noexcept {
  constexpr std::string_view kMakers[] = {"malloc", "new", "new[]"};
  constexpr std::string_view kEnders[] = {"free", "delete", "delete[]", "delete"};
  sentence.text("mismatched ")
      .text(kEnders[static_cast<int>(call.by)])
      .text(" of ")
      .pointer(p)
      .text(": it was allocated by ")
      .text(kMakers[static_cast<int>(allocation.by)]);
}

void say_alignment(TextWriter& sentence, std::size_t alignment) noexcept {
  if (alignment == 0 || !is_said(alignment)) {
    sentence.text("without an alignment");
  } else {
    sentence.text("with alignment ").decimal(alignment);
  }
}

}  // namespace

bool contradicts(const FreeCall& call, const Allocation& allocation, const void* p,
                 TextWriter& sentence) noexcept {
  const bool is_delete = call.by != FreeCall::By::kFree;
  if (kinds_differ(call, allocation)) {
    say_kinds(call, allocation, p, sentence);
    return true;
  }
  if (alignments_differ(call, allocation)) {
    sentence.text("mismatched ")
        .text(is_delete ? "aligned delete" : "free_aligned_sized")
        .text(" of ")
        .pointer(p)
        .text(": it was allocated ");
    say_alignment(sentence, allocation.alignment);
    sentence.text(" and freed ");
    say_alignment(sentence, call.alignment);
    return true;
  }
  if (is_said(call.bytes) && call.bytes != allocation.bytes) {
    sentence.text("mismatched ")
        .text(is_delete                 ? "sized delete"
              : is_said(call.alignment) ? "free_aligned_sized"
                                        : "free_sized")
        .text(" of ")
        .pointer(p)
        .text(": it was allocated with ")
        .decimal(allocation.bytes)
        .text(" bytes and freed with ")
        .decimal(call.bytes);
    return true;
  }
  return false;
}

}  // namespace strata
