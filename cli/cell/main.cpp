// strata-cell SCENARIO --option=value…     runs one cell of the matrix in this process
// strata-cell --describe                   says what there is
//
// Started by `strata bench`, once for each run. It has the pools and heaps of the toolkit and no
// malloc of its own: that is the C library's or what was preloaded.
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "describe.h"
#include "harness/cell.h"

int main(int argc, char** argv) {
  const double entered_s = strata::cell::now_s();
  std::vector<std::string> words(argv + 1, argv + argc);
  try {
    if (!words.empty() && words.front() == "--describe") {
      std::fputs(strata::cell::describe_everything().to_json().c_str(), stdout);
      return 0;
    }
    strata::cell::Cell cell(strata::cell::CellPlan::from_words(words), entered_s);
    cell.run();
    return 0;
  } catch (const std::bad_alloc&) {
    std::fputs("strata-cell: out of memory: there is no room for the load or its tables\n", stderr);
    return 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "strata-cell: %s\n", error.what());
    return 1;
  }
}
