#pragma once

#include <cstddef>
#include <cstdint>

/// \file  Everything that the allocators ask of the kernel about memory, as one small contract.

namespace strata::os {

/// Size of an OS page in bytes, asked of the kernel once. Never assumed: 4, 16 and 64 KiB exist.
std::size_t page_bytes() noexcept;

/// A range of whole OS pages.
struct PageRange {
  void* address;
  std::size_t bytes;
};

/// How mapping at an address ended.
enum class MapAt : std::uint8_t {
  kMapped,    ///< the range is now ours
  kInUse,     ///< something is there already, or the kernel does not give this address
  kNoMemory,  ///< no memory, no mapping left, or beyond the addresses that a process can have
};

/// The system calls themselves, as PageSource describes them.
namespace kernel {
void* map(std::size_t bytes) noexcept;
void* map_counted(std::size_t bytes) noexcept;
void* map_apart(std::size_t bytes) noexcept;
bool unmap_apart(void* address, std::size_t bytes) noexcept;
MapAt map_at(void* address, std::size_t bytes) noexcept;
bool unmap(void* address, std::size_t bytes) noexcept;
bool decommit(void* address, std::size_t bytes) noexcept;
void decommit_each(PageRange* ranges, std::size_t count) noexcept;
void advise_huge(void* address, std::size_t bytes) noexcept;
void advise_small(void* address, std::size_t bytes) noexcept;
std::uint64_t touch(void* address) noexcept;
void* remap(void* address, std::size_t old_bytes, std::size_t new_bytes) noexcept;
void* reserve(std::size_t bytes) noexcept;
void* reserve_readable(std::size_t bytes) noexcept;
bool commit(void* address, std::size_t bytes) noexcept;
bool protect(void* address, std::size_t bytes) noexcept;
}  // namespace kernel

/// How many bytes of the whole pages in a mapped range occupy RAM; all of them if the kernel does
/// not say.
/// \cost  One system call for each 4096 pages.
std::size_t resident_bytes_in(const void* address, std::size_t bytes) noexcept;

/// Whether three quarters of a mapped range occupy RAM. True if the kernel does not say, and behind
/// a filter of system calls.
/// \cost  a system call, and one for each 4096 pages
bool is_mostly_touched(const void* address, std::size_t bytes) noexcept;

/// Whether less than a sixteenth of a mapped range occupies RAM, and not the page in its middle.
/// False if the kernel does not say, behind a filter of system calls, and for ranges beyond 64 MiB.
/// \cost  up to six system calls; two for a range in use
bool is_hardly_touched(const void* address, std::size_t bytes) noexcept;

/// The source of pages. The base class asks the kernel; a test derives from it to count, to refuse
/// the n-th call, or to hand out memory of its own.
///
/// For all functions: `address` and `bytes` are multiples of page_bytes(), bytes > 0, and the range
/// lies inside memory that this source mapped. Out of memory is an answer (nullptr or false), never
/// an abort, and errno is left as it was.
///
/// Every virtual function is inline, so that no single file owns the table and the type
/// information: src/ is built without RTTI, and a test with RTTI can still derive from this.
/// \threads  Any number at once.
/// \cost     One system call each, unless said otherwise.
class PageSource {
 public:
  constexpr PageSource() noexcept = default;
  PageSource(const PageSource&) = delete;
  PageSource& operator=(const PageSource&) = delete;

  /// Maps readable and writable zero pages, which take memory only as they are touched.
  /// \returns  The range, or nullptr if the kernel refuses.
  virtual void* map(std::size_t bytes) noexcept { return kernel::map(bytes); }

  /// Maps as map() does, between two inaccessible pages, so that an overflow into the range, or out
  /// of it, is a fault. The two pages hold no memory, and `bytes` does not count them.
  /// \returns  The range, or nullptr if the kernel refuses.
  /// \cost  Two system calls.
  virtual void* map_apart(std::size_t bytes) noexcept { return kernel::map_apart(bytes); }

  /// Releases a whole range of map_apart() or reserve_readable(), and the two pages beside it.
  /// \returns  As unmap().
  virtual bool unmap_apart(void* address, std::size_t bytes) noexcept {
    return kernel::unmap_apart(address, bytes);
  }

  /// Maps at exactly this address, never over anything that is there.
  virtual MapAt map_at(void* address, std::size_t bytes) noexcept {
    return kernel::map_at(address, bytes);
  }

  /// Maps a range whose start is a multiple of `alignment`, a power of two.
  /// \cost  Up to four system calls: the surplus on both sides is unmapped again.
  virtual void* map_aligned(std::size_t bytes, std::size_t alignment) noexcept {
    return map_and_trim(bytes, alignment, Use::kByParts);
  }

  /// The same for a block that the program may use entirely: the kernel itself refuses one that is
  /// longer than RAM and swap, unless it is told to promise everything.
  virtual void* map_block(std::size_t bytes, std::size_t alignment) noexcept {
    return map_aligned(bytes, alignment);
  }

  /// Unmaps the range; anything may be mapped at its addresses from then on.
  /// \returns  False if the kernel has no mapping left to describe the hole: then the range is only
  ///           decommitted, and its addresses are still ours, or lost.
  virtual bool unmap(void* address, std::size_t bytes) noexcept {
    return kernel::unmap(address, bytes);
  }

