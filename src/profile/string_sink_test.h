#pragma once

#include <string>
#include <string_view>

#include "base/text_sink.h"

namespace strata {

/// Keeps what is written.
struct StringSink final : TextSink {
  void write(std::string_view text) noexcept override { content += text; }
  std::string content;
};

}  // namespace strata
