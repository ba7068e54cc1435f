// Programs that give up their standard error before they end.
//
//   closes_stderr at_exit       closes it in an exit handler, as coreutils do
//   closes_stderr reused FILE   closes every descriptor; their numbers become FILE
//   closes_stderr data FILE     closes the first three, which FILE becomes, and writes to it
//   closes_stderr log FILE      appends to FILE instead
//   closes_stderr dup COUNT     closes the rest, and copies its standard error for a child so often
//   closes_stderr daemon        forks a daemon that closes its own and waits for its input's end
//   closes_stderr exec          becomes another program, which says what descriptors it has
//   closes_stderr titled        writes a title over its arguments and its environment
//   closes_stderr waits         says that it has begun, and waits for its input's end

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "support/check.h"

namespace {

constexpr int kNumbers = 1024;

void close_standard_error() { CHECK(close(STDERR_FILENO) == 0, "there was no standard error"); }

void reuse_all_numbers(const char* path) {
  const int file = open(path, O_WRONLY | O_CREAT, 0600);
  CHECK(file >= 0, "no file");
  for (int fd = 3; fd < kNumbers; ++fd) {
    if (fd != file && fcntl(fd, F_GETFD) >= 0) dup2(file, fd);
  }
  atexit(close_standard_error);
}

/// Like a daemon that opens its files without care for their numbers.
void become_data(const char* path) {
  for (int fd = 0; fd < 3; ++fd) close(fd);
  for (int fd = 0; fd < 3; ++fd) CHECK(open(path, O_RDWR | O_CREAT, 0600) == fd, "no file");
  CHECK(write(STDERR_FILENO, "data", 4) == 4, "no data");
}

void become_a_log(const char* path) {
  const int file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
  CHECK(file >= 0 && dup2(file, STDERR_FILENO) >= 0, "no log");
}

void copy_for_a_child(int count) {
  for (int fd = 3; fd < kNumbers; ++fd) close(fd);
  int last = 0;
  for (int i = 0; i < count; ++i) last = dup(STDERR_FILENO);
  const pid_t child = fork();
  if (child == 0) {
    for (int fd = 3; fd <= last; ++fd) CHECK(fcntl(fd, F_GETFD) >= 0, "a copy is closed");
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && status == 0, "the child lacks one");
}

void await_end_of_input() {
  char byte;
  ssize_t read_bytes = 0;
  do {
    read_bytes = read(STDIN_FILENO, &byte, 1);
  } while (read_bytes > 0 || (read_bytes < 0 && errno == EINTR));
}

void become_a_daemon() {
  if (fork() != 0) return;
  close(STDOUT_FILENO);
  close(STDERR_FILENO);
  await_end_of_input();
}

/// Like a server that shows a title in ps: the arguments and the environment lie one behind the
/// other.
void set_title(char* first, char** environment) {
  char* end = first + std::strlen(first);
  for (; *environment != nullptr; ++environment) end = *environment + std::strlen(*environment);
  std::memset(first, 'y', static_cast<std::size_t>(end - first));
}

void say_what_is_open() {
  for (int fd = 0; fd < kNumbers; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0) printf("%d ", fd);
  }
  printf("\n");
}

}  // namespace

int main(int count, char** arguments) {
  CHECK(opaque(malloc(100)) != nullptr, "no memory");  // live at exit
  const std::string_view what = count > 1 ? arguments[1] : "";
  if (what == "at_exit") atexit(close_standard_error);
  if (what == "reused") reuse_all_numbers(arguments[2]);
  if (what == "data") become_data(arguments[2]);
  if (what == "log") become_a_log(arguments[2]);
  if (what == "dup") copy_for_a_child(std::atoi(arguments[2]));
  if (what == "daemon") become_a_daemon();
  if (what == "exec") {
    char* none[] = {nullptr};
    char list[] = "list";
    char* next[] = {arguments[0], list, nullptr};
    execve(arguments[0], next, none);
    CHECK(false, "the program does not start again");
  }
  if (what == "list") say_what_is_open();
  if (what == "waits") {
    CHECK(write(STDOUT_FILENO, "begun\n", 6) == 6, "nobody reads");
    await_end_of_input();
  }
  if (what == "titled") set_title(arguments[0], environ);
  return 0;
}
