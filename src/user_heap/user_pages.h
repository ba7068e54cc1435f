#pragma once

#include <strata/heap.hpp>

#include <cstddef>
#include <cstdint>

#include "os/page_source.h"
#include "span/page.h"

namespace strata {

/// Adapts the user's page source to the interface that the layers below use. What it cannot do is
/// refused.
/// \threads  as the user's source
class UserPages final : public os::PageSource {
 public:
  UserPages(const Heap::PageSource& source, HeapNumber heap) noexcept
      : source_(source), heap_(heap) {}

  bool can_purge() const noexcept { return source_.purge != nullptr; }

  void* map(std::size_t bytes) noexcept override;
  void* map_aligned(std::size_t bytes, std::size_t alignment) noexcept override;
  bool unmap(void* address, std::size_t bytes) noexcept override;
  bool decommit(void* address, std::size_t bytes) noexcept override;
  bool is_divisible() const noexcept override { return false; }

  // The source decides how its pages are backed, and where they lie.
  void advise_huge(void*, std::size_t) noexcept override {}
  void advise_small(void*, std::size_t) noexcept override {}
  std::uint64_t touch(void*) noexcept override { return 0; }
  bool is_mostly_touched(const void*, std::size_t) noexcept override { return true; }
  os::MapAt map_at(void*, std::size_t) noexcept override { return os::MapAt::kInUse; }
  void* remap(void*, std::size_t, std::size_t) noexcept override { return nullptr; }

 private:
  void expect_apt(const void* address, std::size_t bytes, std::size_t alignment) const noexcept;

  const Heap::PageSource source_;
  const HeapNumber heap_;
};

}  // namespace strata
