#include "profile/gunzip.h"

#include <zlib.h>

#include <memory>

#include "profile/wire.h"

namespace strata::cli {
namespace {

// Chosen: a profile of a million stacks has some 100 MiB. The limit stops files made to fill
// memory.
constexpr std::size_t kMostBytes = std::size_t{1} << 30;

}  // namespace

std::string gunzip(std::string_view bytes) {
  constexpr int kOnlyGzip = 16 + MAX_WBITS;
  z_stream stream{};
  if (::inflateInit2(&stream, kOnlyGzip) != Z_OK) throw DamagedProfile("zlib has no memory");
  const auto end = [](z_stream* s) { ::inflateEnd(s); };
  const std::unique_ptr<z_stream, decltype(end)> owner(&stream, end);
  std::string text;
  std::string buffer(std::size_t{64} << 10, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  for (;;) {
    stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream.avail_out = static_cast<uInt>(buffer.size());
    const int status = ::inflate(&stream, Z_NO_FLUSH);
    if (status == Z_BUF_ERROR) throw DamagedProfile("it is cut short");
    if (status != Z_OK && status != Z_STREAM_END) throw DamagedProfile("its gzip data are damaged");
    text.append(buffer, 0, buffer.size() - stream.avail_out);
    if (text.size() > kMostBytes) throw DamagedProfile("it is larger than any profile");
    if (status != Z_STREAM_END) continue;
    if (stream.avail_in == 0) return text;
    ::inflateReset(&stream);
  }
}

}  // namespace strata::cli
