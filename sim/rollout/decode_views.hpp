#pragma once

#include <string>
#include <vector>

#include "rollout/decode.hpp"

namespace rehearse::inline rollout {

/// One batch of sequences that a copy of a network decodes.
struct DecodeRow {
  double sequences = 0;  ///< of the whole copy
  DecodeModel::Steady steady;
  bool fits = true;  ///< the cache has places for all of them

  double tokens_per_second() const {  ///< of the whole copy
    return sequences / steady.time_per_output_token.value();
  }
};

/// Prediction of generation by a copy of a network, batch by batch.
struct DecodeTable {
  std::string network, cluster;
  DecodeModel model;
  double prompt = 0, response = 0;  ///< tokens
  double memory = 0;                ///< share of a GPU's memory for weights and cache
  double places = 0;                ///< sequences of full length that the cache of a copy has
  std::vector<DecodeRow> rows;
};

/// The rows of `batches`; where that is empty, of powers of two up to what the cache has places
/// for, at most 512. `memory` 0: the engine's own. std::invalid_argument where the weights do not
/// fit.
DecodeTable decode_table(std::string network, std::string cluster, const DecodeModel& model,
                         double prompt, double response, double memory,
                         const std::vector<double>& batches);

std::string to_table(const DecodeTable& table);
std::string to_csv(const DecodeTable& table);
/// `rehearse.decode/1`.
std::string to_json(const DecodeTable& table);

}  // namespace rehearse::inline rollout
