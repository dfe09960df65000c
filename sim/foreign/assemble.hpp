#pragma once

#include <string>

#include "foreign/facts.hpp"

namespace rehearse::inline foreign {

/// A command line's options beside a file.
struct Asked {
  std::string on;        ///< "4xaws_p5", or "aws_p5" where the file says how many GPUs; empty
  std::string model;     ///< a built-in network or a Hugging Face config; empty: the file's
  std::string sequence;  ///< tokens; empty: the file's
  std::string batch;     ///< samples of a micro-batch; empty: the file's
};

/// What follows from facts together: padded vocabularies, precision, micro-batches, parts of
/// pipelines. InputError at the place of a fact that cannot be so.
void derive(Facts& facts, const std::string& framework);

/// Splits the layers over a pipeline's stages, as a part of derive(): by a layout, by an embedding
/// or a loss that counts as a layer, or by the first stage and the last. InputError as derive()'s.
void fill_split(Facts& facts);

/// Megatron-LM's layout of a scenario's split "[0, 2, 2, 1]": "E|t*2|t*2|tL".
std::string layout_of(const std::string& split);

/// The text of a scenario. `name` stands in its description. InputError names what is missing, and
/// the option that says it.
std::string assemble(Facts facts, const std::string& framework, const Asked& asked,
                     const std::string& name);

}  // namespace rehearse::inline foreign
