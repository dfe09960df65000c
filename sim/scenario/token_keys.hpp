#pragma once

#include "config/document.hpp"
#include "scenario/scenario.hpp"

namespace rehearse::inline scenario {

/// A count with an optional suffix: K, M, B (or G) and T are 10^3 to 10^12; Ki, Mi and Gi are
/// 2^10 to 2^30. "15T", "4Mi", "1000". InputError for any other text, and for no whole number
/// above 0.
std::int64_t read_count_of(const Value& value);

/// `train.tokens` as samples of the scenario's sequence.
void apply_tokens(const Value& train, Scenario& scenario);

/// Samples of `train.global_batch`; nothing where it is not said. The scenario's model must be
/// read.
std::optional<std::int64_t> global_batch_of(const Value& train, const Scenario& scenario);

/// `train.global_batch: {tokens: 4Mi}` or `{sequences: 1024}`: how many micro-batches of
/// `model.batch_per_gpu` each GPU accumulates. InputError where it does not divide, and where the
/// strategy accumulates nothing or says so itself.
void apply_global_batch(const Value& train, const Value& strategy, Scenario& scenario);

}  // namespace rehearse::inline scenario
