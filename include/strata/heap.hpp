#pragma once

#include <strata/detail/refuse.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

struct strata_heap;  // of C: strata/heap.h

namespace strata {

class UserHeap;

/// A heap of one's own for a subsystem, a tenant or a request, beside the process's malloc,
/// whatever that is. It works like Strata's malloc and is as fast, with its own limits, statistics
/// and name. Resetting or destroying it frees all its blocks at once.
///
/// Any thread may free a block, but only into the heap that it came from. Freeing it into another
/// heap ends the program with a sentence that names both; so does passing it to free(), if the
/// malloc is Strata's and linked from the same archive. A small block is detected when it reaches
/// its span, as with any misuse (docs/design.md has the table), a larger one at once.
///
/// An unused heap costs some 300 bytes; one with a single block takes 25 KB of the 128 KiB that it
/// then counts as held. Up to kMostHeaps may exist at once. Move-only, while no thread is inside a
/// call. A heap may live until the process ends. After fork() both processes may use it, as they
/// may the malloc. Not for shared memory: its bookkeeping is private to the process even if its
/// pages are not (PageSource). Heaps alive at exit() are verified as the malloc is: each reports
/// what its checks can find. In a signal handler that interrupted the malloc or a heap while it
/// held a lock, none can be made, and reset() and the destructor free nothing.
/// \threads  All functions, any number at once, unless said otherwise.
/// \cost     allocate() and deallocate() of up to 1 KiB from the thread's cache: 41 instructions a
///           pair, 6 more than the malloc's. A thread's first use of a heap: some microseconds and
///           8.6 KB; of its first heap, 13 KB. Everything else as the malloc.
/// \source   A thread's own part of a heap that all threads share: mimalloc 3 (Leijen, 2024).
class Heap {
 public:
  static constexpr std::size_t kMostHeaps = 32767;
  static constexpr std::size_t kMostNameBytes = 31;

  enum class Checks : std::uint8_t {
    kBasic,  ///< only what costs nothing
    kFull,   ///< as STRATA_CHECKS=full: every block is watched; some 50 times the instructions
    kFrees,  ///< as STRATA_CHECKS=frees: every free is verified at once; 197 instructions a pair
  };

  /// When the heap's 2 MiB regions ask the kernel for huge pages.
  enum class HugePages : std::uint8_t {
    kAuto,    ///< once one more region does not matter, where earlier ones are touched
    kAlways,  ///< at their first touch; a heap of few pages then holds 2 MiB
    kNever,
  };

  /// Supplies memory for a heap's blocks instead of the kernel: from a buffer, a pool of huge
  /// pages, a file, one NUMA node. A heap maps 2 MiB at a time, aligned to 2 MiB, for blocks up to
  /// 1 MiB, and a range for each larger block. It keeps the former until it ends or a larger block
  /// is refused, and unmaps the latter as soon as the block is freed. Bookkeeping and guarded
  /// blocks lie in the process's own memory, so only one process can keep its blocks in a shared
  /// range.
  ///
  /// `context` is passed to each call. It must outlive the heap, as must all that the calls need.
  /// \threads  Any number of calls at once, with locks of the heap held: they must not call a heap
  ///           or Strata's malloc, wait for a thread that does, or throw. In the child of a fork,
  ///           another thread's purge() may never have returned, nor map() and unmap() of a range
  ///           for a larger block.
  struct PageSource {
    void* context = nullptr;
    /// \param bytes      a multiple of an OS page
    /// \param alignment  a power of two, at least an OS page
    /// \returns  A readable, writable range that reads as zero and has no other user; nullptr
    ///           refuses the allocation.
    /// \errors   A misaligned range, or one where a heap has blocks up to 1 MiB, ends the program
    ///           with a sentence.
    void* (*map)(void* context, std::size_t bytes, std::size_t alignment) = nullptr;
    /// Takes back a range exactly as map() returned it, whatever is in it.
    void (*unmap)(void* context, void* address, std::size_t bytes) = nullptr;
    /// Releases the memory of some OS pages, which stay mapped. nullptr: nothing is released, and
    /// the reclaiming thread and release_memory() can return only larger blocks.
    /// \returns  True if the pages read as zero from now on; false if their memory stays. At its
    ///           hard limit the heap may then hold that much more, if it had purged a part of these
    ///           pages before.
    bool (*purge)(void* context, void* address, std::size_t bytes) = nullptr;
  };

