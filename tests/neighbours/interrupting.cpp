// A timer's signal handler that allocates, keeps, resizes and frees. It interrupts a thread again
// and again while the malloc holds its locks: nobody waits for itself, no block is handed out
// twice. (This is not promised for the few instructions where malloc and free take no lock. So the
// thread uses sizes that do not have them.)

#include <malloc.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstring>
#include <iterator>

#include "support/check.h"

namespace {

constexpr int kSignals = 2000;
constexpr std::size_t kSizes[] = {16, 1000, 120, 9000, 33, 70'000, 300'000, 500, 64};

struct Kept {
  unsigned char* p;
  std::size_t bytes;
};
Kept g_kept[40];
volatile sig_atomic_t g_signals = 0;
volatile sig_atomic_t g_refused = 0;

void expect_whole(const Kept& kept, unsigned char mark) {
  for (std::size_t i = 0; i < kept.bytes; i += 8)
    CHECK(kept.p[i] == mark, "somebody else has written into the handler's block");
}

void on_signal(int) {
  const auto turn = static_cast<std::size_t>(g_signals);
  g_signals = g_signals + 1;
  Kept& kept = g_kept[turn % std::size(g_kept)];
  const auto mark = static_cast<unsigned char>(turn % std::size(g_kept) + 1);
  if (kept.p != nullptr) {
    expect_whole(kept, mark);
    if (void* moved = realloc(kept.p, kept.bytes + 100)) {
      kept.p = static_cast<unsigned char*>(moved);
      expect_whole(kept, mark);
    }
    free(kept.p);
  }
  kept.bytes = kSizes[turn % std::size(kSizes)];
  kept.p = static_cast<unsigned char*>(turn % 3 == 0 ? calloc(1, kept.bytes) : malloc(kept.bytes));
  if (kept.p == nullptr) {
    g_refused = g_refused + 1;
    return;
  }
  std::memset(kept.p, mark, kept.bytes);
}

}  // namespace

int main() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, nullptr);
  const itimerval often{{0, 200}, {0, 200}};
  setitimer(ITIMER_REAL, &often, nullptr);
  for (unsigned round = 0; g_signals < kSignals; ++round) {
    unsigned char* blocks[12];
    std::size_t bytes[12];
    for (unsigned i = 0; i < 12; ++i) {
      bytes[i] = 170'000 + i * i * 20'000 + round % 64 * 4096;
      blocks[i] = static_cast<unsigned char*>(malloc(bytes[i]));
      CHECK(blocks[i] != nullptr, "malloc failed");
      blocks[i][0] = blocks[i][bytes[i] - 1] = static_cast<unsigned char>(0x80 | i);
    }
    for (unsigned i = 0; i < 12; ++i) {
      CHECK(blocks[i][0] == (0x80 | i) && blocks[i][bytes[i] - 1] == (0x80 | i), "overlap");
      blocks[i] = static_cast<unsigned char*>(realloc(blocks[i], bytes[i] * 2));
      CHECK(blocks[i] != nullptr && blocks[i][bytes[i] - 1] == (0x80 | i), "realloc");
    }
    for (unsigned char* block : blocks) free(block);
    malloc_trim(0);
    static_cast<void>(mallinfo2());
  }
  const itimerval never{};
  setitimer(ITIMER_REAL, &never, nullptr);
  for (std::size_t i = 0; i < std::size(g_kept); ++i) {
    if (g_kept[i].p == nullptr) continue;
    expect_whole(g_kept[i], static_cast<unsigned char>(i + 1));
    free(g_kept[i].p);
  }
  CHECK(g_refused < kSignals / 10, "handlers were refused memory");
  return 0;
}
