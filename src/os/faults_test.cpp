#include "os/faults.h"

#include <gtest/gtest.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdio>

#include "os/emulation.h"
#include "os/page_source.h"

// A sanitizer needs the signal for itself.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace strata::os {
namespace {

// For handlers, which take no argument. Every test that installs one does so in a child.
char* g_ours = nullptr;
char* g_theirs = nullptr;
sigjmp_buf g_recovery;

void say(const char* text) { std::fputs(text, stderr); }
void touch(char* p) { *const_cast<volatile char*>(p) = 1; }

void install() {
  install_fault_handler([](const Fault& fault) {
    if (fault.address != g_ours) return false;
    say(fault.access == Fault::Access::kRead ? "ours: a read\n" : "ours\n");
    return true;
  });
}

bool is_blocked() {
  sigset_t now;
  pthread_sigmask(SIG_SETMASK, nullptr, &now);
  return sigismember(&now, SIGSEGV) == 1;
}

void allow_and_return(int number, siginfo_t* info, void*) {
  say(number == SIGSEGV && info->si_addr == g_theirs ? "theirs\n" : "wrong\n");
  kernel_pages().commit(g_theirs, page_bytes());
}
void allow_and_say_what_is_blocked(int) {
  say(is_blocked() ? "blocked\n" : "not blocked\n");
  kernel_pages().commit(g_theirs, page_bytes());
}
void jump_away(int) {
  say("theirs\n");
  siglongjmp(g_recovery, 1);
}

void handle(void (*handler)(int, siginfo_t*, void*), int flags = 0) {
  struct sigaction action = {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | flags;
  sigaction(SIGSEGV, &action, nullptr);
}
void handle(void (*handler)(int), int flags = 0) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigaction(SIGSEGV, &action, nullptr);
}

[[noreturn]] void end_well() {
  say(is_blocked() ? "blocked\n" : "went on\n");
  _Exit(0);
}

struct FaultsDeathTest : ::testing::Test {
  FaultsDeathTest() {
    g_ours = static_cast<char*>(kernel_pages().reserve(page_bytes()));
    g_theirs = static_cast<char*>(kernel_pages().reserve(page_bytes()));
  }
  ~FaultsDeathTest() override {
    kernel_pages().unmap(g_ours, page_bytes());
    kernel_pages().unmap(g_theirs, page_bytes());
  }
  const ::testing::KilledBySignal is_segv{SIGSEGV};
  const ::testing::ExitedWithCode is_well{0};
};

TEST_F(FaultsDeathTest, OursIsToldAndKillsByTheSignal) {
  EXPECT_EXIT((install(), touch(g_ours)), is_segv, said_only("ours\n"));
  handle(allow_and_return);
  EXPECT_EXIT((install(), touch(g_ours)), is_segv, said_only("ours\n"))
      << "whatever was there before";
  handle(SIG_DFL);
}

TEST_F(FaultsDeathTest, AnotherFaultIsWhatItWasWithoutUs) {
  EXPECT_EXIT((install(), touch(g_theirs)), is_segv, said_only(""));
  EXPECT_EXIT((handle(SIG_IGN), install(), touch(g_theirs)), is_segv, said_only(""));
  EXPECT_EXIT((handle(allow_and_return), install(), touch(g_theirs), end_well()), is_well,
              "^theirs\nwent on\n$");
  EXPECT_EXIT(
      {
        handle(jump_away);
        install();
        if (sigsetjmp(g_recovery, 1) == 0) touch(g_theirs);
        if (sigsetjmp(g_recovery, 1) == 0) touch(g_theirs);
        end_well();
      },
      is_well, "^theirs\ntheirs\nwent on\n$");
}

TEST_F(FaultsDeathTest, AHandlerRunsWithItsSignalBlockedUnlessItAskedOtherwise) {
  EXPECT_EXIT((handle(allow_and_say_what_is_blocked), install(), touch(g_theirs), end_well()),
              is_well, "^blocked\nwent on\n$");
  EXPECT_EXIT(
      (handle(allow_and_say_what_is_blocked, SA_NODEFER), install(), touch(g_theirs), end_well()),
      is_well, "^not blocked\nwent on\n$");
}

TEST_F(FaultsDeathTest, AHandlerForOneSignalIsCalledOnce) {
  EXPECT_EXIT(
      {
        handle(jump_away, static_cast<int>(SA_RESETHAND));
        install();
        if (sigsetjmp(g_recovery, 1) == 0) touch(g_theirs);
        touch(g_theirs);
      },
      is_segv, said_only("theirs\n"));
}

TEST_F(FaultsDeathTest, ASignalThatSomebodySentIsNoFault) {
  EXPECT_EXIT((install(), raise(SIGSEGV), end_well()), is_segv, said_only(""));
  EXPECT_EXIT((handle(SIG_IGN), install(), raise(SIGSEGV), end_well()), is_well, "^went on\n$");
}

TEST_F(FaultsDeathTest, AHandlerThatIsInstalledLaterWorksAndMayPassFaultsOn) {
  EXPECT_EXIT((install(), handle(allow_and_return), touch(g_theirs), end_well()), is_well,
              "^theirs\nwent on\n$");
  EXPECT_EXIT(
      {
        install();
        static struct sigaction before;
        sigaction(SIGSEGV, nullptr, &before);
        handle([](int number, siginfo_t* info, void* context) {
          say("passed on\n");
          before.sa_sigaction(number, info, context);
        });
        touch(g_ours);
      },
      is_segv, said_only("passed on\nours\n"));
}

}  // namespace
}  // namespace strata::os

#endif
