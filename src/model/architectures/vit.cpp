#include "model/architecture.hpp"

namespace rehearse::inline model {

TransformerShape vit(const VitSize& size) {
  return {.name = size.name,
          .family = "vit",
          .source = "Dosovitskiy et al., arXiv:2010.11929; torchvision.models.vision_transformer",
          .unit_prefix = "layer",
          .layers = size.blocks,
          .hidden = size.hidden,
          .heads = size.heads,
          .kv_heads = size.heads,
          .head_width = size.hidden / size.heads,
          .feed_forward = size.feed_forward,
          .norm = NormKind::layer_norm,
          .position = PositionKind::learned,
          .fused_qkv = true,
          .multihead = true,
          .qkv_bias = true,
          .output_bias = true,
          .activation = ActivationKind::gelu,
          .gated = false,
          .feed_forward_bias = true,
          .head = HeadKind::classes,
          .image = 224,
          .patch = size.patch,
          .classes = 1000};
}

}  // namespace rehearse::inline model
