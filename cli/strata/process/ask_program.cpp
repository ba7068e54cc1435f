#include "process/ask_program.h"

#include "process/output_capture.h"
#include "process/run_process.h"

namespace strata::cli {
namespace {

/// Such programs take milliseconds; only a hung file system makes one this late.
constexpr double kTimeoutSeconds = 30;

}  // namespace

std::string ask_program(const std::string& program, std::vector<std::string> arguments,
                        Environment environment) {
  OutputCapture output;
  ProcessPlan plan;
  plan.program = program;
  plan.arguments = std::move(arguments);
  plan.environment = std::move(environment);
  plan.output_fd = output.fd();
  plan.timeout_s = kTimeoutSeconds;
  int interruption = 0;
  {
    SignalWatch signals;
    run_process(plan, signals);
    interruption = signals.interruption();
  }
  if (interruption != 0) die_by_signal(interruption);
  return output.head();
}

}  // namespace strata::cli
