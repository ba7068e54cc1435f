// A program that uses a malloc between two marks, while a supervisor makes system calls fail.
//
//   load blocks|threads|scavenger|reports [FOLDER]   FOLDER: where reports are written
//
// Whatever fails: every block keeps its pattern, a refused request says ENOMEM, what is freed can
// be allocated again, every block is freed in the end, the statistics balance, and no more is held
// than before, except for bookkeeping. The last line says how many requests were refused, and what
// the kernel counts in the end.

#include <errno.h>
#include <pthread.h>

#include <atomic>
#include <new>
#include <string_view>

#include "faults/marks.h"
#include "operations/strata_api.h"
#include "support/memory.h"

#pragma weak strata_stats_print
#pragma weak strata_profile_start
#pragma weak strata_profile_stop
#pragma weak strata_profile_write

namespace {

struct Block {
  unsigned char* p = nullptr;
  std::size_t bytes = 0;
};

enum class How { kMalloc, kCalloc, kAligned, kNew };

std::atomic<std::size_t> g_refused{0};
bool g_keeps_requests = false;  // full checks or guard pages: a block is known by its exact size

unsigned char pattern(const Block& block, std::size_t at) {
  return static_cast<unsigned char>(reinterpret_cast<std::uintptr_t>(&block) / sizeof(Block) * 31 +
                                    at / 16 + 1);
}

/// Calls the function with the offset of each byte that is written and verified. In huge blocks
/// there are few, since each touches a page.
template <typename Function>
void for_places(std::size_t bytes, Function&& function) {
  const std::size_t stride = bytes < 4096 ? 16 : bytes < 64 * kKiB ? 1024 : 16 * kKiB;
  for (std::size_t at = 0; at < bytes; at += stride) function(at);
}

void stamp(const Block& block) {
  for_places(block.bytes, [&](std::size_t at) { block.p[at] = pattern(block, at); });
}

void verify(const Block& block, std::size_t bytes) {
  for_places(block.bytes, [&](std::size_t at) {
    if (at < bytes) CHECK(block.p[at] == pattern(block, at), "a block was damaged");
  });
}

/// Counts a refusal, or verifies that a success left errno alone.
bool is_granted(const void* p) {
  if (p == nullptr) {
    CHECK(errno == ENOMEM, "refused without ENOMEM");
    g_refused.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  CHECK(errno == 0, "errno was changed by a call that succeeded");
  return true;
}

void drop(Block& block) {
  if (block.p == nullptr) return;
  verify(block, block.bytes);
  errno = 0;
  free(block.p);
  CHECK(errno == 0, "free changed errno");
  block = {};
}

void take(Block& block, std::size_t bytes, How how = How::kMalloc, std::size_t alignment = 64) {
  drop(block);
  errno = 0;
  void* p = nullptr;
  switch (how) {
    case How::kMalloc:
      p = malloc(bytes);
      break;
    case How::kCalloc:
      p = calloc(bytes, 1);
      break;
    case How::kAligned:
      p = aligned_alloc(alignment, bytes);
      break;
    case How::kNew:
      try {
        p = ::operator new(bytes);
      } catch (const std::bad_alloc&) {
        g_refused.fetch_add(1, std::memory_order_relaxed);
        return;
      }
      break;
  }
  p = opaque(p);
  if (!is_granted(p)) return;
  block = {static_cast<unsigned char*>(p), bytes};
  if (how == How::kAligned)
    CHECK(reinterpret_cast<std::uintptr_t>(p) % alignment == 0, "a block is misaligned");
  if (how == How::kCalloc)
    for_places(bytes,
               [&](std::size_t at) { CHECK(block.p[at] == 0, "calloc gave what is not 0"); });
  stamp(block);
}

void resize(Block& block, std::size_t bytes) {
  if (block.p == nullptr) return take(block, bytes);
  errno = 0;
  const bool shrinks = bytes <= block.bytes;
  auto* p = static_cast<unsigned char*>(opaque(realloc(block.p, bytes)));
  if (!is_granted(p)) {
    CHECK(!shrinks || g_keeps_requests, "a block could not become smaller");
    return verify(block, block.bytes);
  }
  // The stride depends on the size, so the old size verifies what was stamped with it.
  block.p = p;
  verify(block, bytes);
  block.bytes = bytes;
  stamp(block);
}

constexpr std::size_t kBlocks = 1200;
Block g_blocks[kBlocks];

void drop_all() {
  for (Block& block : g_blocks) drop(block);
}

constexpr std::size_t kSmall[] = {16, 100, 1000, 5000, 40'000, 131'072};
constexpr std::size_t kLarge[] = {140'000, 300'000, 1'000'000};

std::size_t mixed_size(std::size_t i) {
  // Few blocks are longer than a page: all 1200 together hold some 5 MiB.
  if (i % 97 == 0) return kLarge[i / 97 % 3];
  if (i % 13 == 0) return kSmall[4 + i / 13 % 2] / 2;
  return kSmall[i % 4];
}

void blocks(const char*) {
  Block huge[4];
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < kBlocks; ++i)
      take(g_blocks[i], mixed_size(i), static_cast<How>(i % 4));
    take(huge[0], 3 * kMiB);
    take(huge[1], 5 * kMiB + 1, How::kCalloc);
    take(huge[2], 2 * kMiB, How::kAligned, 4 * kMiB);
    resize(huge[0], 6 * kMiB);
    take(huge[3], 17 * kMiB, How::kNew);
    resize(huge[3], 2 * kMiB);
    resize(huge[1], 300'000);
    // The neighbours of blocks that stay, so that there are holes.
    for (std::size_t i = 0; i < kBlocks; ++i)
      if (i % 8 != 0) drop(g_blocks[i]);
    strata_release_memory();
    for (std::size_t i = 0; i < kBlocks; i += 40) resize(g_blocks[i], mixed_size(i + 97) * 3);
    drop(huge[0]);
    take(huge[0], 4 * kMiB, How::kCalloc);
    for (Block& block : huge) drop(block);
    malloc_trim(0);
  }
  drop_all();
}

/// Replaces a share of the blocks. The next thread, or the main one, drops them.
void* one_thread(void* first) {
  mark(Mark::kResume);
  auto* const share = static_cast<Block*>(first);
  for (std::size_t i = 0; i < kBlocks / 4; ++i) {
    drop(share[i]);
    take(share[i], mixed_size(i) / 2 + 1);
  }
  return nullptr;
}

void threads(const char*) {
  for (int round = 0; round < 3; ++round) {
    for (std::size_t first = 0; first < kBlocks; first += kBlocks / 4) {
      // Starting the thread is not the allocator's work.
      mark(Mark::kPause);
      pthread_t thread;
      CHECK(pthread_create(&thread, nullptr, one_thread, &g_blocks[first]) == 0, "no thread");
      pthread_join(thread, nullptr);
      mark(Mark::kResume);
    }
    for (std::size_t i = 0; i < kBlocks; i += 2) drop(g_blocks[i]);
    strata_release_memory();
  }
  drop_all();
}

void scavenger(const char*) {
  Block huge[2];
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < kBlocks; ++i) take(g_blocks[i], mixed_size(i));
    take(huge[0], 9 * kMiB);
    take(huge[1], 12 * kMiB);
    for (std::size_t i = 0; i < kBlocks; ++i)
      if (i % 8 != 0) drop(g_blocks[i]);
    drop(huge[0]);
    drop(huge[1]);
    // This is about what the scavenger does, so it gets the time for some rounds. No round is
    // waited for.
    mark(Mark::kPause);
    usleep(25'000);
    mark(Mark::kResume);
    drop_all();
  }
}

