#include "model/parallel.hpp"

#include <algorithm>

#include "model/model.hpp"
#include "model/transformer.hpp"

namespace rehearse::inline model {

void order_exchanges(std::vector<Exchange>& exchanges) {
  std::ranges::stable_sort(exchanges, [](const Exchange& left, const Exchange& right) {
    if (left.pass != right.pass) return left.pass == Direction::forward;
    return comes_before(left.issued, right.issued, left.pass);
  });
}

bool comes_before(const Cut& left, const Cut& right, Direction pass) {
  if (left.before_operator != right.before_operator) {
    return (left.before_operator < right.before_operator) == (pass == Direction::forward);
  }
  return left.between_gradients && !right.between_gradients;
}

const std::vector<std::string>& context_method_names() {
  static const std::vector<std::string> kNames = {"ring", "ulysses", "all_gather"};
  return kNames;
}

std::string to_string(ContextMethod method) {
  return context_method_names().at(static_cast<std::size_t>(method));
}

const std::vector<std::string>& expert_dispatch_names() {
  static const std::vector<std::string> kNames = {"all_to_all", "hierarchical", "deepep",
                                                  "hybridep",   "all_gather",   "replicated"};
  return kNames;
}

std::string to_string(ExpertDispatch dispatch) {
  return expert_dispatch_names().at(static_cast<std::size_t>(dispatch));
}

std::int64_t padded_vocabulary(std::int64_t vocabulary, const ModelParallel& parallel) {
  if (parallel.tensor == 1) return vocabulary;
  const std::int64_t multiple = parallel.vocabulary_multiple * parallel.tensor;
  return (vocabulary + multiple - 1) / multiple * multiple;
}

TransformerShape share_of(const TransformerShape& whole, const ModelParallel& parallel) {
  TransformerShape share = whole;
  share.heads /= parallel.tensor;
  share.kv_heads = std::max<std::int64_t>(1, whole.kv_heads / parallel.tensor);
  if (!whole.latent && parallel.tensor > whole.kv_heads)
    share.kv_ranks = parallel.tensor / whole.kv_heads;
  share.feed_forward /= parallel.tensor;
  share.vocabulary = padded_vocabulary(whole.vocabulary, parallel) / parallel.tensor;
  for (const MixerPtr& mixer : parallel.tensor > 1 ? whole.mixers() : std::vector<MixerPtr>()) {
    const MixerPtr part = mixer->share(parallel.tensor);
    for (std::size_t i = 0; i < whole.parts.size(); ++i)
      if (whole.parts[i].mixer == mixer) share.parts[i].mixer = part;
  }
  if (share.experts) {
    share.experts->width /= parallel.expert_tensor;
    share.experts->shared_width /= parallel.tensor;
  }
  return share;
}

double summed_elements(const Model& share) {
  double sum = 0;
  for (const Unit& unit : share.units) {
    for (std::size_t i = 0; i < unit.shares.size(); ++i) {
      if (unit.shares[i] == ParameterShare::summed && unit.trait(i).trained)
        sum += static_cast<double>(unit.tensors[i]);
    }
  }
  return sum;
}

}  // namespace rehearse::inline model
