// An environment with any contents: every option that is set is in its range and reads back as it
// was written; an entry that is not understood changes nothing.
#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "choices.h"
#include "malloc/options.h"

extern "C" char** environ;

namespace {

using namespace strata;
using fuzz::require;

/// Discards warnings: nobody reads those of so many environments.
class Silence {
 public:
  Silence() : saved_(::dup(STDERR_FILENO)), nowhere_(::open("/dev/null", O_WRONLY)) {
    ::dup2(nowhere_, STDERR_FILENO);
  }
  ~Silence() {
    ::dup2(saved_, STDERR_FILENO);
    ::close(saved_);
    ::close(nowhere_);
  }
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;

 private:
  int saved_;
  int nowhere_;
};

std::string written(const OptionRow& row, const Options& options) {
  TextWriter text;
  write_value(row, options, text);
  return std::string(text.view());
}

/// The values of options, read back from their text, are the same.
void check(const Options& options) {
  for (const OptionRow row : option_table()) {
    const std::string text = written(row, options);
    Options again;
    // A text may be cut where the writer's room ends; an empty text can only be the default.
    if (row.unit == OptionRow::Unit::kText) continue;
    if (text != written(row, Options()))
      require(set_option(row, text, again), "what an option says can be set");
    else
      again = options;
    require(written(row, again) == text, "and means the same");
  }
}

std::string entry_of(fuzz::Choices& choices) {
  const std::uint8_t kind = choices.byte();
  const auto table = option_table();
  std::string entry;
  if (kind < 200) entry = std::string(kOptionPrefix);
  if (kind < 180) entry += std::string(table[kind % table.size()].name) + "=";
  entry += std::string(choices.text(choices.below(100)));
  return entry.substr(0, entry.find('\0'));
}

}  // namespace

STRATA_FUZZ(choices) {
  std::vector<std::string> entries;
  while (!choices.is_over()) entries.push_back(entry_of(choices));
  std::vector<char*> environment;
  for (std::string& entry : entries) environment.push_back(entry.data());
  environment.push_back(nullptr);
  char** const before = environ;
  environ = environment.data();
  Options options;
  {
    const Silence silence;
    read_options(options);
  }
  check(options);
  for (const OptionRow row : option_table()) {
    Options one;
    const char* const text = option_in_environment(row);
    const std::string unset = written(row, one);
    if (text != nullptr && !set_option(row, text, one))
      require(written(row, one) == unset, "what is refused changes nothing");
    require(written(row, one) == written(row, options), "each option is read by itself");
  }
  environ = before;
}
