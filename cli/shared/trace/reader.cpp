#include "shared/trace/reader.h"

#include <fmt/format.h>
#include <zstd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>

#include "shared/trace/file_kind.h"
#include "shared/words.h"

namespace strata::trace {
namespace {

std::unique_ptr<std::istream> open(const std::string& path) {
  auto file = std::make_unique<std::ifstream>(path, std::ios::binary);
  // Opening a folder succeeds; reading it fails.
  if (file->is_open()) file->peek();
  if (!file->is_open() || file->bad()) {
    throw TraceError(fmt::format("the trace '{}' cannot be read: {}", path,
                                 std::generic_category().message(errno)));
  }
  file->clear();
  return file;
}

// Parsers for the lines of text blocks; false for a malformed line.

bool parse_property(std::string_view line, Properties& out) {
  const std::size_t equals = line.find('=');
  if (equals == 0 || equals == std::string_view::npos) return false;
  out.insert_or_assign(std::string(line.substr(0, equals)), std::string(line.substr(equals + 1)));
  return true;
}

bool parse_thread(std::string_view line, std::vector<Thread>& out) {
  const auto number = parse_number<std::uint32_t>(take_word(line));
  const auto id = parse_number<std::uint64_t>(take_word(line));
  if (!number || !id) return false;
  out.push_back({*number, *id, std::string(line)});
  return true;
}

bool parse_module(std::string_view line, std::vector<Module>& out) {
  const auto start = parse_number<std::uint64_t>(take_word(line), 16);
  const auto end = parse_number<std::uint64_t>(take_word(line), 16);
  const auto offset = parse_number<std::uint64_t>(take_word(line), 16);
  const std::string_view build_id = take_word(line);
  if (!start || !end || !offset || *end < *start) return false;
  out.push_back(
      {*start, *end, *offset, std::string(build_id == "-" ? "" : build_id), std::string(line)});
  return true;
}

}  // namespace

std::string property(const Properties& properties, std::string_view name) {
  const auto found = properties.find(name);
  return found == properties.end() ? std::string() : found->second;
}

Reader::Reader(const std::string& path) : Reader(path, open(path)) {}

Reader::Reader(std::string name, std::unique_ptr<std::istream> bytes)
    : name_(std::move(name)),
      in_(std::move(bytes)),
      decompressor_(ZSTD_createDCtx(), ZSTD_freeDCtx),
      stacks_(1),
      stack_modules_(1, kNoModule) {
  if (decompressor_ == nullptr) throw std::bad_alloc();
  read_file_header();
}

void Reader::fail(const std::string& what) const {
  throw TraceError(fmt::format("the trace '{}' is damaged in the block at byte {}: {}", name_,
                               block_position_, what));
}

bool Reader::read_exactly(void* bytes, std::size_t count) {
  in_->read(static_cast<char*>(bytes), static_cast<std::streamsize>(count));
  const auto got = static_cast<std::size_t>(in_->gcount());
  if (in_->bad()) {
    throw TraceError(fmt::format("the trace '{}' cannot be read beyond byte {}: {}", name_,
                                 position_, std::generic_category().message(errno)));
  }
  position_ += got;
  return got == count;
}

void Reader::read_file_header() {
  FileHeader header{};
  const bool is_whole = read_exactly(&header, sizeof header);
  const std::size_t compared = std::min<std::size_t>(position_, sizeof kFileMagic);
  if (compared == 0) throw TraceError(fmt::format("'{}' is not a trace: it is empty", name_));
  if (std::memcmp(header.magic, kFileMagic, compared) != 0) {
    const std::string_view begin(reinterpret_cast<const char*>(&header), position_);
    throw TraceError(
        fmt::format("'{}' is not a trace: {}", name_,
                    describe_file(file_kind_of(begin), "it does not begin as one (byte 0)")));
  }
  const auto refuse = [&](const std::string& what) {
    throw TraceError(fmt::format("the trace '{}' {}", name_, what));
  };
  if (!is_whole) refuse(fmt::format("ends in its header, at byte {}", position_));
  if (header.checksum != checksum(&header, sizeof header - sizeof header.checksum)) {
    refuse("is damaged in its header (bytes 0 to 31): its checksum does not match");
  }
  if (header.version != kVersion) {
    refuse(fmt::format("has version {} of the format (byte 8); this program reads version {}",
                       header.version, kVersion));
  }
  if (header.header_bytes != sizeof header || header.tick_ns == 0 ||
      header.tick_ns > kMostNanoseconds) {
    refuse("has a header that cannot be (bytes 12 to 23)");
  }
  tick_ns_ = header.tick_ns;
}

bool Reader::next(Event& event) {
  while (events_left_ == 0) {
    if (is_at_end_ || !read_block()) {
      is_at_end_ = true;
      return false;
    }
  }
  take_event(event);
  return true;
}

/// \returns  False if no complete block follows.
bool Reader::read_block() {
  block_position_ = position_;
  if (!read_exactly(&block_, sizeof block_)) return false;
  if (block_.magic != kBlockMagic) fail("no block begins there");
  if (block_.checksum != checksum(&block_, sizeof block_ - sizeof block_.checksum)) {
    fail("the checksum of its header does not match");
  }
  // No writer makes a larger body. Reject it before allocating.
  constexpr std::size_t kMostStored =
      kEventColumns * (sizeof(ColumnSize) + kColumnBytes + kColumnBytes / 128 + 64);
  if (block_.stored_bytes > kMostStored) fail("it is too large");
  if (!ending_.empty()) fail("it stands after the last block");
  body_.resize(block_.stored_bytes);
  if (!read_exactly(body_.data(), body_.size())) return false;
  if (block_.body_checksum != checksum(body_.data(), body_.size())) {
    fail("the checksum of its contents does not match");
  }
  switch (const auto kind = static_cast<BlockKind>(block_.kind)) {
    case BlockKind::kProcess:
    case BlockKind::kThreads:
    case BlockKind::kModules:
    case BlockKind::kDropped:
    case BlockKind::kEnd:
      unpack(body_, kTextColumns);
      read_text(kind);
      break;
    case BlockKind::kStacks:
      unpack(body_, kStackColumns);
      read_stacks();
      break;
    case BlockKind::kEvents:
      unpack(body_, kEventColumns);
      begin_events();
      break;
  }
  return true;
}

void Reader::unpack(std::string_view body, unsigned column_count) {
  std::size_t at = column_count * sizeof(ColumnSize);
  if (body.size() < at) fail("it is shorter than the table of its columns");
  for (unsigned i = 0; i < column_count; ++i) {
    ColumnSize size{};
    std::memcpy(&size, body.data() + i * sizeof size, sizeof size);
    if (size.raw_bytes > kColumnBytes || size.stored_bytes > body.size() - at) {
      fail(fmt::format("the size of column {} cannot be", i));
    }
    raw_[i].resize(size.raw_bytes);
    const char* const stored = body.data() + at;
    at += size.stored_bytes;
    if (size.stored_bytes == size.raw_bytes) {
      if (size.raw_bytes != 0) std::memcpy(raw_[i].data(), stored, size.raw_bytes);
    } else if (ZSTD_decompressDCtx(decompressor_.get(), raw_[i].data(), size.raw_bytes, stored,
                                   size.stored_bytes) != size.raw_bytes) {
      fail(fmt::format("column {} cannot be decompressed", i));
    }
    columns_[i] = Column(raw_[i].data(), size.raw_bytes);
  }
  if (at != body.size()) fail("bytes follow its columns");
}

void Reader::read_text(BlockKind kind) {
  std::string_view text(reinterpret_cast<const char*>(raw_[0].data()), raw_[0].size());
  bool is_understood = true;
  while (!text.empty()) {
    const std::string_view line = take_word(text, '\n');
    if (kind == BlockKind::kProcess) is_understood &= parse_property(line, process_);
    if (kind == BlockKind::kEnd) is_understood &= parse_property(line, ending_);
    if (kind == BlockKind::kThreads) is_understood &= parse_thread(line, threads_);
    if (kind == BlockKind::kModules) is_understood &= parse_module(line, modules_);
    if (kind == BlockKind::kDropped) {
      Properties properties;
      is_understood &= parse_property(line, properties);
      const auto events = parse_number<std::uint64_t>(properties["events"]);
      is_understood &= events.has_value();
      dropped_events_ += events.value_or(0);
    }
  }
  if (kind == BlockKind::kEnd && ending_.empty()) is_understood = false;
  if (!is_understood) fail("its text is not understood");
}

void Reader::read_stacks() {
  if (block_.count > kMostNodes || block_.first_number != stacks_.size()) {
    fail("its stacks do not follow those before it");
  }
  std::uint64_t address = 0;
  last_module_ = kNoModule;  // modules may have been added since the last block
  for (std::uint32_t i = 0; i < block_.count; ++i) {
    const std::uint64_t up = number_of(0);
    if (up == 0 || up > stacks_.size()) fail("a stack has no caller");
    address += static_cast<std::uint64_t>(unzigzag(number_of(1)));
    stack_modules_.push_back(find_module(address));
    stacks_.push_back({static_cast<std::uint32_t>(stacks_.size() - up), address});
  }
  if (!columns_[0].is_empty() || !columns_[1].is_empty()) fail("bytes follow its stacks");
}

/// Returns the most recent match: a file may have replaced another at the same addresses.
std::uint32_t Reader::find_module(std::uint64_t address) {
  const auto holds = [&](const Module& module) {
    return address > module.start && address <= module.end;  // a return address may equal the end
  };
  // Modules change only between blocks, so within a block the cached result stays the latest.
  if (last_module_ < modules_.size() && holds(modules_[last_module_])) return last_module_;
  for (std::size_t i = modules_.size(); i-- > 0;) {
    if (holds(modules_[i])) return last_module_ = static_cast<std::uint32_t>(i);
  }
  return kNoModule;
}

void Reader::begin_events() {
  if (block_.count > kMostEvents || block_.count == 0 || block_.first_number != next_event_ ||
      block_.first_object != next_object_ || block_.first_tick < expected_.tick) {
    fail("its events do not follow those before it");
  }
  expected_.begin(block_.first_object, block_.first_tick);
  events_left_ = block_.count;
}

std::uint64_t Reader::number_of(unsigned column) {
  std::uint64_t number = 0;
  if (!columns_[column].take(number)) fail(fmt::format("column {} ends too early", column));
  return number;
}

void Reader::take_event(Event& event) {
  unsigned char tag = 0;
  if (!columns_[kTags].take_byte(tag)) fail("column 0 ends too early");
  event = Event{};
  event.operation = static_cast<Operation>(tag & kOperationMask);
  take_time(tag, event);
  if (ends_object(event.operation)) take_end(event);
  if (begins_object(event.operation)) take_beginning(tag, event);
  ++next_event_;
  if (--events_left_ != 0) return;
  for (const Column& column : columns_) {
    if (!column.is_empty()) fail("bytes follow its events");
  }
  if (expected_.tick != block_.last_tick) fail("its times do not match its header");
}

void Reader::take_time(unsigned tag, Event& event) {
  if ((tag & kOtherThread) != 0) {
    const std::uint64_t thread = number_of(kThreads);
    if (thread >= kMostThreads) fail("a thread's number is too large");
    expected_.thread = static_cast<std::uint32_t>(thread);
  }
  if (expected_.thread > thread_count_) fail("a thread's number does not follow the others");
  if (expected_.thread == thread_count_) ++thread_count_;
  event.thread = expected_.thread;
  const std::uint64_t most_ticks = kMostNanoseconds / tick_ns_;
  const std::uint64_t step = (tag & kLaterTime) != 0 ? number_of(kTimes) : 0;
  if (expected_.tick > most_ticks || step > most_ticks - expected_.tick) {
    fail("a time is too late");
  }
  expected_.tick += step;
  event.time_ns = expected_.tick * tick_ns_;
}

void Reader::take_end(Event& event) {
  const std::uint64_t number = number_of(kEnds);
  if (number == kEndOfNone && event.operation == Operation::kRealloc) return;
  if (number == kEndOfUnknown) {
    event.ended = kUnknownObject;
    return;
  }
  event.ended = (number & 1) == 0
                    ? next_object_ - (number >> 1)
                    : expected_.last_ended + static_cast<std::uint64_t>(unzigzag(number >> 1));
  if (!is_live(event.ended)) fail("an object ends that is not live");
  live_[event.ended / 64] &= ~(std::uint64_t{1} << event.ended % 64);
  expected_.last_ended = event.ended;
}

void Reader::take_beginning(unsigned tag, Event& event) {
  const std::uint64_t stack = (tag & kExpectedStack) != 0 ? expected_.stack() : number_of(kStacks);
  if (stack >= stacks_.size()) fail("a stack is not defined");
  event.stack = static_cast<std::uint32_t>(stack);
  const std::uint64_t size = number_of(kSizes);
  event.size_bytes = size == 0 ? expected_.size_at(event.stack) : size - 1;
  expected_.note(event.stack, event.size_bytes);
  if ((tag & kHasAlignment) != 0) {
    const std::uint64_t logarithm = number_of(kAlignments);
    if (logarithm >= 64) fail("an alignment is too large");
    event.alignment = std::uint64_t{1} << logarithm;
  }
  if ((tag & kFailed) != 0) {
    if (event.ended != kNoObject) fail("a call failed and ended an object");
    return;
  }
  event.object = next_object_++;
  if (live_.size() * 64 < next_object_) live_.push_back(0);
  live_[event.object / 64] |= std::uint64_t{1} << event.object % 64;
}

bool Reader::is_live(std::uint64_t object) const noexcept {
  return object < next_object_ && (live_[object / 64] >> object % 64 & 1) != 0;
}

bool Reader::Column::take(std::uint64_t& number) noexcept {
  number = 0;
  for (unsigned shift = 0; shift < 64 && at_ != end_; shift += 7) {
    const unsigned char byte = *at_++;
    number |= std::uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return shift < 63 || byte <= 1;
  }
  return false;
}

bool Reader::Column::take_byte(unsigned char& byte) noexcept {
  if (at_ == end_) return false;
  byte = *at_++;
  return true;
}

}  // namespace strata::trace
