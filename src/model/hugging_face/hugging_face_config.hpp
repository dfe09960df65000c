#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "config/document.hpp"
#include "model/hugging_face/derived_family.hpp"
#include "model/transformer.hpp"

namespace rehearse::inline model {

/// The fields of a config.json as a family's reader asks for them. `null` is a missing field.
class HuggingFaceConfig {
 public:
  HuggingFaceConfig(Map map, std::vector<std::string>& assumptions)
      : map_(std::move(map)), assumptions_(assumptions) {}

  /// A whole number above 0, under any of its names; an error if none is there.
  std::int64_t count_of(const std::vector<std::string>& names);
  std::int64_t count(const std::string& name) { return count_of({name}); }
  /// The fallback is transformers' own default, which config.json leaves out.
  std::int64_t count_or(const std::string& name, std::int64_t fallback, std::int64_t low = 1);
  bool flag_or(const std::string& name, bool fallback);
  double number_or(const std::string& name, double fallback);
  /// InputError where the field is there and is not `count`: transformers writes it beside others.
  void check_count(const std::string& name, std::int64_t count);
  std::string text_or(const std::string& name, const std::string& fallback);
  std::optional<Value> field(const std::string& name);  ///< nothing where it is null
  /// Fields that change no shape.
  void ignore(const std::vector<std::string>& names);
  /// InputError at a field that changes what the network is in a way that is not modelled.
  void require_value(const std::string& name, bool value);
  /// InputError at a field that is anything but null.
  void require_null(const std::string& name);
  void assume(const std::string& text) { assumptions_.push_back(text); }
  /// From now on its fields are asked for by the names of the family that `family` is like.
  void read_like(DerivedFamily family);
  /// InputError for the first field that nobody asked for: it might change shapes.
  void finish(const std::string& family);
  Map& map() { return map_; }

 private:
  /// The file's own name for a field.
  std::string own_name(std::string name) const;
  std::optional<Value> usual(std::string name) const;

  Map map_;
  std::set<std::string> asked_;
  std::vector<std::string>& assumptions_;
  std::vector<DerivedFamily> derived_;  ///< the file's own family first
};

/// Fills a shape from the fields of one model_type.
using FamilyReader = TransformerShape (*)(HuggingFaceConfig& config);
struct HuggingFaceFamily {
  std::string model_type;
  FamilyReader read;
};
const std::vector<HuggingFaceFamily>& decoder_families();  ///< with rotary positions
const std::vector<HuggingFaceFamily>& layer_norm_families();
const std::vector<HuggingFaceFamily>& later_families();  ///< with RMS norms, after Llama 2
const std::vector<HuggingFaceFamily>& expert_families();
const std::vector<HuggingFaceFamily>& many_expert_families();
const std::vector<HuggingFaceFamily>& hybrid_families();
const std::vector<HuggingFaceFamily>& other_families();

// What the readers share (hugging_face.cpp).
/// layers, widths, heads, vocabulary and activation under the names that most families use.
TransformerShape read_usual(HuggingFaceConfig& config);
/// Llama's fields; `tied`: the family's default.
TransformerShape read_llama(HuggingFaceConfig& config, bool tied = false);
/// The residual's, the embeddings' and the logits' factors (Granite).
void read_factors(HuggingFaceConfig& config, TransformerShape& t);
/// The channels of a head that turn: `partial_rotary_factor` of them.
void read_partial_rotation(HuggingFaceConfig& config, TransformerShape& t, double fallback);
/// Layers whose positions are not told apart: `no_rope_layers` (0 for one of them), or every so
/// many (Llama 4, SmolLM3).
void read_unrotated(HuggingFaceConfig& config, TransformerShape& t);
/// `hidden_act` or another name for it.
ActivationKind read_activation(HuggingFaceConfig& config, const std::vector<std::string>& names,
                               const std::string& fallback);
/// Qwen's names, with the defaults of its family.
Experts read_qwen_experts(HuggingFaceConfig& config, std::int64_t count, std::int64_t active,
                          bool normed = false);
/// DeepSeek-V3's router: sigmoids, a correction, groups.
Router read_grouped_router(HuggingFaceConfig& config, bool normed);
/// A list of a kind for each layer: which have the first of `kinds`. Empty: it is missing.
std::vector<bool> by_layer(HuggingFaceConfig& config, const std::string& name,
                           const TransformerShape& t, const std::vector<std::string>& kinds);
/// `sliding_window`, if any layer `slides`, and `layer_types`.
void read_sliding(HuggingFaceConfig& config, TransformerShape& t, bool slides = true);

}  // namespace rehearse::inline model
