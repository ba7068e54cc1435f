#pragma once

#include <strata/detail/refuse.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

struct strata_heap;  // of C: strata/heap.h

namespace strata {

class UserHeap;

/// A heap of one's own beside the process's malloc, whatever that is: the same machine with the
/// same speed, with its own limits, numbers and name, for a subsystem, a tenant or a request. All
/// its blocks go at once when it is reset or ends.
///
/// A block may be freed by any thread, but only into its heap: one that is given to another heap
/// ends the program with a sentence that names both; where the malloc is Strata's and linked from
/// the same archive, one that is given to free(), too. A small block is found out when it reaches
/// its span, as any misuse (docs/design.md has the table), a larger one at once.
///
/// A heap that was never used costs some 300 bytes; one with a single block takes 25 KB, of the 128
/// KiB that it then counts as held. Up to kMostHeaps may live at once.
/// Move-only, while no thread is inside a call. A heap may live until the process ends. After
/// fork() it is usable in both processes, as the malloc is. Not for shared memory: its bookkeeping
/// is the process's own, also where its pages are not (PageSource). Heaps that live when exit() is
/// called are verified as the malloc is: what the checks of each can find is found then.
/// \threads  All functions, any number at once, unless said otherwise.
/// \cost     allocate() and deallocate() of up to 1 KiB from the thread's cache: 41 instructions a
///           pair, 6 more than the malloc's. The first use by a thread: some microseconds and 8.6
///           KB, of its first heap 13 KB. Everything else as the malloc.
/// \source   A thread's own part of a heap that all threads share: mimalloc 3 (Leijen, 2024).
class Heap {
 public:
  static constexpr std::size_t kMostHeaps = 32767;
  static constexpr std::size_t kMostNameBytes = 31;

  enum class Checks : std::uint8_t {
    kBasic,  ///< what costs nothing
    kFull,   ///< as STRATA_CHECKS=full: every block is watched; some 50 times the instructions
    kFrees,  ///< as STRATA_CHECKS=frees: every free is verified at once; 197 instructions a pair
  };

  /// When the heap's 2 MiB regions ask the kernel for huge pages.
  enum class HugePages : std::uint8_t {
    kAuto,    ///< once one region more does not matter, where earlier ones are touched
    kAlways,  ///< at their first touch; a heap of few pages then holds 2 MiB
    kNever,
  };

  /// Where a heap's blocks lie, if not where the kernel maps them: in a buffer, a pool of huge
  /// pages, a file, the memory of one node. A heap asks for 2 MiB aligned to 2 MiB, in which its
  /// blocks up to 1 MiB lie, and for each larger block by itself. Blocks up to 1 MiB leave their
  /// range with the heap until it ends; a larger block is given back as soon as it is freed.
  /// Bookkeeping and guarded blocks lie in memory of the process's own, so a range that processes
  /// share serves the blocks of one of them alone.
  ///
  /// `context` is passed to each call and outlives the heap, as does what the calls need.
  /// \threads  Any number of calls at once, with locks of the heap held: they may neither call a
  ///           heap or Strata's malloc, nor wait for a thread that does, nor throw. In the child of
  ///           a fork, purge() of another thread may never have returned.
  struct PageSource {
    void* context = nullptr;
    /// \param bytes      a multiple of an OS page
    /// \param alignment  a power of two, at least an OS page
    /// \returns  The range, readable and writable, which reads as zero and is nobody else's;
    ///           nullptr when there is none: then the allocation is refused.
    /// \errors   What is not aligned, or lies where a heap has blocks up to 1 MiB, is fatal, with
    ///           its sentence.
    void* (*map)(void* context, std::size_t bytes, std::size_t alignment) = nullptr;
    /// Takes back a range as map() gave it, whatever is in it.
    void (*unmap)(void* context, void* address, std::size_t bytes) = nullptr;
    /// Gives the memory of some OS pages up and keeps them mapped. nullptr: it stays, and neither
    /// the thread that reclaims nor release_memory() has anything to return but larger blocks.
    /// \returns  True if they read as zero from now on; false if their memory stays.
    bool (*purge)(void* context, void* address, std::size_t bytes) = nullptr;
  };

