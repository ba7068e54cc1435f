#include "report/cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <utility>

#include "contenders/contender.h"
#include "measure/metric.h"
#include "output/text.h"

namespace strata::cli {
namespace {

using Json = nlohmann::ordered_json;

/// Whether the parameter describes the work, not how it was measured.
bool tells_cells_apart(std::string_view name) {
  static const std::set<std::string_view> others = {"runs",  "warmup",      "timeout_s", "seed",
                                                    "label", "sample_rate", "settle_s"};
  return !others.contains(name);
}

std::string spoken_value(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return three_digits(value.get<double>());
  if (value.is_array()) {
    std::string text;
    for (const Json& item : value) append_item(text, spoken_value(item), " ");
    return text;
  }
  return json_line(value);
}

std::string spoken_param(std::string_view name, const Json& value) {
  std::string spoken(name);
  std::ranges::replace(spoken, '_', ' ');
  return fmt::format("{} {}", spoken, spoken_value(value));
}

std::string cell_key(const Row& row) {
  std::map<std::string, std::string> parts;
  for (const auto& [name, value] : row.params.items()) {
    if (tells_cells_apart(name)) {
      parts[name] = json_line(value);
    }
  }
  std::string key = row.scenario;
  for (const auto& [name, value] : parts) key += fmt::format("\n{}={}", name, value);
  return key;
}

/// By scenario, the parameters that differ between its rows, in the order of the rows.
using Varied = std::map<std::string, std::vector<std::string>>;

Varied varied_params(const std::vector<Row>& rows) {
  std::map<std::string, std::map<std::string, std::set<std::string>>> seen;
  std::map<std::string, std::set<std::string>> calls_of;  // by trace
  Varied order;
  for (const Row& row : rows) {
    if (row.params.contains("trace") && row.params.contains("calls")) {
      calls_of[json_line(row.params["trace"])].insert(json_line(row.params["calls"]));
    }
    for (const auto& [name, value] : row.params.items()) {
      if (!tells_cells_apart(name)) continue;
      std::set<std::string>& values = seen[row.scenario][name];
      if (values.empty()) order[row.scenario].push_back(name);
      values.insert(json_line(value));
    }
  }
  // Otherwise a shortened name keeps the number instead of the trace.
  const bool are_told_by_traces =
      std::ranges::all_of(calls_of, [](const auto& entry) { return entry.second.size() == 1; });
  for (auto& [scenario, names] : order) {
    auto& values = seen[scenario];
    std::erase_if(names, [&](const std::string& name) {
      return values[name].size() < 2 ||
             (name == "calls" && values.contains("trace") && are_told_by_traces);
    });
  }
  return order;
}

std::string joined_params(const Json& params, const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    if (!params.contains(name)) continue;
    append_item(text, spoken_param(name, params[name]));
  }
  return text;
}

std::string all_params(const Json& params) {
  std::string text;
  for (const auto& [name, value] : params.items()) {
    append_item(text, spoken_param(name, value), " · ");
  }
  return text;
}

/// Names measurements if a contender did the same more than once: by labels if they distinguish the
/// measurements, else by file. A label that all rows share is ignored.
void name_measurements(ReportData& data) {
  std::set<std::string> labels;
  for (const Row& row : data.rows) labels.insert(row.label);
  std::map<std::string, std::set<std::size_t>> files_of;
  auto who_did_what = [](const Row& row) {
    return fmt::format("{}\n{}\n{}", row.contender, row.label, cell_key(row));
  };
  for (std::size_t i = 0; i < data.rows.size(); ++i) {
    if (labels.size() == 1) data.rows[i].label.clear();
    files_of[who_did_what(data.rows[i])].insert(data.file_of[i]);
  }
  std::set<std::size_t> ambiguous;
  for (const auto& [what, files] : files_of) {
    if (files.size() > 1) ambiguous.insert(files.begin(), files.end());
  }
  for (std::size_t i = 0; i < data.rows.size(); ++i) {
    if (!ambiguous.contains(data.file_of[i])) continue;
    std::string& label = data.rows[i].label;
    const std::string& file = data.files[data.file_of[i]].name;
    label = label.empty() ? file : fmt::format("{}, {}", label, file);
  }
}

/// Cut in the middle if it is longer.
std::string cut_name(const std::string& name, std::size_t longest) {
  if (display_width(name) <= longest || name.size() <= longest) return name;
  const std::size_t tail = longest / 2 - 1;
  return fmt::format("{}…{}", head_of(name, longest - 1 - tail), tail_of(name, tail));
}

std::string unique(std::string wanted, std::set<std::string>& taken) {
  std::string id = wanted;
  for (int i = 2; !taken.insert(id).second; ++i) id = fmt::format("{}-{}", wanted, i);
  return id;
}

class Arranger {
 public:
  explicit Arranger(ReportData data) : varied_(varied_params(data.rows)) {
    result_.data = std::move(data);
  }