void reports(const char* folder) {
  char path[4096];
  snprintf(path, sizeof path, "%s/profile.%%p.pb.gz", folder);
  strata_stats_print();
  CHECK(strata_profile_start(4096) == 1, "a profile is refused");
  for (std::size_t i = 0; i < kBlocks; ++i) take(g_blocks[i], mixed_size(i));
  for (std::size_t i = 0; i < kBlocks; i += 2) drop(g_blocks[i]);
  const bool is_written = strata_profile_write(path) == 1;
  snprintf(path, sizeof path, "%s/profile.%d.pb.gz", folder, getpid());
  mark(Mark::kPause);
  CHECK((access(path, F_OK) == 0) == is_written, "the profile is not what was answered");
  unlink(path);
  mark(Mark::kResume);
  strata_profile_stop();
  drop_all();
  strata_stats_print();
}

/// The statistics at one moment.
struct Figures {
  const char* statistics = stats_json();
  std::size_t mapped = stats_number("mapped", statistics);
  std::size_t live = stats_number("live", statistics);
  std::size_t cached = stats_number("cached", statistics);
  std::size_t free = stats_number("free", statistics);
  std::size_t metadata = stats_number("metadata", statistics);
  std::size_t returned = stats_number("returned", statistics);
  std::size_t held = stats_number("held_bytes", statistics);

