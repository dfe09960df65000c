#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace rehearse::inline model {

/// Measured tokens of each expert, as counts or shares.
struct TokenHistogram {
  std::string file;  ///< as it was named
  /// Rows of each layer with experts, from the first on, or one for all; as many numbers in each.
  std::vector<std::vector<double>> rows;

  std::size_t experts() const { return rows.front().size(); }
  /// Tokens of the fullest of so many ranks over their mean, by row. Each has as many consecutive
  /// experts, as Megatron-LM places them (MoELayer's local_expert_indices). `ranks` divides
  /// experts().
  std::vector<double> imbalance(std::size_t ranks) const;
};

/// Reads rows of numbers between commas or blanks; lines that begin with # are comments, and a
/// first line without numbers is a header. Errors stand at their place in the file; MissingError if
/// it cannot be read.
TokenHistogram read_token_histogram(const std::filesystem::path& file);

/// Tokens of the fullest rank over the mean, where a router with an auxiliary loss chooses: the
/// fullest of 64 experts then has 1.72 times the mean (MaxVio of the 1B model, Wang et al. 2024,
/// arXiv:2408.15664, table 2). Experts are taken to be loaded independently and normally, so that
/// ranks with many of them differ less. 1 for one rank. `ranks` divides `experts`.
double natural_imbalance(std::int64_t experts, std::int64_t ranks);

}  // namespace rehearse::inline model
