/* batches <count> <objects> <bytes> <order> [beside]: allocates so many objects of one size and frees
 * them: in order (f), in reverse (r) or in an order without a pattern (x). First as many uncounted
 * times, so that caches have their size; then the counted ones, in batches(). With a fifth word, a
 * second thread does the same by turns at first, and lives on. */
#include <pthread.h>
#include <stdlib.h>

enum { kWarmUps = 16 };

static unsigned long n;
static unsigned long bytes;
static unsigned long* order;
static pthread_barrier_t turn;

static inline __attribute__((always_inline)) void batch(void** objects, unsigned long size) {
  for (unsigned long k = 0; k < n; ++k) objects[k] = malloc(size);
  for (unsigned long k = 0; k < n; ++k) free(objects[order[k]]);
}

/* Never inlined: callgrind begins and ends with it. */
__attribute__((noinline)) void batches(unsigned long count, void** objects, unsigned long size) {
  for (unsigned long i = 0; i < count; ++i) batch(objects, size);
}

static void* beside(void* objects) {
  for (int warm_up = 0; warm_up < kWarmUps; ++warm_up) {
    batch(objects, bytes);
    pthread_barrier_wait(&turn); /* the other's turn begins */
    pthread_barrier_wait(&turn); /* and ends */
  }
  pthread_barrier_wait(&turn); /* the other has been counted */
  return NULL;
}

int main(int argc, char** argv) {
  if (argc != 5 && argc != 6) return 2;
  const int is_beside = argc == 6;
  const unsigned long count = strtoul(argv[1], NULL, 10);
  n = strtoul(argv[2], NULL, 10);
  bytes = strtoul(argv[3], NULL, 10);
  void** const objects = malloc(n * sizeof *objects);
  void** const others = malloc(n * sizeof *others);
  order = malloc(n * sizeof *order);
  if (objects == NULL || others == NULL || order == NULL) return 1;
  /* A stride without a common divisor visits all of them. */
  for (unsigned long k = 0; k < n; ++k)
    order[k] = *argv[4] == 'f' ? k : *argv[4] == 'r' ? n - 1 - k : k * 7919 % n;
  pthread_t thread;
  if (is_beside && (pthread_barrier_init(&turn, NULL, 2) != 0 ||
                    pthread_create(&thread, NULL, beside, others) != 0))
    return 1;
  for (int warm_up = 0; warm_up < kWarmUps; ++warm_up) {
    if (is_beside) pthread_barrier_wait(&turn);
    batch(objects, bytes);
    if (is_beside) pthread_barrier_wait(&turn);
  }
  for (unsigned long i = 0; i < count; ++i) batch(objects, bytes);
  batches(count, objects, bytes);
  if (is_beside) {
    pthread_barrier_wait(&turn);
    pthread_join(thread, NULL);
  }
  return 0;
}
