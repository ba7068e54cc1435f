#include "describe.h"

#include <boost/version.hpp>
#include <string>
#include <string_view>

#include "contenders/in_process.h"
#include "harness/scenario.h"

namespace strata::cell {
namespace {

/// The beginning of its sentence says which project it belongs to.
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

}  // namespace

Description describe_everything() {
  Description description;
  for (const Load& load : loads()) description.scenarios.push_back(load.scenario);
  describe_contenders(description, Fits::kBlocks, BlockMemories());
  describe_contenders(description, Fits::kHeaps, HeapMemories());
  return description;
}

}  // namespace strata::cell
