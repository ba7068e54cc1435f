#include "report/report_data.h"

#include <filesystem>
#include <iterator>

namespace strata::cli {

void ReportData::add(const std::string& name, std::string_view text) {
  Results results = read_results(name, text);
  rows.insert(rows.end(), std::move_iterator(results.rows.begin()),
              std::move_iterator(results.rows.end()));
  file_of.resize(rows.size(), files.size());
  files.push_back({std::filesystem::path(name).filename().string(), std::move(results.strata),
                   std::move(results.measured), std::move(results.machine)});
}

}  // namespace strata::cli
