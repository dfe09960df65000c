#pragma once

#include <string>

#include "../scratch.hpp"
#include "base/error.hpp"

namespace rehearse {

/// What `work` throws, as text; empty if it throws nothing.
template <class Work>
std::string error_from(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace rehearse
