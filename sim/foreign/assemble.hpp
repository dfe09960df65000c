#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "foreign/facts.hpp"

namespace rehearse::inline foreign {

/// A command line's options beside a file.
struct Asked {
  std::string on;            ///< "4xaws_p5", or "aws_p5" where the file says how many GPUs; empty
  std::string model;         ///< a built-in network or a Hugging Face config; empty: the file's
  std::string sequence;      ///< tokens; empty: the file's
  std::string batch;         ///< samples of a micro-batch; empty: the file's
  std::string precision;     ///< a value of model.precision; empty: the file's
  std::string accumulation;  ///< micro-batches of a step; empty: the file's
  /// Mean tokens of prompts and of responses, and the responses' deviation: "130,1060,800".
  std::string lengths{};

  /// What an option of that name has; empty: it is not there.
  const std::string& option(const std::string& name) const;
};

/// A thing that the file does not say, and the option that does.
struct Missing {
  std::string what, remedy;
};

/// Puts what was asked in the place of what the file says.
void answer(const Asked& asked, Facts& facts);

/// GPUs of the file, whose nodes and GPUs of a node may stand apart; 0: it says nothing of them.
std::int64_t gpus_of_file(const Facts& facts);

/// Whether `--on` says itself how many machines there are: "4xaws_p5", or a map of keys.
bool says_how_many(const Asked& asked);

/// GPUs of the machines that `--on` names, or of as many nodes of their kind as the file has.
std::int64_t gpus_of(const Facts& facts, const Asked& asked);

/// A step of post-training (facts rl.X), from what its file says of batches and lengths: what its
/// samples, updates and limits are. InputError where lengths are none.
void fill_post_training(Facts& facts, const Asked& asked, const std::string& name);

/// What neither the file nor an option says, all at once.
std::vector<Missing> missing_of(const Facts& facts, const Asked& asked);

/// What follows from facts together: padded vocabularies, precision, micro-batches, parts of
/// pipelines. InputError at the place of a fact that cannot be so.
void derive(Facts& facts, const std::string& framework);

/// AMP, the model's own type and the strategy make a precision together, as a part of derive()
/// (scenarios/guide/precision.md).
void fill_precision(Facts& facts, const std::string& framework);

/// Layers of the network, by its dimensions or by what is known of its name; 0: not known.
std::int64_t layers_in(const Facts& facts);

/// Names layers that have adapters as a scenario does, as a part of derive(). Those that the
/// network has not are left out, as PEFT does.
void fill_adapters(Facts& facts);
/// Targets of a file's adapters that its network has not, such as the products of its experts.
std::vector<std::string> adapters_left_out(const Facts& facts);

/// Splits the layers over a pipeline's stages, as a part of derive(): by a layout, by an embedding
/// or a loss that counts as a layer, or by the first stage and the last. InputError as derive()'s.
void fill_split(Facts& facts);

/// Megatron-LM's layout of a scenario's split "[0, 2, 2, 1]": "E|t*2|t*2|tL".
std::string layout_of(const std::string& split);

/// The text of a scenario, of which nothing is missing. `name` stands in its description.
/// InputError where machines and GPUs do not agree.
std::string assemble(Facts facts, const std::string& framework, const Asked& asked,
                     const std::string& name);

}  // namespace rehearse::inline foreign
