// Makes each system call of the allocator fail, one after the other.
//
//   faults [--fault KIND:ERRNO:NTH[+]] [--all] [--start-up] PROGRAM [ARGUMENT]...
//
// First the program runs without faults, and its calls are counted. Then it runs once for each of
// them, and that call fails; then once for some of them, and all calls of that kind fail from this
// one on. Of many calls of one kind only a sample fails, with the first and the last; with --all or
// FAULTS=all, every call with every error. Exit status 77 where the kernel does not let a process
// watch another process's calls.

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "faults/supervisor.h"

namespace {

struct Plan {
  std::vector<std::string> command;
  Window window = Window::kMarked;
  bool is_complete = false;
  std::string only;  // --fault
};

std::string name_of(const Fault& fault) {
  return std::string(call_kinds()[fault.kind].name) + ':' + strerrorname_np(fault.error) + ':' +
         std::to_string(fault.nth) + (fault.and_all_later ? "+" : "");
}

bool parse_fault(const std::string& text, Fault& out) {
  const std::size_t second = text.rfind(':');
  const std::size_t first = second == std::string::npos ? second : text.rfind(':', second - 1);
  if (first == std::string::npos) return false;
  for (std::size_t kind = 0; kind < call_kinds().size(); ++kind) {
    for (const int error : call_kinds()[kind].errors) {
      out = {kind, error, std::strtoull(text.c_str() + second + 1, nullptr, 10),
             text.back() == '+'};
      if (name_of(out) == text) return true;
    }
  }
  return false;
}

/// The numbers 1 to `count`: all of them, or a sample with the first and the last.
std::vector<std::size_t> sample(std::size_t count, std::size_t most) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < std::min(count, most); ++i)
    places.push_back(count <= most ? i + 1 : 1 + i * (count - 1) / (most - 1));
  return places;
}

std::vector<Fault> choose(const Plan& plan, const std::vector<std::size_t>& counts) {
  // Chosen: makes a few hundred runs, which take some seconds.
  const std::size_t most = plan.is_complete ? ~std::size_t{0} : 6;
  std::vector<Fault> faults;
  for (std::size_t kind = 0; kind < counts.size(); ++kind) {
    const std::vector<int>& errors = call_kinds()[kind].errors;
    if (errors.empty()) continue;
    const std::vector<std::size_t> places = sample(counts[kind], most);
    for (std::size_t i = 0; i < places.size(); ++i) {
      for (std::size_t e = 0; e < errors.size(); ++e) {
        if (plan.is_complete || i == 0 || i % errors.size() == e)
          faults.push_back({kind, errors[e], places[i], false});
      }
    }
    for (const std::size_t place : sample(counts[kind], plan.is_complete ? 20 : 3))
      faults.push_back({kind, errors[0], place, true});
  }
  return faults;
}

/// What is wrong with a run; empty if nothing is.
std::string complaint(const Run& run) {
  if (run.is_late) return "it hangs";
  const bool has_exited = WIFEXITED(run.status);
  if (has_exited && WEXITSTATUS(run.status) == 0) return "";
  return has_exited ? "exit status " + std::to_string(WEXITSTATUS(run.status))
                    : "signal " + std::to_string(WTERMSIG(run.status));
}

/// The number after this word in the program's last line.
std::size_t figure(const Run& run, const char* word) {
  const std::size_t line = run.output.rfind("refused ");
  if (line == std::string::npos) return 0;
  const std::size_t at = run.output.find(word, line);
  return at == std::string::npos
             ? 0
             : std::strtoull(run.output.c_str() + at + std::strlen(word), nullptr, 10);
}

/// What a fault left behind, compared with a run without faults; empty if nothing.
std::string leak(const Run& calm, const Run& run) {
  // What is held is exact. Resident memory may differ by a huge page or two, as the kernel likes.
  // Addresses may be lost with aligned mappings whose surplus could not be cut off; it has no
  // memory.
  constexpr std::size_t kMiB = 1 << 20;
  if (figure(run, "held ") > figure(calm, "held ") + kMiB / 4) return "more is held in the end";
  if (figure(run, "resident ") > figure(calm, "resident ") + 4 * kMiB)
    return "more is resident in the end";
  if (figure(run, "virtual ") > figure(calm, "virtual ") + 16 * kMiB) return "addresses are lost";
  return "";
}

