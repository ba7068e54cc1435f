/* A program in C that uses every function of strata/heap.h; heap_in_c_test.cpp runs it. */
#include <strata/heap.h>

#include <errno.h>
#include <stdint.h>
#include <string.h>

/* The first condition that does not hold ends the program; its text is the result. */
#define EXPECT(condition) \
  if (!(condition)) return #condition

const char* use_a_heap_in_c(void);
const char* make_heaps_in_c(void);
const char* place_a_heap_in_c(void);
const char* profile_heaps_in_c(const char* path);

static const char* fill_a_limited_heap(strata_heap* heap) {
  size_t blocks = 0;
  while (strata_heap_malloc(heap, 300000) != NULL) ++blocks;
  EXPECT(errno == ENOMEM);
  EXPECT(blocks > 10);
  strata_heap_statistics now;
  strata_heap_statistics_of(heap, &now);
  EXPECT(now.hard_limit == 8u << 20);
  EXPECT(now.held <= now.hard_limit && now.peak <= now.hard_limit);
  EXPECT(now.refusals > 0 && now.live >= blocks * 300000 && now.threads == 1);
  EXPECT(now.mapped == now.live + now.cached + now.free + now.metadata + now.returned);
  strata_heap_reset(heap);
  strata_heap_statistics_of(heap, &now);
  EXPECT(now.live == 0);
  EXPECT(strata_heap_release_memory(heap));
  return NULL;
}

static const char* write_about(strata_heap* heap) {
  char text[16384];
  EXPECT(strata_heap_stats_text(heap, text, sizeof text) == strlen(text));
  EXPECT(strstr(text, "statistics of the heap 'session' of process ") != NULL);
  const size_t length = strata_heap_stats_json(heap, text, sizeof text);
  EXPECT(length == strlen(text) && text[0] == '{' && text[length - 1] == '}');
  EXPECT(strstr(text, "\"name\":\"session\"") != NULL);
  EXPECT(strata_heap_stats_json(heap, NULL, 0) > 500);
  return NULL;
}

const char* use_a_heap_in_c(void) {
  strata_heap_options options = {0};
  options.name = "session";
  options.hard_limit_bytes = 8u << 20;
  const char* reason = "unset";
  strata_heap* heap = strata_heap_create(&options, &reason);
  EXPECT(heap != NULL && reason == NULL);
  EXPECT(strcmp(strata_heap_name(heap), "session") == 0);

  char* block = strata_heap_malloc(heap, 100);
  EXPECT(block != NULL && strata_heap_owns(heap, block) && !strata_heap_owns(heap, &heap));
  EXPECT(strata_heap_usable_size(heap, block) == strata_heap_good_size(100));
  memset(block, 'x', 100);
  block = strata_heap_realloc(heap, block, 200000);
  EXPECT(block != NULL && block[99] == 'x');
  EXPECT(strata_heap_resize_in_place(heap, block, 150000));
  strata_heap_free(heap, block);
  strata_heap_free(heap, NULL);

  unsigned char* zeroed = strata_heap_calloc(heap, 10, 100);
  for (int i = 0; i < 1000; ++i) EXPECT(zeroed[i] == 0);
  strata_heap_free_sized(heap, zeroed, 1000);
  errno = 0;
  EXPECT(strata_heap_calloc(heap, SIZE_MAX / 2, 3) == NULL && errno == ENOMEM);

  const size_t size_class = strata_heap_size_class(100);
  void* raw = strata_heap_malloc_raw(heap, size_class);
  EXPECT(strata_heap_usable_size(heap, raw) == 112);
  strata_heap_free_raw(heap, raw, size_class);
  EXPECT(strata_heap_size_class(200000) == 0 && strata_heap_malloc_raw(heap, 0) == NULL);

  void* aligned = strata_heap_aligned_alloc(heap, 4096, 100);
  EXPECT(aligned != NULL && (uintptr_t)aligned % 4096 == 0);
  strata_heap_free(heap, aligned);
  EXPECT(strata_heap_aligned_alloc(heap, 48, 100) == NULL && errno == EINVAL);

  const char* failed = fill_a_limited_heap(heap);
  if (failed == NULL) failed = write_about(heap);
  strata_heap_destroy(heap);
  strata_heap_destroy(NULL);
  return failed;
}

/* A source of one range, in a static buffer. */
enum { kRangeBytes = 2 << 20 };
static char buffer[2 * kRangeBytes];
static int maps, unmaps;

static void* map_range(void* context, size_t bytes, size_t alignment) {
  if (context != buffer || bytes > kRangeBytes || maps != unmaps) return NULL;
  ++maps;
  return buffer + (-(uintptr_t)buffer & (alignment - 1));
}

static void unmap_range(void* context, void* address, size_t bytes) {
  (void)address;
  if (context == buffer && bytes == kRangeBytes) ++unmaps;
}

const char* place_a_heap_in_c(void) {
  maps = unmaps = 0;
  strata_page_source source = {0};
  source.context = buffer;
  source.map = map_range;
  strata_heap_options options = {0};
  options.pages = &source;
  const char* reason = NULL;
  EXPECT(strata_heap_create(&options, &reason) == NULL);
  EXPECT(strcmp(reason, "Heap: its page source lacks map or unmap") == 0);
  source.unmap = unmap_range;
  strata_heap* heap = strata_heap_create(&options, NULL);
  EXPECT(heap != NULL);
  source.map = NULL; /* it was copied */
  char* block = strata_heap_malloc(heap, 100);
  EXPECT(block >= buffer && block < buffer + sizeof buffer);
  EXPECT(maps == 1 && unmaps == 0);
  EXPECT(strata_heap_malloc(heap, 2000000) == NULL && errno == ENOMEM);
  strata_heap_destroy(heap);
  EXPECT(maps == 1 && unmaps == 1);
  return NULL;
}

const char* make_heaps_in_c(void) {
  strata_heap* usual = strata_heap_create(NULL, NULL);
  EXPECT(usual != NULL && strcmp(strata_heap_name(usual), "") == 0);
  strata_heap_options options = {0};
  options.checks_fully = true;
  options.keeps_idle_memory = true;
  strata_heap* checked = strata_heap_create(&options, NULL);
  EXPECT(checked != NULL);
  EXPECT(strata_heap_usable_size(usual, strata_heap_malloc(usual, 100)) == 112);
  EXPECT(strata_heap_usable_size(checked, strata_heap_malloc(checked, 100)) == 100);
  strata_heap_destroy(usual);
  strata_heap_destroy(checked);
  options.soft_limit_bytes = 2;
  options.hard_limit_bytes = 1;
  const char* reason = NULL;
  EXPECT(strata_heap_create(&options, &reason) == NULL);
  EXPECT(strcmp(reason, "Heap: the soft limit is above the hard one") == 0);
  return NULL;
}

const char* profile_heaps_in_c(const char* path) {
  EXPECT(!strata_heap_profile_start(0));
  EXPECT(!strata_heap_profile_start(((size_t)1 << 30) + 1));
  EXPECT(strata_heap_profile_start((size_t)1 << 30));
  EXPECT(strata_heap_profile_start(1));
  strata_heap* heap = strata_heap_create(NULL, NULL);
  EXPECT(heap != NULL && strata_heap_malloc(heap, 100) != NULL);
  strata_heap_profile_stop();
  strata_heap_profile_stop();
  EXPECT(strata_heap_profile_write(path));
  EXPECT(!strata_heap_profile_write("/nowhere/at/all"));
  EXPECT(!strata_heap_profile_write(""));
  strata_heap_destroy(heap);
  return NULL;
}
