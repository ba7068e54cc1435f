#include "os/page_source.h"

#include <errno.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "os/clock.h"
#include "os/errors.h"
#include "os/system_call.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

namespace strata::os {
namespace {

constexpr int kProtection = PROT_READ | PROT_WRITE;
constexpr int kCountedFlags = MAP_PRIVATE | MAP_ANONYMOUS;
// Flags of addresses that come into use page by page: their length says nothing about the memory
// they take.
constexpr int kFlags = kCountedFlags | MAP_NORESERVE;

/// Maps a range with this access, between two more OS pages.
/// \returns  The range between the two.
void* map_with_edges(std::size_t bytes, int protection) noexcept {
  const std::size_t page = page_bytes();
  if (bytes > SIZE_MAX - 2 * page) return nullptr;
  void* const all = system_call::map(nullptr, bytes + 2 * page, protection, kFlags);
  return all == MAP_FAILED ? nullptr : static_cast<char*>(all) + page;
}

static_assert(sizeof(PageRange) == sizeof(iovec) &&
                  offsetof(PageRange, address) == offsetof(iovec, iov_base) &&
                  offsetof(PageRange, bytes) == offsetof(iovec, iov_len),
              "the kernel reads ranges as they are");

/// False once the kernel has shown that it does not decommit several ranges by one call.
/// relaxed: a thread that does not know yet finds out.
constinit std::atomic<bool> g_decommits_at_once{!system_call::kIsFollowed};

/// One call takes 2 GiB at most, so a longer range is not done by it.
/// \param is_refused  set to whether the kernel took none of any range
/// \returns  how many ranges, from the first on, went back by one call
std::size_t decommit_at_once(const PageRange* ranges, std::size_t count,
                             bool& is_refused) noexcept {
  constexpr std::size_t kMostAtOnce = 1024;  // UIO_MAXIOV
  count = std::min(count, kMostAtOnce);
  ssize_t left =
      system_call::advise_each(reinterpret_cast<const iovec*>(ranges), count, MADV_DONTNEED);
  is_refused = left < 0;
  std::size_t done = 0;
  while (done != count && left >= static_cast<ssize_t>(ranges[done].bytes))
    left -= static_cast<ssize_t>(ranges[done++].bytes);
  return done;
}

/// False once the kernel has refused a move to a place of our choice: each refusal may leave the
/// place reserved. relaxed: a thread that does not know yet reserves one, too.
constinit std::atomic<bool> g_chooses_places{true};

/// Addresses that one page table maps, which are those of a huge page.
std::size_t page_table_bytes() noexcept { return page_bytes() / sizeof(void*) * page_bytes(); }

/// Reserves `bytes` of addresses that lie in page tables as `address` does.
/// \returns  nullptr if the kernel refuses
void* reserve_place_like(void* address, std::size_t bytes) noexcept {
  const std::size_t table = page_table_bytes();
  if (bytes + table < bytes) return nullptr;
  auto* const start = static_cast<char*>(kernel::reserve(bytes + table));
  if (start == nullptr) return nullptr;
  const std::size_t before =
      (reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(start)) &
      (table - 1);
  if (before != 0) system_call::unmap(start, before);
  system_call::unmap(start + before + bytes, table - before);
  return start + before;
}

/// Lengthens a long mapping where it is, or moves it to such a place that the kernel moves whole
/// page tables and huge pages. At a place of its own choice, it splits huge pages, and moves all
/// pages one by one: 256 MiB take nine times as long, with huge pages twenty times.
/// \returns  MAP_FAILED, with the mapping as it was, if it cannot
void* grow_by_page_tables(void* address, std::size_t old_bytes, std::size_t new_bytes) noexcept {
  void* p = system_call::remap(address, old_bytes, new_bytes, 0);
  // EFAULT: these are two mappings, which the kernel does not move.
  if (p != MAP_FAILED || errno != ENOMEM) return p;
  void* const place = reserve_place_like(address, new_bytes);
  if (place == nullptr) return MAP_FAILED;
  p = system_call::remap_to(address, old_bytes, new_bytes, place);
  // Accepted loss: these addresses. Whether the kernel has unmapped them before it refused is not
  // known, so something else may lie there by now.
  if (p == MAP_FAILED) g_chooses_places.store(false, std::memory_order_relaxed);
  return p;
}

}  // namespace

// It contains only its table of functions, which the loader makes read-only.
[[gnu::section(".data.rel.ro.pages")]] constinit KernelPages detail::g_kernel_pages;

std::size_t page_bytes() noexcept {
  static constinit std::atomic<std::size_t> cached{0};
  // relaxed: every thread computes the same value.
  std::size_t bytes = cached.load(std::memory_order_relaxed);
  if (bytes == 0) {
    // Not sysconf: it lies in a part of the C library that a small program needs for nothing else.
    bytes = static_cast<std::size_t>(getauxval(AT_PAGESZ));
    cached.store(bytes, std::memory_order_relaxed);
  }
  return bytes;
}

std::size_t resident_bytes_in(const void* address, std::size_t bytes) noexcept {
  SavedErrno keep;
  const std::size_t page = page_bytes();
  unsigned char states[4096];
  // Room for an answer for each 4 KiB: an emulator of larger pages answers for those of its host.
  const std::size_t step = sizeof states * 4096;
  std::size_t resident = 0;
  auto* at = static_cast<char*>(const_cast<void*>(address));
  for (std::size_t left = bytes; left != 0;) {
    const std::size_t part = left < step ? left : step;
    if (syscall(SYS_mincore, at, part, states) != 0) return bytes;
    for (std::size_t i = 0; i < part / page; ++i) resident += (states[i] & 1) * page;
    at += part;
    left -= part;
  }
  return resident;
}

bool is_mostly_touched(const void* address, std::size_t bytes) noexcept {
  SavedErrno keep;
  return system_call::are_filtered() || resident_bytes_in(address, bytes) >= bytes - bytes / 4;
}

bool is_hardly_touched(const void* address, std::size_t bytes) noexcept {
  constexpr std::size_t kMostAsked = std::size_t{64} << 20;
  constexpr std::size_t kHardly = 16;  // chosen: as a part of the range
  SavedErrno keep;
  // A filter may end the process for a call that a malloc seldom makes.
  if (bytes > kMostAsked || system_call::are_filtered()) return false;
  // What is in use is so in the middle, too, mostly: one page is asked for before all of them.
  const std::size_t page = page_bytes();
  const char* const middle = static_cast<const char*>(address) + (bytes / 2 & ~(page - 1));
  return resident_bytes_in(middle, page) == 0 &&
         resident_bytes_in(address, bytes) < bytes / kHardly;
}

namespace kernel {

void* map(std::size_t bytes) noexcept {
  SavedErrno keep;
  void* p = system_call::map(nullptr, bytes, kProtection, kFlags);
  return p == MAP_FAILED ? nullptr : p;
}

void* map_counted(std::size_t bytes) noexcept {
  SavedErrno keep;
  void* p = system_call::map(nullptr, bytes, kProtection, kCountedFlags);
  return p == MAP_FAILED ? nullptr : p;
}

void* map_apart(std::size_t bytes) noexcept {
  SavedErrno keep;
  void* const inside = map_with_edges(bytes, PROT_NONE);
  if (inside == nullptr || system_call::protect(inside, bytes, kProtection) == 0) return inside;
  const std::size_t page = page_bytes();
  system_call::unmap(static_cast<char*>(inside) - page, bytes + 2 * page);
  return nullptr;
}

bool unmap_apart(void* address, std::size_t bytes) noexcept {
  const std::size_t page = page_bytes();
  return unmap(static_cast<char*>(address) - page, bytes + 2 * page);
}

MapAt map_at(void* address, std::size_t bytes) noexcept {
  SavedErrno keep;
  void* p = system_call::map(address, bytes, kProtection, kFlags | MAP_FIXED_NOREPLACE);
  // EAGAIN: new memory would be locked (mlockall), and no more may be.
  if (p == MAP_FAILED) return errno == ENOMEM || errno == EAGAIN ? MapAt::kNoMemory : MapAt::kInUse;
  if (p == address) return MapAt::kMapped;
  system_call::unmap(p, bytes);  // a kernel before 4.17 takes the address for a hint
  return MapAt::kInUse;
}

bool unmap(void* address, std::size_t bytes) noexcept {
  SavedErrno keep;
  // Neighbouring mappings of ours are one to the kernel, and cutting a piece out of it fails at
  // vm.max_map_count. Then the range is decommitted at least; only its addresses are lost.
  if (system_call::unmap(address, bytes) == 0) return true;
  system_call::advise(address, bytes, MADV_DONTNEED);
  return false;
}

bool decommit(void* address, std::size_t bytes) noexcept {
  SavedErrno keep;
  return system_call::advise(address, bytes, MADV_DONTNEED) == 0;
}

void decommit_each(PageRange* ranges, std::size_t count) noexcept {
  SavedErrno keep;
  bool is_at_once = count > 1 && g_decommits_at_once.load(std::memory_order_relaxed) &&
                    !system_call::are_filtered();
  PageRange* const end = ranges + count;
  while (ranges != end) {
    bool is_refused = false;
    if (is_at_once) {
      const std::size_t done =
          decommit_at_once(ranges, static_cast<std::size_t>(end - ranges), is_refused);
      ranges += done;
      if (done != 0) continue;
    }
    if (system_call::advise(ranges->address, ranges->bytes, MADV_DONTNEED) != 0) {
      ranges->bytes = 0;
    } else if (is_refused) {
      is_at_once = false;
      g_decommits_at_once.store(false, std::memory_order_relaxed);
    }
    ++ranges;
  }
}

std::uint64_t touch(void* address) noexcept {
  const std::uint64_t before = thread_cpu_ns();
  *static_cast<volatile char*>(address) = 0;
  return thread_cpu_ns() - before;
}

void advise_huge(void* address, std::size_t bytes) noexcept {
  SavedErrno keep;
  system_call::advise(address, bytes, MADV_HUGEPAGE);
}

void advise_small(void* address, std::size_t bytes) noexcept {
  SavedErrno keep;
  system_call::advise(address, bytes, MADV_NOHUGEPAGE);
}

void* remap(void* address, std::size_t old_bytes, std::size_t new_bytes) noexcept {
  SavedErrno keep;
  const bool grows = new_bytes > old_bytes;
  // Chosen: of shorter ones, the pages take no longer than the calls that find a place.
  const bool is_long = old_bytes >= 4 * page_table_bytes();
  void* p = MAP_FAILED;
  if (grows && is_long && g_chooses_places.load(std::memory_order_relaxed))
    p = grow_by_page_tables(address, old_bytes, new_bytes);
  if (p == MAP_FAILED)
    p = system_call::remap(address, old_bytes, new_bytes, grows ? MREMAP_MAYMOVE : 0);
  return p == MAP_FAILED ? nullptr : p;
}

void* reserve(std::size_t bytes) noexcept {
  SavedErrno keep;
  void* p = system_call::map(nullptr, bytes, PROT_NONE, kFlags);
  return p == MAP_FAILED ? nullptr : p;
}

namespace {

[[gnu::noinline]] void leave_out_of_core_files(void* range, std::size_t bytes) noexcept {
  const std::size_t page = page_bytes();
  system_call::advise(static_cast<char*>(range) - page, bytes + 2 * page, MADV_DONTDUMP);
}

}  // namespace

void* reserve_readable(std::size_t bytes) noexcept {
  // Chosen: debuggers write what can be read into their core files, zeros or not. What a malloc
  // reserves at its start, 80 MiB, is not worth a system call of every process.
  constexpr std::size_t kTooMuchForACore = std::size_t{1} << 30;
  SavedErrno keep;
  void* const range = map_with_edges(bytes, PROT_READ);
  if (range != nullptr && bytes >= kTooMuchForACore) leave_out_of_core_files(range, bytes);
  return range;
}

bool commit(void* address, std::size_t bytes) noexcept {
  SavedErrno keep;
  return system_call::protect(address, bytes, kProtection) == 0;
}

bool protect(void* address, std::size_t bytes) noexcept {
  SavedErrno keep;
  // A new mapping over the old one: takes the memory and the access away in one call.
  return system_call::map(address, bytes, PROT_NONE, kFlags | MAP_FIXED) != MAP_FAILED;
}

}  // namespace kernel

void* PageSource::map_and_trim(std::size_t bytes, std::size_t alignment, Use use) noexcept {
  const auto map_all = [&](std::size_t all) {
    return use == Use::kWhole ? kernel::map_counted(all) : map(all);
  };
  if (alignment <= page_bytes()) return map_all(bytes);
  const std::size_t padded = bytes + alignment - page_bytes();
  if (padded < bytes) return nullptr;
  auto* raw = static_cast<char*>(map_all(padded));
  if (raw == nullptr) return nullptr;
  const std::size_t head = -reinterpret_cast<std::uintptr_t>(raw) & (alignment - 1);
  const std::size_t tail = padded - head - bytes;
  const bool has_cut_head = head == 0 || unmap(raw, head);
  if (has_cut_head && (tail == 0 || unmap(raw + head + bytes, tail))) return raw + head;
  // The kernel has no mapping left to cut an end off. What it has just mapped it can mostly unmap.
  // Accepted loss: where it cannot, the ends' addresses.
  const bool is_gone = has_cut_head ? unmap(raw + head, bytes + tail) : unmap(raw, padded);
  return is_gone ? nullptr : raw + head;
}

}  // namespace strata::os
