#include "measure/result_outputs.h"

#include <fmt/format.h>

#include <cerrno>
#include <exception>
#include <system_error>

#include "input/usage_error.h"
#include "output/say.h"

namespace strata::cli {

ResultOutputs::ResultOutputs(const std::optional<std::string>& json_path,
                             const std::optional<std::string>& csv_path,
                             const std::vector<std::string>& inputs) {
  if (json_path) json_ = std::make_unique<WholeFile>("--json", *json_path, inputs);
  if (csv_path) csv_ = std::make_unique<WholeFile>("--csv", *csv_path, inputs);
  if (!json_ || !csv_) return;
  if (json_->is_standard_output() ? csv_->is_standard_output() : json_->is_same_as(*csv_path)) {
    throw UsageError(fmt::format(
        "--json and --csv cannot both be {}; give one of them another file",
        json_->is_standard_output() ? "standard output" : fmt::format("'{}'", *json_path)));
  }
}

void ResultOutputs::tell_replaced() const {
  for (const WholeFile* file : {json_.get(), csv_.get()}) {
    if (file == nullptr || !file->has_replaced()) continue;
    say("strata: '{}' replaces the results that were in it\n", file->path());
  }
}

void ResultOutputs::publish(const Results& results, const std::function<void(std::FILE*)>& show) {
  std::exception_ptr first;
  auto attempt = [&](auto action) {
    try {
      action();
    } catch (...) {
      if (first == nullptr) first = std::current_exception();
    }
  };
  bool takes_stdout = false;
  for (bool is_last : {false, true}) {  // standard output last: it may be a closed pipe
    for (WholeFile* file : {json_.get(), csv_.get()}) {
      if (file == nullptr || file->is_standard_output() != is_last) continue;
      takes_stdout |= is_last;
      attempt([&] {
        file->write(file == json_.get() ? results.to_json() : results.to_csv());
        file->commit();
      });
    }
  }
  attempt([&] {
    try {
      std::FILE* const stream = takes_stdout ? stderr : stdout;
      show(stream);
      if (std::fflush(stream) != 0) throw std::system_error(errno, std::generic_category());
    } catch (const std::system_error&) {
      if (!takes_stdout) throw;  // otherwise ignored, as in say()
    }
  });
  if (first != nullptr) std::rethrow_exception(first);
}

}  // namespace strata::cli
