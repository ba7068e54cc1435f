#pragma once

#include <cstddef>
#include <functional>
#include <utility>

#include "os/fake_page_source.h"

namespace strata {

/// Calls `on_decommit` while memory goes back, once.
struct BusyPages : os::FakePageSource {
  std::function<void()> on_decommit;
  bool decommit(void* address, std::size_t bytes) noexcept override {
    if (on_decommit) std::exchange(on_decommit, nullptr)();
    return os::FakePageSource::decommit(address, bytes);
  }
};

}  // namespace strata