  bool add_up() const {
    return mapped == live + cached + free + metadata + returned && held == mapped - returned;
  }
};

/// Returns everything idle; then the statistics add up, and at most `most_live` bytes are live. The
/// allocator's own thread may still be at work: it gets a minute to come to rest.
Figures at_rest(std::size_t most_live) {
  Figures now;
  for (int tries = 0; tries < 20'000; ++tries) {
    strata_release_memory();
    now = Figures();
    if (now.add_up() && now.live <= most_live) return now;
    usleep(3000);
  }
  CHECK(now.add_up(), "the statistics do not add up");
  CHECK(now.live <= most_live, "something that was freed is counted as live");
  return now;
}

}  // namespace

int main(int argc, char** argv) {
  mark(Mark::kEnd);  // of the start
  const std::string_view name(argc > 1 ? argv[1] : "");
  const char* const folder = argc > 2 ? argv[2] : "";
  g_keeps_requests = getenv("STRATA_CHECKS") != nullptr || getenv("STRATA_GUARD_RATE") != nullptr;
  void (*const phase)(const char*) = name == "blocks"      ? blocks
                                     : name == "threads"   ? threads
                                     : name == "scavenger" ? scavenger
                                     : name == "reports"   ? reports
                                                           : nullptr;
  CHECK(phase != nullptr, "no such phase");
  mallinfo2();
  CHECK(strata_release_memory != nullptr, "the program does not run on Strata");
  fprintf(stdout, "%s\n", "begins");  // the buffer of standard output is there before the count
  const Figures before = at_rest(~std::size_t{0});

  mark(Mark::kBegin);
  phase(folder);
  mark(Mark::kEnd);

  const std::size_t refused = g_refused.load(std::memory_order_relaxed);
  // The allocator's own threads, and what the C library keeps for threads: some hundred bytes each,
  // which are live while the thread exists.
  const std::size_t more_live = name == "blocks" ? 0 : name == "reports" ? 512 * kKiB : 8 * kKiB;
  const Figures after = at_rest(before.live + more_live);
  CHECK(after.held - after.metadata <= before.held - before.metadata + more_live + kMiB / 2,
        "more is held than before");

  // The program goes on as if nothing had happened.
  g_refused = 0;
  phase(folder);
  const Figures again = at_rest(before.live + 2 * more_live);
  CHECK(g_refused == 0, "a request was refused when nothing failed any more");
  fprintf(stdout, "refused %zu mapped %zu held %zu resident %zu virtual %zu\n", refused,
          again.mapped, again.held, status_bytes("RssAnon"), status_bytes("VmSize"));
  fflush(stdout);
  return 0;
}
