#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "models/chain.hpp"

namespace rehearse::inline calibrate {

/// Format of one sample of a user's own module: "3x224x224", "784:float", "128:long:30522".
struct ScriptInput {
  std::vector<std::int64_t> sizes;
  bool tokens = false;          ///< long: whole numbers, which choose rows of a table
  std::int64_t vocabulary = 2;  ///< tokens are below this
};

/// Reads SIZExSIZE...[:float] or SIZE...:long[:VOCABULARY]. Throws std::invalid_argument with a
/// message for the user.
ScriptInput parse_script_input(const std::string& text);

/// A user's TorchScript module and how it is trained.
struct ScriptSource {
  std::filesystem::path file;
  ScriptInput input;
  /// sum_of_squares of the output, or cross_entropy over its last dimension, the classes.
  std::string loss = "sum_of_squares";
};

/// The losses that a ScriptSource may name.
const std::vector<std::string>& script_losses();

/// Loads it on the CPU, in training mode, as a chain named as the file. Where the module runs its
/// children one after another, each child with parameters is a unit, with those without that follow
/// it (the first unit has those before it, too); else the module is one unit. Only parameters that
/// are trained count.
///
/// Switches this thread's graph executor to run operators one by one, as eager mode does, or times
/// would change from run to run.
///
/// MissingError if there is no such file; InputError if it is no TorchScript, does not take the
/// input, has no parameters, or gives what the loss does not take.
Chain script_chain(const ScriptSource& source);

/// InputError, which names `--batches`, if the chain of a module cannot be trained with so few
/// samples at a time, as where a batch norm sees one value of each channel.
void check_script_batch(const Chain& chain, std::int64_t batch);

}  // namespace rehearse::inline calibrate
