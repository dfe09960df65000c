#pragma once

#include <string>

#include "base/error.hpp"

namespace rehearse {

/// The text of the InputError that `action` throws; "nothing was thrown" if none is.
template <class Action>
std::string error_of(Action action) {
  try {
    action();
  } catch (const InputError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace rehearse
