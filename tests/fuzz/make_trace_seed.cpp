// Writes small traces into a folder, with which a fuzzer of their reader begins.
#include <fstream>
#include <string>

#include "shared/trace/made_trace_test.h"

int main(int argc, char** argv) {
  using namespace strata::trace;
  if (argc != 2) return 2;
  std::ofstream(std::string(argv[1]) + "/small", std::ios::binary) << small_trace();
  MadeTrace made;
  add_random(*made.writer, 1, 300);
  made.writer->end("reason=exit\n");
  std::ofstream(std::string(argv[1]) + "/random", std::ios::binary) << made.bytes;
}
