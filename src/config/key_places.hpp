#pragma once

#include <string>
#include <vector>

namespace rehearse::inline config {

/// Paths at which files have a key: `batch_per_gpu` stands at `model.batch_per_gpu`. `top` are the
/// keys at the top of the file that is asked about, which say of what kind it is.
using KeyPlaces = std::vector<std::string> (*)(const std::string& key,
                                               const std::vector<std::string>& top);

/// Whom to ask where an unknown key belongs. This module knows no key of its own; without a source
/// the message says nothing of other places.
void set_key_places(KeyPlaces source);

}  // namespace rehearse::inline config
