/* second_thread posix|c11: allocates, and then has a second thread for a moment, which does nothing. */
#include <pthread.h>
#include <stdlib.h>
#include <threads.h>

static void* nothing(void* argument) { return argument; }
static int no_more(void* argument) { return argument != NULL; }

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  void* volatile block = malloc(100);
  free(block);
  if (*argv[1] == 'p') {
    pthread_t thread;
    return pthread_create(&thread, NULL, nothing, NULL) != 0 || pthread_join(thread, NULL) != 0;
  }
  thrd_t thread;
  return thrd_create(&thread, no_more, NULL) != thrd_success ||
         thrd_join(thread, NULL) != thrd_success;
}
