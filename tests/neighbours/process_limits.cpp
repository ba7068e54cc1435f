// Limits of the process with which the malloc must work: of address space and data, set before the
// program starts or while it runs, and threads with the smallest possible stack.
//
// usage: process_limits; it runs itself with the limits that exist from the start

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "support/check.h"
#include "support/child.h"
#include "support/memory.h"

namespace {

/// Makes the calls that need most stack, and itself needs little.
void* work(void*) {
  void* blocks[64];
  std::size_t count = 0;
  for (const std::size_t bytes : {1, 100, 1000, 9000, 130'000, 300'000, 3'000'000}) {
    for (int i = 0; i < 9; ++i) {
      blocks[count] = malloc(bytes);
      CHECK(blocks[count] != nullptr, "malloc failed");
      static_cast<char*>(blocks[count++])[0] = 1;
    }
  }
  while (count != 0) free(realloc(blocks[--count], 5000));
  for (int i = 0; i < 1000; ++i) free(opaque(malloc(static_cast<std::size_t>(i) * 10)));
  free(opaque(calloc(3, 70'000)));
  void* aligned = nullptr;
  CHECK(posix_memalign(&aligned, 65536, 100) == 0, "posix_memalign");
  free(aligned);
  malloc_trim(0);
  CHECK(mallinfo2().arena != 0, "mallinfo2");
  return nullptr;
}

/// Allocates blocks until there are none.
/// \returns  how many bytes there were
std::size_t fill(std::size_t block_bytes) {
  std::size_t taken = 0;
  void* last = nullptr;  // a list through the blocks: nothing else allocates
  errno = 0;
  while (void* p = opaque(malloc(block_bytes))) {
    *static_cast<void**>(p) = last;
    last = p;
    taken += block_bytes;
    CHECK(taken < 400 * kMiB, "the limit does not hold");
  }
  CHECK(errno == ENOMEM, "out of memory without ENOMEM");
  while (last != nullptr) {
    void* p = last;
    last = *static_cast<void**>(p);
    free(p);
  }
  free(opaque(malloc(100)));
  return taken;
}

void set_limit(int resource, std::size_t bytes) {
  rlimit limit;
  getrlimit(static_cast<__rlimit_resource_t>(resource), &limit);
  limit.rlim_cur = bytes;
  CHECK(setrlimit(static_cast<__rlimit_resource_t>(resource), &limit) == 0, "setrlimit failed");
}

/// Runs this program with the limit from its first instruction on.
void run_limited(const char* program, int resource, std::size_t bytes, const char* what) {
  expect_in_child(what, [=] {
    set_limit(resource, bytes);
    execl(program, program, "limited", nullptr);
    _exit(100);
  });
}

/// A program that starts under a limit starts under every larger one: no part of the malloc takes
/// so much at once that it leaves nothing for the others.
void expect_no_gap(const char* program) {
  bool has_started = false;
  for (std::size_t bytes = 8 * kMiB; bytes < 48 * kMiB; bytes += kMiB / 2) {
    const int status = status_in_child([=] {
      close(STDERR_FILENO);  // the loader may have no room for the libraries
      set_limit(RLIMIT_AS, bytes);
      execl(program, program, "starting", nullptr);
      _exit(100);
    });
    if (status != 0 && has_started)
      fprintf(stderr, "under %zu KiB it does not start\n", bytes / kKiB);
    CHECK(status == 0 || !has_started, "a program does not start that started under less");
    has_started = status == 0;
  }
  CHECK(has_started, "the program needs 48 MiB to start");
}

/// Allocates what a program needs before its own work begins.
int start() {
  for (const std::size_t bytes : {0, 1, 50, 1000, 9000, 70'000}) {
    if (opaque(malloc(bytes)) == nullptr) return 1;
  }
  return 0;
}

/// In a tight address space, an object of each size still leaves room for a thread's stack.
int touch_every_size() {
  free(opaque(malloc(1)));  // what the malloc takes to start is counted elsewhere
  const std::size_t before = status_bytes("VmSize");
  std::size_t asked = 0;
  for (std::size_t bytes = 16; bytes <= 128 * kKiB; bytes += bytes / 4) {
    CHECK(opaque(malloc(bytes)) != nullptr, "malloc failed");
    asked += bytes;
  }
  const std::size_t taken = status_bytes("VmSize") - before;
  if (taken > 5 * kMiB + asked) fprintf(stderr, "%zu KiB for one of each size\n", taken / kKiB);
  CHECK(taken <= 5 * kMiB + asked, "objects of each size take too much address space");
  return 0;
}

void run_on_small_stacks() {
  for (const std::size_t more : {0, 4096}) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    const auto least = static_cast<std::size_t>(sysconf(_SC_THREAD_STACK_MIN));
    CHECK(pthread_attr_setstacksize(&attributes, least + more) == 0, "a stack's size");
    pthread_t threads[4];
    for (pthread_t& thread : threads)
      CHECK(pthread_create(&thread, &attributes, work, nullptr) == 0, "pthread_create");
    for (pthread_t thread : threads) pthread_join(thread, nullptr);
    pthread_attr_destroy(&attributes);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "starting") == 0) return start();
  if (argc > 1 && std::strcmp(argv[1], "tight") == 0) return touch_every_size();
  if (argc > 1) {
    CHECK(malloc_usable_size(opaque(malloc(1))) <= 16, "the malloc is not Strata's");
    // A part of the limit goes to the program, its libraries, a thread's stack, guarded slots and
    // records.
    rlimit limit;
    getrlimit(RLIMIT_AS, &limit);
    const std::size_t least = limit.rlim_cur < 70 * kMiB || limit.rlim_cur == RLIM_INFINITY
                                  ? 4'000'000
                                  : limit.rlim_cur / 4;
    for (const std::size_t bytes : {4'000'000, 400, 5000, 300'000, 4'000'000, 400}) {
      const std::size_t taken = fill(bytes);
      if (taken < least) fprintf(stderr, "%zu bytes in blocks of %zu\n", taken, bytes);
      CHECK(taken >= least, "memory was out far before the limit");
    }
    return 0;
  }
  run_on_small_stacks();
  expect_no_gap(argv[0]);
  expect_in_child("tight address space", [&] {
    unsetenv("STRATA_CHECKS");  // which take more for each object
    set_limit(RLIMIT_AS, 40 * kMiB);
    execl(argv[0], argv[0], "tight", nullptr);
    _exit(100);
  });
  // Limits from the start: those that people set are far above what the program needs.
  for (const std::size_t mib : {64, 96})
    run_limited(argv[0], RLIMIT_AS, mib * kMiB, "limited address space");
  run_limited(argv[0], RLIMIT_DATA, 96 * kMiB, "limited data");
  // Limits while the program runs, lower than what it already has. Children set them, so that the
  // other tests do not have them.
  expect_in_child("address space that becomes limited", [] {
    free(opaque(malloc(10)));
    set_limit(RLIMIT_AS, status_bytes("VmSize") + 32 * kMiB);
    fill(3000);
    set_limit(RLIMIT_AS, 16 * kMiB);
    void* p = opaque(malloc(100'000'000));
    CHECK(p == nullptr && errno == ENOMEM, "memory above the limit");
    fill(3000);
    set_limit(RLIMIT_AS, RLIM_INFINITY);
    work(nullptr);
  });
  expect_in_child("data that become limited", [] {
    set_limit(RLIMIT_DATA, status_bytes("VmData") + 32 * kMiB);
    for (const std::size_t bytes : {3'000'000, 400, 40'000, 3'000'000, 300'000})
      CHECK(fill(bytes) > 8 * kMiB, "memory was out far before the limit");
  });
  return 0;
}