  struct Options {
    /// For messages and statistics; cut to kMostNameBytes.
    const char* name = "";
    /// Bytes that the heap may hold, 0 for no limit: pages of its blocks and idle ones, bookkeeping
    /// and caches included. Above the soft limit, all idle memory is returned at once. The hard
    /// limit is exact: allocations that would exceed it fail; below 128 KiB nothing fits.
    ///
    /// STRATA_SOFT_LIMIT and STRATA_HARD_LIMIT also limit what all heaps of the process and the
    /// malloc, if it is Strata's, hold together. Before that hard limit refuses, every heap returns
    /// its idle memory, the one with most first.
    std::size_t soft_limit_bytes = 0;
    std::size_t hard_limit_bytes = 0;
    /// A thread that all heaps share returns memory that was idle for half to all of the delay,
    /// from heaps with 1 MiB of it or more. If false, idle memory stays until release_memory().
    bool reclaims = true;
    std::uint32_t reclaim_delay_ms = 1000;
    Checks checks = Checks::kBasic;
    /// As STRATA_GUARD_RATE: one in this many blocks up to 1 MiB is placed between inaccessible
    /// pages; 0: none. The first access beyond that block, or after its free, ends the program with
    /// the stacks of the access, the allocation and the free. A pair of calls then takes some 180
    /// instructions. No blocks are guarded if a hard limit leaves no room for another half MiB.
    std::uint32_t guard_rate = 0;
    HugePages huge_pages = HugePages::kAuto;
    /// Copied; nullptr: the kernel. With a page source, huge_pages has no effect.
    const PageSource* pages = nullptr;
  };

  /// In bytes. At rest: mapped == live + cached + free + metadata + returned, and
  /// held == mapped - returned.
  struct Statistics {
    std::size_t mapped = 0;
    std::size_t live = 0;      ///< owned by the program, rounded up to size classes or pages
    std::size_t cached = 0;    ///< free, in thread caches and transfer caches
    std::size_t free = 0;      ///< other free memory, not yet returned
    std::size_t metadata = 0;  ///< bookkeeping
    std::size_t returned = 0;  ///< address space without memory
    std::size_t held = 0;      ///< what the limits count
    std::size_t peak = 0;      ///< the largest held
    std::size_t soft_limit = 0;
    std::size_t hard_limit = 0;
    std::uint64_t refusals = 0;  ///< by the hard limit, the heap's or the process's
    std::size_t threads = 0;     ///< with a cache
  };

  /// \errors  std::bad_alloc if there is no memory for it, kMostHeaps exist, or the process has no
  ///          key of the C library (pthread_key_create) left; std::invalid_argument if the soft
  ///          limit is above the hard one, checks or huge_pages is none of its values, or pages
  ///          lacks map or unmap. Without exceptions the sentence ends the program: use
  ///          try_create().
  /// \cost    Microseconds. Memory is taken at the first allocation.
  STRATA_MAY_REFUSE explicit Heap(const Options& options)
      : Heap(detail::made_or_refused(
            [&](const char** reason) { return try_create(options, reason); }, kNoMemory, kTooMany,
            kNoKey)) {}
  STRATA_MAY_REFUSE Heap() : Heap(Options()) {}

  /// The same without exceptions.
  /// \returns  The heap, or nothing; then *reason is one sentence in static memory.
  static std::optional<Heap> try_create(const Options& options,
                                        const char** reason = nullptr) noexcept;

