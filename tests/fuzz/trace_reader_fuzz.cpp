// Feeds the reader of traces with real ones that libFuzzer has changed. Checksums would refuse
// nearly all of these, so they are corrected first, to reach the code behind them.
#include <cstring>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "shared/trace/reader.h"

namespace {

using namespace strata::trace;

template <typename Header>
Header& put_right(std::string& bytes, std::size_t at, Header& header) {
  header.checksum = checksum(&header, sizeof header - sizeof header.checksum);
  std::memcpy(bytes.data() + at, &header, sizeof header);
  return header;
}

void put_checksums_right(std::string& bytes) {
  FileHeader file;
  if (bytes.size() < sizeof file) return;
  std::memcpy(&file, bytes.data(), sizeof file);
  put_right(bytes, 0, file);
  BlockHeader block;
  for (std::size_t at = sizeof file; at + sizeof block <= bytes.size();) {
    std::memcpy(&block, bytes.data() + at, sizeof block);
    const std::size_t body = at + sizeof block;
    if (block.stored_bytes > bytes.size() - body) return;
    block.body_checksum = checksum(bytes.data() + body, block.stored_bytes);
    put_right(bytes, at, block);
    at = body + block.stored_bytes;
  }
}

[[noreturn]] void die(const char* promise) {
  std::cerr << "the reader broke its promise: " << promise << '\n';
  __builtin_trap();
}

/// Verifies what the reader promises about its events (event.h), from the outside.
void read_all(const std::string& bytes) {
  Reader reader("input", std::make_unique<std::istringstream>(bytes));
  std::vector<bool> is_live;
  std::uint64_t last_time = 0;
  std::uint32_t threads = 0;
  for (Event event; reader.next(event);) {
    if (event.time_ns < last_time) die("time goes back");
    last_time = event.time_ns;
    if (event.thread > threads) die("threads without a gap");
    if (event.thread == threads) ++threads;
    if (event.stack >= reader.stacks().size()) die("stacks are defined");
    if (event.ended < kUnknownObject) {
      if (event.ended >= is_live.size() || !is_live[event.ended]) die("what ends was live");
      is_live[event.ended] = false;
    }
    if (event.object == kNoObject) continue;
    if (event.object != is_live.size()) die("objects without a gap");
    is_live.push_back(true);
  }
  for (std::size_t i = 1; i < reader.stacks().size(); ++i) {
    if (reader.stacks()[i].parent >= i) die("callers come first");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  for (const bool is_put_right : {false, true}) {
    if (is_put_right) put_checksums_right(bytes);
    try {
      read_all(bytes);
    } catch (const TraceError& error) {
      if (std::strstr(error.what(), "input") == nullptr) die("an error names the file");
    }
  }
  return 0;
}
