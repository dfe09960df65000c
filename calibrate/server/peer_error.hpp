#pragma once

#include "base/error.hpp"

namespace rehearse::inline calibrate {

/// Another process is gone or failed: the error follows from that one's, which says more.
class PeerError : public MissingError {
  using MissingError::MissingError;
};

}  // namespace rehearse::inline calibrate