  /// Frees all memory, live blocks included.
  /// \threads  No thread may be inside a call or call again. Threads that used the heap may live
  ///           on.
  /// \cost     A system call for each 2 MiB of small and large blocks, for each block above 1 MiB,
  ///           and for each 64 KiB of bookkeeping.
  ~Heap() { end(); }
  /// `other` has no memory afterwards: it refuses every request.
  Heap(Heap&& other) noexcept
      : entry_(std::exchange(other.entry_, kNoEntry)), heap_(std::exchange(other.heap_, nullptr)) {}
  Heap& operator=(Heap&& other) noexcept {
    Heap taken(std::move(other));
    std::swap(entry_, taken.entry_);
    std::swap(heap_, taken.heap_);
    return *this;
  }
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  /// Allocates `bytes` bytes (0 gives a distinct block), aligned to 16.
  /// \returns  The block, contents unspecified; nullptr if a limit or the kernel refuses, or
  ///           `bytes` is above PTRDIFF_MAX.
  [[nodiscard]] void* allocate(std::size_t bytes) noexcept;
  /// The same with all bytes zero.
  [[nodiscard]] void* allocate_zeroed(std::size_t bytes) noexcept {
    return allocate_zeroed(1, bytes);
  }
  /// The same for `count` × `bytes` bytes.
  /// \returns  The block; nullptr also if the product overflows.
  [[nodiscard]] void* allocate_zeroed(std::size_t count, std::size_t bytes) noexcept;
  /// Allocates `bytes` bytes at a multiple of `alignment`.
  /// \returns  The block; nullptr also if the alignment is no power of two.
  [[nodiscard]] void* allocate_aligned(std::size_t bytes, std::size_t alignment) noexcept;

  /// Resizes a block, in place if possible; blocks above 1 MiB are remapped, not copied.
  /// \returns  The block, moved or not, with its contents up to the smaller size; nullptr, and the
  ///           old block untouched, when out of memory. `block` nullptr allocates; bytes == 0 frees
  ///           the block and returns nullptr.
  /// \errors   As deallocate().
  [[nodiscard]] void* reallocate(void* block, std::size_t bytes) noexcept;

  /// Frees a block; ignores nullptr.
  /// \errors  Freeing anything but a live block of this heap ends the program with a sentence on
  ///          standard error when it is detected.
  void deallocate(void* block) noexcept;
  /// Frees a block of known size: the one requested; not for blocks of allocate_aligned().
  /// Checks::kFrees and kFull verify it; otherwise it is not used.
  void deallocate(void* block, std::size_t bytes) noexcept;

  /// A size class, to look up once: allocate() looks it up in each call.
  enum class SizeClass : std::size_t {
    kNone  ///< of sizes above 160 KiB
  };
  static SizeClass size_class_of(std::size_t bytes) noexcept;
  /// allocate() of the largest size of the class, which is good_size() of each of its sizes.
  /// \returns  The block; nullptr also for kNone.
  /// \pre      size_class_of() returned the class
  /// \cost     a pair with deallocate_raw(): 40 instructions, 42 beyond 32 KiB
  [[nodiscard]] void* allocate_raw(SizeClass size_class) noexcept;
  /// deallocate() of a block from allocate_raw() of this class. Checks::kFrees and kFull verify the
  /// class; otherwise it is not used.
  /// \pre      `block` is not nullptr
  void deallocate_raw(void* block, SizeClass size_class) noexcept;

  /// \returns  The usable bytes of `block`, at least the size requested; 0 for nullptr.
  /// \errors   As deallocate().
  std::size_t usable_size(const void* block) const noexcept;
  /// Resizes a block without moving it, to at least `bytes` usable bytes.
  /// \returns  False, with nothing changed, if it would have to move; under full checks for any
  ///           other size, under checks of frees for less than half of the usable bytes.
  /// \errors   As deallocate().
  bool resize_in_place(void* block, std::size_t bytes) noexcept;
  /// \returns  The usable bytes of allocate(bytes), as a rule: asking for that much costs no more.
  ///           0 if above PTRDIFF_MAX.
  /// \cost     some instructions, no memory
  static std::size_t good_size(std::size_t bytes) noexcept;

