#include "commands/earlier_traces.h"

#include <fmt/format.h>
#include <string.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <system_error>

#include "input/usage_error.h"
#include "shared/trace/layout.h"

namespace strata::cli {
namespace {

namespace fs = std::filesystem;

/// Whether the file is a trace, or an empty file left of one; false if it cannot be read.
bool is_trace(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  char magic[sizeof trace::kFileMagic] = {};
  file.read(magic, sizeof magic);
  const bool is_empty = file.eof() && file.gcount() == 0;
  return is_empty || ::memcmp(magic, trace::kFileMagic, sizeof magic) == 0;
}

/// FILE itself, and files named like other processes' traces: FILE.PID or FILE.PID.N.
std::vector<fs::path> files_of(const fs::path& file) {
  std::vector<fs::path> found;
  std::error_code error;
  if (fs::is_regular_file(file, error)) found.push_back(file);
  const std::string beginning = file.filename().string() + ".";
  for (const auto& entry : fs::directory_iterator(file.parent_path(), error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(beginning) || name.size() == beginning.size() ||
        name.find_first_not_of("0123456789.", beginning.size()) != std::string::npos) {
      continue;
    }
    if (entry.is_regular_file(error)) found.push_back(entry.path());
  }
  return found;
}

/// The process that wrote a trace; both empty if unknown.
struct Writer {
  std::string process;
  std::string parent;
};

Writer writer_of(const fs::path& path) {
  const trace::Properties process = beginning_of(path).process;
  return {trace::property(process, "pid"), trace::property(process, "parent")};
}

/// FILE, and the traces of its process and, recursively, of the processes that it started.
std::set<fs::path> traces_of_one_recording(const fs::path& file) {
  std::set<fs::path> found;
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return found;
  found.insert(file);
  std::set<std::string> processes = {writer_of(file).process};
  if (processes.contains("")) return found;
  std::vector<std::pair<fs::path, Writer>> others;
  for (const fs::path& path : files_of(file)) {
    const Writer writer = writer_of(path);
    const std::string own = file.filename().string() + "." + writer.process;
    const std::string name = path.filename().string();
    if (!writer.process.empty() && (name == own || name.starts_with(own + "."))) {
      others.emplace_back(path, writer);
    }
  }
  for (std::size_t before = 0; before != found.size();) {
    before = found.size();
    for (const auto& [path, writer] : others) {
      if (!processes.contains(writer.process) && !processes.contains(writer.parent)) continue;
      processes.insert(writer.process);
      found.insert(path);
    }
  }
  return found;
}

}  // namespace

TraceBeginning beginning_of(const std::filesystem::path& trace) {
  TraceBeginning beginning;
  try {
    trace::Reader reader(trace.string());
    trace::Event event;
    beginning.has_no_events = !reader.next(event);
    beginning.process = reader.process();
  } catch (const trace::TraceError&) {
  }
  return beginning;
}

void expect_trace_or_nothing(const fs::path& file) {
  std::error_code error;
  if (!fs::is_regular_file(file, error) || is_trace(file)) return;
  throw UsageError(
      fmt::format("'{}' exists and is not a trace; name another file with -o", file.string()));
}

EarlierTraces::EarlierTraces(const fs::path& file) : file_(file) {
  const std::set<fs::path> own = traces_of_one_recording(file);
  for (const fs::path& path : files_of(file)) {
    if (!own.contains(path)) others_.insert(path);
  }
  for (const fs::path& path : own) {
    const fs::path to = fmt::format("{}.{}.old", path.string(), ::getpid());
    std::error_code error;
    fs::rename(path, to, error);
    if (error) {
      put_back();
      throw UsageError(
          fmt::format("'{}' of an earlier recording cannot be replaced: {}; remove it, or "
                      "name another file with -o",
                      path.string(), error.message()));
    }
    aside_.emplace_back(path, to);
  }
}

EarlierTraces::~EarlierTraces() { put_back(); }

void EarlierTraces::put_back() noexcept {
  std::error_code ignored;
  for (const auto& [from, to] : aside_) fs::rename(to, from, ignored);
}

void EarlierTraces::remove() noexcept {
  std::error_code ignored;
  for (const auto& [from, to] : aside_) fs::remove(to, ignored);
  aside_.clear();
}

std::vector<fs::path> EarlierTraces::later_traces() const {
  std::vector<fs::path> found;
  for (const fs::path& path : files_of(file_)) {
    if (!others_.contains(path) && is_trace(path)) found.push_back(path);
  }
  return found;
}

}  // namespace strata::cli