/// Whether a death at the start is not the allocator's fault: it says why it ends, or a program
/// that does nothing dies of the same call, which is then the loader's. The loader does not die
/// every time: of a program whose first mmap failed, one run in a hundred survived.
bool is_excused(const Plan& plan, const Run& run, const Fault& fault) {
  const bool is_clear = WIFEXITED(run.status) || WTERMSIG(run.status) == SIGABRT;
  if (is_clear && !run.is_late && !run.output.empty()) return true;
  for (int tries = 0; tries < 3; ++tries) {
    if (run_supervised({"/bin/true"}, plan.window, &fault).status != 0) return true;
  }
  return false;
}

void report(const char* what, const std::string& why, const Run& run) {
  std::printf("FAILED %s: %s\n%s\n", what, why.c_str(), run.output.c_str());
}

int run_plan(const Plan& plan) {
  if (!plan.only.empty()) {
    Fault fault;
    if (!parse_fault(plan.only, fault)) return std::printf("no fault '%s'\n", plan.only.c_str()), 2;
    const Run run = run_supervised(plan.command, plan.window, &fault);
    const std::string why = complaint(run);
    std::printf("%s%zu calls failed. %s\n", run.output.c_str(), run.failed, why.c_str());
    return why.empty() ? 0 : 1;
  }
  const Run calm = run_supervised(plan.command, plan.window, nullptr);
  std::string why = complaint(calm);
  if (why.empty() && plan.window == Window::kMarked) {
    // Only here: at the start, the loader's calls are counted, too.
    if (calm.output.find("refused 0 ") == std::string::npos) why = "memory is refused";
    for (const long number : calm.unknown)
      why = "a system call that no row of call_kinds() names: " + std::to_string(number);
  }
  if (!why.empty()) return report("without a fault", why, calm), 1;
  for (std::size_t kind = 0; kind < calm.counts.size(); ++kind) {
    if (calm.counts[kind] != 0)
      std::printf("%5zu %s\n", calm.counts[kind], call_kinds()[kind].name);
  }
  std::printf("%s", calm.output.c_str());

  std::size_t runs = 0;
  std::size_t reached = 0;
  std::size_t wrong = 0;
  for (const Fault& fault : choose(plan, calm.counts)) {
    const Run run = run_supervised(plan.command, plan.window, &fault);
    ++runs;
    reached += run.failed != 0;
    why = complaint(run);
    if (why.empty() && plan.window == Window::kMarked) why = leak(calm, run);
    if (plan.window == Window::kStartUp && !why.empty() && is_excused(plan, run, fault)) continue;
    if (why.empty()) continue;
    report(name_of(fault).c_str(), why, run);
    ++wrong;
  }
  std::printf("%zu runs, %zu of them with a fault, %zu wrong\n", runs, reached, wrong);
  // Threads may make fewer calls than before, but faults that never happen show nothing.
  return wrong == 0 && reached != 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  Plan plan;
  const char* const depth = std::getenv("FAULTS");
  plan.is_complete = depth != nullptr && std::string(depth) == "all";
  int i = 1;
  for (; i < argc && argv[i][0] == '-'; ++i) {
    const std::string option = argv[i];
    if (option == "--all") plan.is_complete = true;
    if (option == "--start-up") plan.window = Window::kStartUp;
    if (option == "--fault" && i + 1 < argc) plan.only = argv[++i];
  }
  plan.command.assign(argv + i, argv + argc);
  if (plan.command.empty()) return std::printf("no program\n"), 2;
  if (const std::string why = why_not_supervised(); !why.empty())
    return std::printf("SKIPPED: %s\n", why.c_str()), 77;
  return run_plan(plan);
}