  /// True if the address lies anywhere in this heap's memory.
  bool owns(const void* address) const noexcept;

  /// allocate_aligned() under the name that the adapters call.
  void* try_allocate(std::size_t bytes, std::size_t alignment) noexcept {
    return alignment <= kUsualAlignment ? allocate(bytes) : allocate_aligned(bytes, alignment);
  }

  /// Frees every block at once. Memory of blocks up to 1 MiB stays with the heap, idle; that of
  /// larger ones is returned.
  /// \threads  No other thread may be inside a call.
  /// \cost     A visit to each span and each thread's cache; system calls only for blocks above 1
  ///           MiB.
  void reset() noexcept;

  /// Returns all idle memory to the kernel, including all threads' caches.
  /// \returns  true if there was any
  bool release_memory() noexcept;

  /// \returns  The heap's name, or "".
  const char* name() const noexcept;
  /// \cost  A visit to every size class and every thread's cache, each under its lock; waits while
  ///        the reclaiming thread is at this heap.
  Statistics statistics() const noexcept;

  /// Writes all figures as readable text, or as one JSON document, described by
  /// docs/stats-schema.json. Like snprintf, it writes what fits into `size` bytes, the final 0
  /// included. `buffer` may be nullptr if `size` is 0. 16 KiB suffice for either. Allocates
  /// nothing.
  /// \returns  The length of the whole without the 0: below `size` if all of it was written.
  /// \cost     as statistics()
  std::size_t write_statistics(char* buffer, std::size_t size) const noexcept;
  std::size_t write_statistics_json(char* buffer, std::size_t size) const noexcept;

  /// Profiles all heaps, including those made later: which code allocates, and how much of that is
  /// live. Samples carry the name of their heap as the label `heap`. What is live when a heap ends
  /// or is reset counts as freed.
  ///
  /// If the program's malloc is Strata's, linked from the archive beside this one, its profile and
  /// this one are the same: strata_profile_start(), STRATA_PROFILE and STRATA_LEAKS start both. In
  /// other programs STRATA_PROFILE=app.pb.gz writes app.heaps.pb.gz at exit.
  /// \param rate  mean bytes between samples; 1 samples everything. The profile holds all samples
  ///              ever taken at the latest rate
  /// \returns     False if the rate is 0 or above 1 GiB, or there is no memory for it.
  /// \threads     start and stop: one at a time
  /// \cost        Start and stop visit each heap and each thread's use of it. While it is on, a
  ///              pair of calls takes some 180 instructions, and a sample some 5000 more.
  static bool start_profile(std::size_t rate = std::size_t{512} << 10) noexcept;
  /// Stops sampling; the samples stay in the profile.
  static void stop_profile() noexcept;
  /// Writes the samples of the latest rate to a file in pprof's format. A regular file is replaced
  /// once all of it is written.
  /// \param path  %p stands for the process ID
  /// \returns     False after one sentence on standard error that says why, or without one in a
  ///              signal handler that interrupted the malloc or a heap.
  static bool write_profile(const char* path) noexcept;

  /// Aborts unless everything is sound. For tests, while no other thread is inside a call.
  void check_invariants() const noexcept;

 private:
  void* allocate_beyond_table(std::size_t bytes) noexcept;
  void* allocate_uncached(std::size_t bytes) noexcept;

  static const char kNoMemory[];
  static const char kTooMany[];
  static const char kNoKey[];
  static const std::size_t kNoEntry;
  static constexpr std::size_t kUsualAlignment = 16;

  friend struct ::strata_heap;
  explicit Heap(UserHeap& heap) noexcept;
  void end() noexcept;

  std::size_t entry_;  // where the heap's bins are found in a thread's table
  UserHeap* heap_;     // nullptr: moved from
};

}  // namespace strata
