#include "describe.h"

#include <boost/version.hpp>
#include <nlohmann/json.hpp>
#include <string_view>

#include "contenders/in_process.h"
#include "harness/scenario.h"

namespace strata::cell {
namespace {

using Json = nlohmann::ordered_json;

const char* name_of(Fits fits) {
  switch (fits) {
    case Fits::kMalloc:
      return "malloc";
    case Fits::kBlocks:
      return "blocks";
    case Fits::kHeaps:
      return "heaps";
    case Fits::kAll:
      return "all";
  }
  return "";
}

const char* name_of(Option::Kind kind) {
  switch (kind) {
    case Option::Kind::kCount:
      return "count";
    case Option::Kind::kReal:
      return "real";
    case Option::Kind::kChoice:
      return "choice";
    case Option::Kind::kChoiceOrFile:
      return "choice-or-file";
    case Option::Kind::kFlag:
      return "flag";
  }
  return "";
}

Json describe(const Option& option) {
  return {{"name", option.name},        {"kind", name_of(option.kind)},
          {"unit", option.unit},        {"default", option.default_value},
          {"lowest", option.lowest},    {"highest", option.highest},
          {"choices", option.choices},  {"ceiling", option.ceiling},
          {"sentence", option.sentence}};
}

/// Whose it is stands at the beginning of its sentence.
std::string version_of(std::string_view sentence) {
  if (sentence.starts_with("boost::")) return "Boost " BOOST_LIB_VERSION;
  if (sentence.starts_with("std::")) return "libstdc++ " + std::to_string(_GLIBCXX_RELEASE);
  return STRATA_VERSION;
}

template <typename... Memories>
void describe_contenders(Json& list, const char* kind, MemoryList<Memories...>) {
  (list.push_back({{"name", Memories::kName},
                   {"kind", kind},
                   {"version", version_of(Memories::kSentence)},
                   {"sentence", Memories::kSentence}}),
   ...);
}

}  // namespace

std::string describe_everything() {
  Json json;
  json["scenarios"] = Json::array();
  for (const Scenario& scenario : scenarios()) {
    Json entry = {{"name", scenario.name},
                  {"purpose", scenario.purpose},
                  {"origin", scenario.origin},
                  {"fits", name_of(scenario.fits)},
                  {"takes_threads", scenario.takes_threads},
                  {"takes_seconds", scenario.takes_seconds},
                  {"settle_s", scenario.settle_s},
                  {"shown", scenario.shown},
                  {"options", Json::array()}};
    for (const Option& option : scenario.options) entry["options"].push_back(describe(option));
    json["scenarios"].push_back(std::move(entry));
  }
  json["contenders"] = Json::array();
  describe_contenders(json["contenders"], "blocks", BlockMemories());
  describe_contenders(json["contenders"], "heaps", HeapMemories());
  return json.dump(1) + "\n";
}

}  // namespace strata::cell
