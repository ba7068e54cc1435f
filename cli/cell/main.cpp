// strata-cell SCENARIO --option=value…     runs one cell of the matrix in this process
// strata-cell --describe                   prints what there is
//
// `strata bench` starts this program once for each run. It contains the toolkit's pools and heaps
// but no malloc: it uses the C library's, or a preloaded one.
#include <boost/version.hpp>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "contenders/in_process.h"
#include "harness/cell.h"
#include "harness/scenario.h"

namespace strata::cell {
namespace {

/// The version of the project that a contender's sentence begins with; ours if it names none.
std::string version_of(std::string_view sentence) {
  if (sentence.starts_with("boost::")) return "Boost " BOOST_LIB_VERSION;
  if (sentence.starts_with("std::")) return "libstdc++ " + std::to_string(_GLIBCXX_RELEASE);
  return STRATA_VERSION;
}

template <typename... Memories>
void describe_contenders(Description& description, Fits kind, MemoryList<Memories...>) {
  (description.contenders.push_back(
       {Memories::kName, kind, version_of(Memories::kSentence), Memories::kSentence}),
   ...);
}

Description describe_everything() {
  Description description;
  for (const auto& [name, load] : loads()) description.scenarios.push_back(load.scenario);
  describe_contenders(description, Fits::kBlocks, BlockMemories());
  describe_contenders(description, Fits::kHeaps, HeapMemories());
  return description;
}

}  // namespace
}  // namespace strata::cell

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