  struct Options {
    /// For sentences and statistics; what is beyond kMostNameBytes is cut.
    const char* name = "";
    /// Bytes that the heap may hold, 0 for no limit: pages of its blocks and idle ones, bookkeeping
    /// and caches included. Above the soft limit everything idle goes back at once. What would pass
    /// the hard limit is refused, never by a byte more; below 128 KiB nothing fits.
    ///
    /// Beside these, STRATA_SOFT_LIMIT and STRATA_HARD_LIMIT limit what all heaps of the process
    /// and the malloc, if it is Strata's, hold together. Before that hard limit refuses, every heap
    /// gives back what it has idle, the one with most first.
    std::size_t soft_limit_bytes = 0;
    std::size_t hard_limit_bytes = 0;
    /// A thread that all heaps share returns memory that was idle for half of the delay to the
    /// whole of it, where a heap has 1 MiB of it or more. Otherwise it stays until
    /// release_memory().
    bool reclaims = true;
    std::uint32_t reclaim_delay_ms = 1000;
    Checks checks = Checks::kBasic;
    /// As STRATA_GUARD_RATE: one in so many blocks of up to 1 MiB stands between inaccessible
    /// pages. The first access beyond it, or after its free, ends the program with the stacks of
    /// the access, the allocation and the free. 0: none. A pair of calls takes some 180
    /// instructions then. None either where a hard limit leaves no room for half a MiB besides.
    std::uint32_t guard_rate = 0;
    HugePages huge_pages = HugePages::kAuto;
    /// Copied; nullptr: the kernel. With one, huge_pages has no effect.
    const PageSource* pages = nullptr;
  };

  /// In bytes. At rest: mapped == live + cached + free + metadata + returned, and
  /// held == mapped - returned.
  struct Statistics {
    std::size_t mapped = 0;
    std::size_t live = 0;      ///< owned by the program, rounded up to size classes or pages
    std::size_t cached = 0;    ///< free, in thread caches and transfer caches
    std::size_t free = 0;      ///< free otherwise, and holding memory
    std::size_t metadata = 0;  ///< bookkeeping
    std::size_t returned = 0;  ///< address space without memory
    std::size_t held = 0;      ///< what the limits are about
    std::size_t peak = 0;      ///< the largest held
    std::size_t soft_limit = 0;
    std::size_t hard_limit = 0;
    std::uint64_t refusals = 0;  ///< by the hard limit, the heap's or the process's
    std::size_t threads = 0;     ///< with a cache
  };

  /// \errors  std::bad_alloc if there is no memory for it, or kMostHeaps live;
  ///          std::invalid_argument if the soft limit is above the hard one, checks or huge_pages
  ///          is none of its values, or pages lacks map or unmap. Without exceptions the sentence
  ///          ends the program: use try_create().
  /// \cost    Microseconds. Memory is taken at the first allocation.
  STRATA_MAY_REFUSE explicit Heap(const Options& options)
      : Heap(detail::made_or_refused(
            [&](const char** reason) { return try_create(options, reason); }, kNoMemory,
            kTooMany)) {}
  STRATA_MAY_REFUSE Heap() : Heap(Options()) {}

  /// The same without exceptions.
  /// \returns  The heap, or nothing; then *reason is one sentence in static memory.
  static std::optional<Heap> try_create(const Options& options,
                                        const char** reason = nullptr) noexcept;

  /// Gives everything back, blocks in use included.
  /// \threads  No thread may be inside a call or call again. Those that used it may live on.
  /// \cost     A system call for each 2 MiB of small and large blocks, for each block beyond 1 MiB,
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

  /// Allocates `bytes` bytes (0 gives a block of its own), aligned to 16.
  /// \returns  The block, contents unspecified; nullptr when out of memory, by the limit's word or
  ///           the kernel's, and beyond PTRDIFF_MAX.
  [[nodiscard]] void* allocate(std::size_t bytes) noexcept;
  /// The same with all bytes zero.
  [[nodiscard]] void* allocate_zeroed(std::size_t bytes) noexcept {
    return allocate_zeroed(1, bytes);
  }
  /// The same for `count` × `bytes` bytes.
  /// \returns  nullptr if the product overflows, too.
  [[nodiscard]] void* allocate_zeroed(std::size_t count, std::size_t bytes) noexcept;
  /// Allocates with the start a multiple of `alignment`.
  /// \returns  nullptr if the alignment is no power of two, too.
  [[nodiscard]] void* allocate_aligned(std::size_t bytes, std::size_t alignment) noexcept;

  /// Resizes a block, in place where it can; blocks beyond 1 MiB are remapped, not copied.
  /// \returns  The block, moved or not, its contents kept up to the smaller size; nullptr and the
  ///           old block untouched when out of memory. `block` nullptr allocates; bytes == 0 frees
  ///           it and returns nullptr.
  /// \errors   As deallocate().
  [[nodiscard]] void* reallocate(void* block, std::size_t bytes) noexcept;

  /// Frees a block; nullptr is fine.
  /// \errors  What is no live block of this heap is fatal, with a sentence on standard error, where
  ///          it is seen.
  void deallocate(void* block) noexcept;
  /// The same for a block of known size: as it was asked for, but not with allocate_aligned().
  /// Checks of frees and full checks compare it; otherwise it is not used.
  void deallocate(void* block, std::size_t bytes) noexcept;