  Arrangement arrange() {
    name_series();
    shorten_names();
    count_cores();
    for (const Row& row : result_.data.rows) add(row);
    for (const auto& [scenario, names] : varied_) {
      for (const std::string& name : names) find_sweeps(scenario, name);
    }
    return std::move(result_);
  }

 private:
  /// The system first and Strata second, as readers expect; then in order of appearance.
  void name_series() {
    const std::vector<Row>& rows = result_.data.rows;
    std::vector<std::string> contenders;
    const auto add_those = [&](bool (*is_next)(std::string_view)) {
      for (const Row& row : rows) {
        if (is_next(row.contender)) add_name(contenders, row.contender);
      }
    };
    add_those([](std::string_view name) { return name == kSystem; });
    add_those(names_strata);
    std::vector<std::string> measurements;
    for (const Row& row : rows) {
      add_name(contenders, row.contender);
      if (!row.label.empty()) add_name(measurements, row.label);
    }
    // The first two colours are reserved for the system and Strata, present or not.
    int next = 2;
    bool has_strata = false;
    for (const std::string& contender : contenders) {
      const bool is_strata = names_strata(contender) && !std::exchange(has_strata, true);
      const int look = contender == kSystem ? 0 : is_strata ? 1 : next++;
      add_series(contender, "", look, 0);
      for (std::size_t i = 0; i < measurements.size(); ++i) {
        add_series(contender, measurements[i], look, static_cast<int>(i));
      }
    }
  }

  void count_cores() {
    auto cores_of = [](const ReportFile& file) {
      auto cores = file.machine.find("cores");
      bool is_known = cores != file.machine.end() && cores->is_number_integer();
      return is_known ? cores->get<int>() : 0;
    };
    result_.cores = cores_of(result_.data.files.front());
    for (const ReportFile& file : result_.data.files) {
      if (cores_of(file) != result_.cores) result_.cores = 0;
    }
  }

  void add_series(const std::string& contender, const std::string& measurement, int look,
                  int label) {
    const auto first = std::ranges::find_if(result_.data.rows, [&](const Row& row) {
      return row.contender == contender && row.label == measurement;
    });
    if (first == result_.data.rows.end()) return;
    Series series{contender, measurement, contender, {}, first->version, first->library, {}};
    if (!measurement.empty()) series.name += fmt::format(" ({})", measurement);
    int beyond = look - SeriesStyle::kColours;
    series.style.colour = beyond < 0 ? look : 2 + beyond % (SeriesStyle::kColours - 2);
    series.style.shape = look % 6;
    series.style.label = label;
    result_.series.push_back(std::move(series));
  }

  void shorten_names() {
    constexpr std::size_t kLongest = 16;  // what fits beside a plot
    std::vector<std::string> names;
    for (const Series& series : result_.series) names.push_back(series.name);
    names = fitting_names(names, kLongest);
    for (std::size_t i = 0; i < names.size(); ++i) result_.series[i].short_name = names[i];
  }

  void add(const Row& row) {
    std::string key = cell_key(row);
    auto [place, is_new] = cell_of_.emplace(key, result_.cells.size());
    if (is_new) {
      Cell cell;
      cell.scenario = row.scenario;
      cell.title = joined_params(row.params, varied_[row.scenario]);
      cell.params = all_params(row.params);
      cell.id = unique(slug(cell.name()), ids_);
      result_.cells.push_back(std::move(cell));
    }
    for (std::size_t i = 0; i < result_.series.size(); ++i) {
      const Series& series = result_.series[i];
      if (series.contender != row.contender || series.measurement != row.label) continue;
      result_.cells[place->second].entries.push_back({&row, static_cast<int>(i)});
    }
  }

