#pragma once

#include <string>

namespace rehearse::captured {

// What operators of PyTorch are, by their names without the "_" of in-place ones.

/// Each element is made alone, or all are added up.
bool is_pointwise_name(const std::string& name);
/// Rows are reduced: norms, softmax, losses.
bool is_row_name(const std::string& name);

}  // namespace rehearse::captured