  /// The same where it is the addresses that are wanted: a source that keeps what unmap() takes
  /// lets go of this range.
  virtual bool unmap_for_good(void* address, std::size_t bytes) noexcept {
    return unmap(address, bytes);
  }

  /// Unmaps ranges that wait for a use, until so many bytes are gone.
  /// \returns  how many bytes; 0 for a source that keeps none
  virtual std::size_t unmap_waiting(std::size_t) noexcept { return 0; }

  /// Returns the memory to the kernel and keeps the addresses: the pages read as zero when they are
  /// touched again.
  /// \returns  False if the kernel refused; the contents are then undefined.
  virtual bool decommit(void* address, std::size_t bytes) noexcept {
    return kernel::decommit(address, bytes);
  }

  /// The same for several ranges. Sets `bytes` of those that the kernel refuses to 0; the others go
  /// back all the same.
  /// \cost  As many system calls. KernelPages needs one for all if the kernel can do that (Linux
  ///        6.18 can). Then other processors flush the addresses together, too, which takes most of
  ///        the time in a process with several threads.
  virtual void decommit_each(PageRange* ranges, std::size_t count) noexcept {
    for (PageRange* range = ranges; range != ranges + count; ++range) {
      if (!decommit(range->address, range->bytes)) range->bytes = 0;
    }
  }

  /// Asks for huge pages on the range's next touch. A hint; never fails.
  virtual void advise_huge(void* address, std::size_t bytes) noexcept {
    kernel::advise_huge(address, bytes);
  }

  /// Asks for ordinary pages, even where the system's default is another. A hint; never fails.
  virtual void advise_small(void* address, std::size_t bytes) noexcept {
    kernel::advise_small(address, bytes);
  }

  /// Touches a page for the first time: writes a zero to this address, where one is.
  /// \returns  Nanoseconds of CPU time that the kernel's page fault took.
  /// \cost  Two system calls, to read the clock.
  virtual std::uint64_t touch(void* address) noexcept { return kernel::touch(address); }

  virtual bool is_mostly_touched(const void* address, std::size_t bytes) noexcept {
    return os::is_mostly_touched(address, bytes);
  }

  /// Resizes a mapping and keeps its contents; a new tail is zero. A growing mapping moves if it
  /// must, a shrinking one stays in place.
  /// \returns  The new address, or nullptr with the old mapping untouched.
  virtual void* remap(void* address, std::size_t old_bytes, std::size_t new_bytes) noexcept {
    return kernel::remap(address, old_bytes, new_bytes);
  }

  /// Reserves a range of addresses where every access is a fault, until commit().
  /// \returns  The range, or nullptr if the kernel refuses.
  virtual void* reserve(std::size_t bytes) noexcept { return kernel::reserve(bytes); }

  /// The same, but the range is readable, as zeros, and so are the two pages beside it, which are
  /// never writable: an overflow into the range is a fault. Neither counts where the kernel
  /// accounts for all writable memory (vm.overcommit_memory=2, RLIMIT_DATA). A range of 1 GiB or
  /// more is in no core file, whatever becomes of it.
  /// \returns  The range, or nullptr if the kernel refuses.
  /// \cost     One system call; two for 1 GiB or more.
  virtual void* reserve_readable(std::size_t bytes) noexcept {
    return kernel::reserve_readable(bytes);
  }

  /// Makes pages of a reserved range readable and writable; they read as zero.
  /// \returns  False, and nothing changes, if the kernel refuses.
  virtual bool commit(void* address, std::size_t bytes) noexcept {
    return kernel::commit(address, bytes);
  }

  /// Decommits pages and makes every access to them a fault, as when they were reserved.
  /// \returns  False if the kernel refused; the pages are then as they were.
  virtual bool protect(void* address, std::size_t bytes) noexcept {
    return kernel::protect(address, bytes);
  }

  /// Whether unmap() accepts parts of one call's mapping, and neighbours at once. Otherwise it
  /// takes a range of map() or map_aligned() as a whole.
  /// \cost  no system call
  virtual bool is_divisible() const noexcept { return true; }

  /// Not virtual on purpose: sources live in static storage or on a test's stack and are never
  /// deleted through this type.
 protected:
  ~PageSource() = default;

  ///   kByParts  pages come into use as they are needed
  ///   kWhole    the kernel counts all of them
  enum class Use : std::uint8_t { kByParts, kWhole };
  void* map_and_trim(std::size_t bytes, std::size_t alignment, Use use) noexcept;
};

/// The kernel itself.
class KernelPages final : public PageSource {
 public:
  constexpr KernelPages() noexcept = default;
  void* map_block(std::size_t bytes, std::size_t alignment) noexcept override {
    return map_and_trim(bytes, alignment, Use::kWhole);
  }
  void decommit_each(PageRange* ranges, std::size_t count) noexcept override {
    kernel::decommit_each(ranges, count);
  }
};

namespace detail {
extern constinit KernelPages g_kernel_pages;
}

/// The kernel's source, which lives as long as the process.
constexpr PageSource& kernel_pages() noexcept { return detail::g_kernel_pages; }

}  // namespace strata::os