  void find_sweeps(const std::string& scenario, const std::string& parameter) {
    std::map<std::string, std::size_t> sweep_of;
    std::size_t first = result_.sweeps.size();
    for (std::size_t i = 0; i < result_.cells.size(); ++i) {
      const Cell& cell = result_.cells[i];
      if (cell.scenario != scenario) continue;
      const Json& params = cell.entries.front().row->params;
      if (!params.contains(parameter) || !params[parameter].is_number()) continue;
      Row others = *cell.entries.front().row;
      others.params.erase(parameter);
      auto [place, is_new] = sweep_of.emplace(cell_key(others), result_.sweeps.size());
      if (is_new) {
        std::vector<std::string> names = varied_[scenario];
        std::erase(names, parameter);
        std::string fixed = joined_params(others.params, names);
        result_.sweeps.push_back({scenario, parameter, fixed, "", {}});
      }
      result_.sweeps[place->second].points.emplace_back(params[parameter].get<double>(), i);
    }
    for (std::size_t i = first; i < result_.sweeps.size(); ++i) {
      Sweep& sweep = result_.sweeps[i];
      std::ranges::sort(sweep.points);
      sweep.id = unique(slug(scenario + "-by-" + parameter + "-" + sweep.fixed), ids_);
    }
    std::erase_if(result_.sweeps, [](const Sweep& sweep) { return sweep.points.size() < 2; });
  }

  Varied varied_;
  Arrangement result_;
  std::map<std::string, std::size_t> cell_of_;
  std::set<std::string> ids_;
};

}  // namespace

std::vector<SeriesStyle> Arrangement::styles() const {
  std::vector<SeriesStyle> styles;
  for (const Series& one : series) styles.push_back(one.style);
  return styles;
}

Arrangement arrange(ReportData data) {
  name_measurements(data);
  return Arranger(std::move(data)).arrange();
}

const Row* baseline_of(const Cell& cell, const Row& row) {
  const Row* first = nullptr;
  const Row* system = nullptr;
  std::string_view named;
  for (const Entry& other : cell.entries) {
    if (other.row->label != row.label || other.row->ratios.empty()) continue;
    named = other.row->ratios.front().second.to;
  }
  for (const Entry& other : cell.entries) {
    if (other.row->label != row.label || !other.row->ok) continue;
    if (other.row->contender == named) return other.row;
    if (other.row->contender == kSystem) system = other.row;
    if (first == nullptr) first = other.row;
  }
  return system != nullptr ? system : first;
}

RatioTo ratio_to_baseline(const Cell& cell, const Row& row, std::string_view metric) {
  RatioTo none;
  none.ratio = 0;
  if (!row.ok) return none;
  const Row* base = baseline_of(cell, row);
  const RatioTo* own = row.ratio(metric);
  if (own != nullptr && base != nullptr && own->to == base->contender) return *own;
  const Summary* mine = row.metric(metric);
  const Summary* theirs = base != nullptr ? base->metric(metric) : nullptr;
  if (mine == nullptr || theirs == nullptr || theirs->median <= 0) return none;
  RatioTo ratio;
  ratio.to = base->contender;
  ratio.ratio = mine->median / theirs->median;
  return ratio;
}

bool Cell::has(std::string_view metric) const {
  return std::ranges::any_of(
      entries, [&](const Entry& entry) { return entry.row->metric(metric) != nullptr; });
}

std::string throughput_metric(const Cell& cell) {
  for (const char* name : {"ops_per_s", "ns_per_op", "cpu_ns_per_op", "elapsed_s"}) {
    if (cell.has(name)) return name;
  }
  return {};
}

std::string speed_metric(const Cell& cell) {
  if (std::string throughput = throughput_metric(cell); !throughput.empty()) return throughput;
  for (const Entry& entry : cell.entries) {
    for (const auto& [name, summary] : entry.row->metrics) {
      Quantity quantity = quantity_of(name);
      if (quantity == Quantity::kPerSecond || quantity == Quantity::kSeconds) return name;
    }
  }
  return {};
}

std::vector<std::string> fitting_names(const std::vector<std::string>& names, std::size_t longest) {
  const std::size_t wanted = std::set<std::string>(names.begin(), names.end()).size();
  for (;; ++longest) {
    std::vector<std::string> cut;
    for (const std::string& name : names) cut.push_back(cut_name(name, longest));
    if (std::set<std::string>(cut.begin(), cut.end()).size() == wanted) return cut;
  }
}

std::string slug(std::string_view text) {
  std::string id;
  for (char c : text) {
    bool is_word = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (is_word)
      id += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (!id.empty() && id.back() != '-')
      id += '-';
  }
  while (!id.empty() && id.back() == '-') id.pop_back();
  if (id.size() > 60) id.resize(60);
  return id.empty() ? "plot" : id;
}

}  // namespace strata::cli
