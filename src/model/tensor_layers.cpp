// Tensor ranks exchange this around the products that they share, as Megatron-LM
// (core/tensor_parallel) and PyTorch's DTensors (torch/distributed/tensor/parallel) do.
#include <algorithm>
#include <vector>

#include "model/layers.hpp"

namespace rehearse::inline model {

// funcol's all_gather_tensor puts what came of the ranks side by side along tokens by torch.cat,
// and reduce_scatter_tensor cuts them apart likewise. What symm_mem.fused_all_gather_matmul gathers
// is first copied to where peers read it (torch/distributed/_symmetric_memory/__init__.py:
// _pipelined_multi_all_gather_and_consume), and no cat stands behind it.
void Layers::enter_columns(std::size_t sides) {
  if (!parallel_.splits_tokens()) return;
  const double part = current_.elements();
  if (parallel_.dtensor && parallel_.tensor_overlap) copy(2 * part, 0, true);
  current_.height *= parallel_.tensor;
  exchange({.kind = ExchangeKind::all_gather,
            .elements = current_.elements(),
            .issued = here(),
            .awaited = here(),
            .narrow = true,
            .cast_first = parallel_.dtensor});
  if (!parallel_.dtensor) return;
  const double whole = current_.elements();
  if (!parallel_.tensor_overlap) {
    copy(2 * whole, 2 * whole, true);
  } else {
    copy(0, scatters_in_pieces(sides) ? whole + part : 2 * whole, true);
  }
}

// torch/_inductor/fx_passes/micro_pipeline_tp.py: fuse_matmul_reduce_scatter() takes a product that
// a reduce_scatter alone reads. Gradients of an input that several products read are added first.
bool Layers::scatters_in_pieces(std::size_t sides) const {
  return parallel_.dtensor && parallel_.tensor_overlap && sides == 1;
}

/// A kernel that moves elements, per sample, and that torch.compile leaves. Of what DTensor gathers
/// it moves bytes where they were cast before: forward's before columns, backward's behind rows.
void Layers::copy(double forward_elements, double backward_elements, bool before) {
  move(OperatorKind::elementwise, forward_elements, current_.gradient ? backward_elements : 0);
  Operator& op = last().operators.back();
  op.library = true;
  (before ? op.input_ranks : op.gradient_ranks) = parallel_.tensor;
}

// LinearWithGradAccumulationAndAsyncCommunication: of split tokens only the rank's own are saved.
// They are gathered once more beside the product for the input's gradient, and that gradient is
// exchanged beside the product for the weight's. Where tensor ranks are not asynchronous, backward
// waits for both. DTensor saves what it gathered, and copies a gradient before it is scattered.
void Layers::leave_columns(const Activation& input, std::size_t begin, std::size_t sides) {
  if (parallel_.tensor == 1 || !input.gradient) return;
  const auto is_product = [](const Operator& op) { return op.kind == OperatorKind::matmul; };
  const std::vector<Operator>& all = last().operators;
  const auto first =
      std::find_if(all.begin() + static_cast<std::ptrdiff_t>(begin), all.end(), is_product);
  const auto final = std::find_if(all.rbegin(), all.rend(), is_product).base() - 1;
  const auto first_product = static_cast<std::size_t>(first - all.begin());
  const double elements = static_cast<double>(input.channels) * current_.positions();
  Exchange gradient{.kind = ExchangeKind::all_reduce,
                    .elements = elements,
                    .pass = Direction::backward,
                    .issued = {first_product, true},
                    .awaited = {first_product, false}};
  if (parallel_.overlaps_tensor()) {
    const auto gathers = [](const Exchange& one) {
      return one.narrow && one.pass == Direction::forward;
    };
    std::vector<Exchange>& exchanges = last().exchanges;
    std::find_if(exchanges.rbegin(), exchanges.rend(), gathers)->awaited = here();
  }
  if (!parallel_.tensor_async) gradient.awaited = gradient.issued;
  if (parallel_.splits_tokens() && parallel_.dtensor) {
    const Cut copied{begin - 1};
    if (!scatters_in_pieces(sides)) gradient.issued = gradient.awaited = copied;
    gradient.kind = ExchangeKind::reduce_scatter;
  } else if (parallel_.splits_tokens()) {
    const Cut weights{static_cast<std::size_t>(final - all.begin()), true};
    exchange({.kind = ExchangeKind::all_gather,
              .elements = elements,
              .pass = Direction::backward,
              .issued = here(),
              .awaited = parallel_.tensor_async ? weights : here(),
              .narrow = true});
    gradient.kind = ExchangeKind::reduce_scatter;
  }
  exchange(gradient);
}

// Behind symm_mem.fused_matmul_reduce_scatter one kernel adds up what came of the ranks, and what
// its gradient's gather sends is copied to where peers read it.
void Layers::leave_rows() {
  if (parallel_.tensor == 1) return;
  if (!parallel_.splits_tokens())
    return exchange({.elements = current_.elements(), .issued = here(), .awaited = here()});
  const std::size_t product = last().operators.size() - 1;
  const double whole = current_.elements(), part = whole / parallel_.tensor;
  const bool copies = parallel_.dtensor && !parallel_.tensor_overlap;
  if (parallel_.dtensor) last().operators[product].gradient_ranks = parallel_.tensor;
  if (copies) copy(2 * whole, 2 * whole, false);
  exchange_here(ExchangeAxis::tensor, ExchangeKind::reduce_scatter, ExchangeKind::all_gather,
                whole);
  std::vector<Exchange>& all = last().exchanges;
  all.back().cast_first = parallel_.dtensor;
  if (parallel_.overlaps_tensor()) {
    all[all.size() - 2].issued = {.before_operator = product};
    all.back().awaited = {.before_operator = product, .between_gradients = true};
  }
  if (parallel_.dtensor && !copies) copy(whole + part, 2 * part, false);
  current_.height /= parallel_.tensor;
}

}  // namespace rehearse::inline model
