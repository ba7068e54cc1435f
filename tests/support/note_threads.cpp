// Linked into the rooms' tests under the address sanitizer: notes in the file $THREADED_TESTS which
// of them start a thread, themselves or in a child. The thread sanitizer runs those.
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace {

void note_the_test() {
  static std::atomic<bool> is_noted{false};
  const char* const file = std::getenv("THREADED_TESTS");
  const testing::TestInfo* const test = testing::UnitTest::GetInstance()->current_test_info();
  if (file == nullptr || test == nullptr || is_noted.exchange(true)) return;
  const int descriptor = open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor < 0 || dprintf(descriptor, "%s.%s\n", test->test_suite_name(), test->name()) < 0) {
    std::perror(file);
    std::abort();
  }
  close(descriptor);
}

}  // namespace

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*body)(void*), void* argument) {
  static const auto create =
      reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  note_the_test();
  return create(thread, attributes, body, argument);
}
