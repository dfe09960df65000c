#include "model/mixers.hpp"

namespace rehearse::inline model {

const std::vector<MixerKind>& mixer_kinds() {
  static const std::vector<MixerKind> kAll = {linear_attention_kind(), kimi_delta_kind(),
                                              state_space_kind()};
  return kAll;
}

}  // namespace rehearse::inline model
