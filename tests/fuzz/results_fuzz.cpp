// Results from a file: whatever can be read can be written, and then reads the same.
#include "choices.h"
#include "input/usage_error.h"
#include "measure/results.h"

STRATA_FUZZ(choices) {
  using namespace strata::cli;
  using strata::fuzz::require;
  std::string written;
  try {
    const Results results = read_results("input", choices.rest());
    results.to_csv();
    written = results.to_json();
  } catch (const UsageError& error) {
    require(std::string_view(error.what()).find("'input'") != std::string_view::npos,
            "an error names the file");
    return;
  }
  const std::string again = read_results("input", written).to_json();
  require(again == written, "what was written reads the same");
}