  /// A size class: what allocate() finds for a size in each call, to be found once.
  enum class SizeClass : std::size_t {
    kNone  ///< of sizes beyond 160 KiB
  };
  static SizeClass size_class_of(std::size_t bytes) noexcept;
  /// allocate() of the largest size of the class, which good_size() has for each of its sizes.
  /// \returns  nullptr for kNone, too.
  /// \pre      size_class_of() gave the class
  /// \cost     a pair with deallocate_raw(): 38 instructions
  [[nodiscard]] void* allocate_raw(SizeClass size_class) noexcept;
  /// deallocate() of a block from allocate_raw() of this class. Checks of frees and full checks
  /// compare it; otherwise it is not used.
  /// \pre      `block` is not nullptr
  void deallocate_raw(void* block, SizeClass size_class) noexcept;

  /// \returns  Bytes that may be used at `block`, at least what was asked for; 0 for nullptr.
  /// \errors   As deallocate().
  std::size_t usable_size(const void* block) const noexcept;
  /// Makes at least `bytes` bytes usable at `block` where it stands.
  /// \returns  False, and nothing changes, if it would have to move; under full checks for any
  ///           other size, under checks of frees for less than half of what is usable.
  /// \errors   As deallocate().
  bool resize_in_place(void* block, std::size_t bytes) noexcept;
  /// \returns  What allocate(bytes) makes usable, as a rule: asking for as much costs no more. 0 if
  ///           that is beyond PTRDIFF_MAX.
  /// \cost     some instructions, no memory
  static std::size_t good_size(std::size_t bytes) noexcept;

  /// True if the address lies in memory of this heap, wherever in it.
  bool owns(const void* address) const noexcept;

  /// allocate_aligned() by the name that the adapters call a source by.
  void* try_allocate(std::size_t bytes, std::size_t alignment) noexcept {
    return alignment <= kUsualAlignment ? allocate(bytes) : allocate_aligned(bytes, alignment);
  }

  /// Frees every block at once. Memory of blocks up to 1 MiB stays with the heap, idle; that of
  /// larger ones goes back.
  /// \threads  No other thread may be inside a call meanwhile.
  /// \cost     A visit to each span and each thread's cache; no system call but for blocks beyond 1
  ///           MiB.
  void reset() noexcept;

  /// Returns everything idle to the kernel, all threads' caches included.
  /// \returns  true if anything was
  bool release_memory() noexcept;

  /// \returns  As it was given, or "".
  const char* name() const noexcept;
  /// \cost  A visit to every size class and every thread's cache, each under its lock; waits while
  ///        the thread that reclaims is at this heap.
  Statistics statistics() const noexcept;

  /// Writes all figures as text for a person, or as one JSON document, described by
  /// docs/stats-schema.json, as snprintf writes: what fits into `size` bytes, with a 0 after it.
  /// `buffer` may be nullptr if `size` is 0. 16 KiB hold either. Allocates nothing.
  /// \returns  Characters of the whole, the 0 not counted: below `size` if all of it is there.
  /// \cost     as statistics()
  std::size_t write_statistics(char* buffer, std::size_t size) const noexcept;
  std::size_t write_statistics_json(char* buffer, std::size_t size) const noexcept;

  /// A profile of all heaps, those too that are made later: which code allocates, and how much of
  /// it is live, in samples with the name of their heap as the label `heap`. What is left when a
  /// heap ends or is reset counts as freed.
  ///
  /// Where the program's malloc is Strata's, linked from the archive beside this one, its profile
  /// and this one are the same: strata_profile_start() begins both, and so do STRATA_PROFILE and
  /// STRATA_LEAKS. In other programs STRATA_PROFILE=app.pb.gz writes app.heaps.pb.gz at exit.
  /// \param rate  mean bytes between samples; 1 takes everything. The profile holds what was ever
  ///              sampled at the latest one
  /// \returns     False if the rate is 0 or above 1 GiB, or there is no memory for it.
  /// \threads     start and stop: one at a time
  /// \cost        Start and stop visit each heap and each thread's use of it. While it is on, a
  ///              pair of calls takes some 180 instructions, and a sample some 5000 more.
  static bool start_profile(std::size_t rate = std::size_t{512} << 10) noexcept;
  /// Samples no more; what was sampled stays known.
  static void stop_profile() noexcept;
  /// Writes what was sampled at the latest rate to a file in pprof's format. A regular file is
  /// replaced when all is written.
  /// \param path  %p stands for the number of the process
  /// \returns     False after one sentence on standard error that says why.
  static bool write_profile(const char* path) noexcept;

  /// Dies unless everything is sound. For tests, while no other thread is inside a call.
  void check_invariants() const noexcept;

 private:
  void* allocate_beyond_table(std::size_t bytes) noexcept;
  void* allocate_uncached(std::size_t bytes) noexcept;

  static const char kNoMemory[];
  static const char kTooMany[];
  static const std::size_t kNoEntry;
  static constexpr std::size_t kUsualAlignment = 16;

  friend struct ::strata_heap;
  explicit Heap(UserHeap& heap) noexcept;
  void end() noexcept;

  std::size_t entry_;  // where the heap's bins are found in a thread's table
  UserHeap* heap_;     // nullptr: moved from
};

}  // namespace strata
