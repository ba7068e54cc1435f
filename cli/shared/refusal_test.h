#pragma once

#include <string>

namespace strata {

/// What an action is refused with, by an exception of this kind; "accepted" if it is not.
template <typename Error, typename Action>
std::string refused_with(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace strata
