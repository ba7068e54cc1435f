#include "replay/plan_file.h"

#include <cerrno>
#include <cstring>
#include <system_error>

namespace strata::cli {
namespace {

/// The position of the first chunk. The head is written last, when its length is known; the unused
/// space before the chunks is a hole in the file, which costs nothing.
constexpr std::uint64_t kChunksAt = std::uint64_t{1} << 32;

}  // namespace

PlanFile::PlanFile(const std::string& path)
    : path_(path), file_(path, std::ios::binary | std::ios::trunc), end_(kChunksAt) {
  if (!file_) throw std::system_error(errno, std::generic_category(), path);
}

void PlanFile::need_stream(std::size_t stream) {
  if (streams_.size() > stream) return;
  streams_.resize(stream + 1);
  open_.resize(stream + 1);
}

void PlanFile::put(std::size_t stream, std::uint64_t word) {
  need_stream(stream);
  Open& open = open_[stream];
  if (open.words.empty()) {
    open.at = streams_[stream].first_chunk = end_;
    end_ += plan::kChunkBytes;
    open.words.reserve(plan::kChunkWords);
    open.words.push_back(0);
  } else if (open.words.size() == plan::kChunkWords) {
    write_chunk(stream, end_);
    open.at = end_;
    end_ += plan::kChunkBytes;
    open.words.resize(1);
  }
  open.words.push_back(word);
  ++streams_[stream].words;
}

void PlanFile::finish(plan::Header header, const std::vector<std::uint32_t>& epoch_threads) {
  for (std::size_t i = 0; i < open_.size(); ++i) {
    if (!open_[i].words.empty()) write_chunk(i, 0);
  }
  std::memcpy(header.magic, plan::kMagic, sizeof header.magic);
  header.streams = streams_.size();
  header.epochs = epoch_threads.size();
  write(0, &header, sizeof header);
  const std::size_t table_bytes = streams_.size() * sizeof(plan::Stream);
  write(sizeof header, streams_.data(), table_bytes);
  write(sizeof header + table_bytes, epoch_threads.data(),
        epoch_threads.size() * sizeof(std::uint32_t));
}

void PlanFile::write_chunk(std::size_t stream, std::uint64_t next) {
  Open& open = open_[stream];
  open.words[0] = next;
  write(open.at, open.words.data(), open.words.size() * sizeof(std::uint64_t));
}

void PlanFile::write(std::uint64_t at, const void* bytes, std::size_t count) {
  file_.seekp(static_cast<std::streamoff>(at));
  file_.write(static_cast<const char*>(bytes), static_cast<std::streamsize>(count));
  if (file_.flush()) return;
  throw std::system_error(errno, std::generic_category(),
                          "the plan of the replay, '" + path_ + "'");
}

}  // namespace strata::cli
