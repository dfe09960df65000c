// What ranks that share a transformer's layers exchange, as Megatron-LM (core/tensor_parallel) and
// TransformerEngine (attention/dot_product_attention/context_parallel.py) do.
#include <algorithm>

#include "model/layers.hpp"

namespace rehearse {

void Layers::exchange_here(ExchangeAxis axis, ExchangeKind forward, ExchangeKind backward,
                           double elements) {
  exchange({axis, forward, elements, false, Direction::forward, here(), here()});
  exchange({axis, backward, elements, false, Direction::backward, here(), here()});
}

void Layers::enter_columns() {
  if (!parallel_.splits_tokens()) return;
  current_.height *= parallel_.tensor;
  exchange({.kind = ExchangeKind::all_gather,
            .elements = current_.elements(),
            .issued = here(),
            .awaited = here()});
}

// LinearWithGradAccumulationAndAsyncCommunication: of split tokens only the rank's own are saved.
// They are gathered once more beside the product for the input's gradient, and that gradient is
// exchanged beside the product for the weight's.
void Layers::leave_columns(const Activation& input, std::size_t begin) {
  if (parallel_.tensor == 1 || !input.gradient) return;
  const auto is_product = [](const Operator& op) { return op.kind == OperatorKind::matmul; };
  const std::vector<Operator>& all = last().operators;
  const auto first = std::find_if(all.begin() + static_cast<std::ptrdiff_t>(begin), all.end(),
                                  is_product);
  const auto final = std::find_if(all.rbegin(), all.rend(), is_product).base() - 1;
  const auto first_product = static_cast<std::size_t>(first - all.begin());
  const double elements = static_cast<double>(input.channels) * current_.positions();
  Exchange gradient{.kind = ExchangeKind::all_reduce,
                    .elements = elements,
                    .pass = Direction::backward,
                    .issued = {first_product, true},
                    .awaited = {first_product, false}};
  if (parallel_.splits_tokens()) {
    exchange({.kind = ExchangeKind::all_gather,
              .elements = elements,
              .pass = Direction::backward,
              .issued = here(),
              .awaited = {static_cast<std::size_t>(final - all.begin()), true}});
    gradient.kind = ExchangeKind::reduce_scatter;
  }
  exchange(gradient);
}

void Layers::leave_rows() {
  if (parallel_.tensor == 1) return;
  if (parallel_.splits_tokens()) {
    exchange_here(ExchangeAxis::tensor, ExchangeKind::reduce_scatter, ExchangeKind::all_gather,
                  current_.elements());
    current_.height /= parallel_.tensor;
    return;
  }
  exchange({.elements = current_.elements(), .issued = here(), .awaited = here()});
}

void Layers::sum_rows(bool scatter) {
  if (parallel_.tensor == 1) return;
  if (scatter && parallel_.splits_tokens()) {
    const Activation input = current_;
    exchange_here(ExchangeAxis::tensor, ExchangeKind::reduce_scatter, ExchangeKind::all_gather,
                  current_.elements());
    current_.height /= parallel_.tensor;
    record({.kind = LayerKind::scatter}, input);
    return;
  }
  exchange({.elements = current_.elements(), .issued = here(), .awaited = here()});
}

void Layers::scatter() {
  if (!parallel_.splits_tokens()) return;
  const Activation input = current_;
  exchange({.kind = ExchangeKind::all_gather,
            .elements = current_.elements(),
            .pass = Direction::backward,
            .issued = here(),
            .awaited = here()});
  current_.height /= parallel_.tensor;
  record({.kind = LayerKind::scatter}, input);
}

// vocab_parallel_cross_entropy: the largest logit of each token, then its target's and the sum of
// exponentials, in fp32.
void Layers::begin_losses() {
  if (parallel_.tensor == 1) return;
  exchange({.elements = current_.positions(), .wide = true, .issued = here(), .awaited = here()});
}

void Layers::end_losses() {
  for (int i = 0; i < 2; ++i) begin_losses();
}

namespace {

double key_elements(const Attention& options, double tokens) {
  return tokens * static_cast<double>(options.kv_heads * (options.head_width + options.values()));
}

}  // namespace

// Each rank's tokens are one piece of the sequence's front and the piece of its back that balances
// it, so that under a causal mask each step does the same work: a triangle, then rectangles of half
// its sides' product. Backward sends keys and values once more, and one step later their gradients.
void Layers::ring_attention(const Attention& options) {
  const auto ranks = static_cast<std::size_t>(parallel_.context);
  const double tokens = current_.positions();
  const double elements = key_elements(options, tokens);
  const std::size_t begin = last().operators.size();
  const auto send = [&](Direction pass, std::size_t issued, std::size_t awaited) {
    exchange({ExchangeAxis::context, ExchangeKind::send_recv, elements, false, pass, {begin + issued},
              {begin + awaited}});
  };
  for (std::size_t step = 0; step < ranks; ++step) flash_attention(options, tokens, ranks);
  for (std::size_t step = 0; step + 1 < ranks; ++step) send(Direction::forward, step, step + 1);
  for (std::size_t step = 0; step < ranks; ++step) {
    const std::size_t left = ranks - step;
    if (step + 1 < ranks) send(Direction::backward, left, left - 1);
    if (step > 0) send(Direction::backward, left, left - 1);
  }
}

void Layers::fused_attention(const Attention& options) {
  const double tokens = current_.positions();
  const auto ranks = static_cast<std::size_t>(parallel_.context);
  if (ranks == 1) return flash_attention(options, tokens, 1);
  if (parallel_.context_method == ContextMethod::ring) return ring_attention(options);
  if (parallel_.context_method == ContextMethod::ulysses) {
    const auto exchange_heads = [&](double elements) {
      exchange_here(ExchangeAxis::context, ExchangeKind::all_to_all, ExchangeKind::all_to_all,
                    elements);
    };
    Attention own = options;
    own.heads /= parallel_.context;
    own.kv_heads = std::max<std::int64_t>(1, own.kv_heads / parallel_.context);
    exchange_heads(current_.elements());
    flash_attention(own, tokens * static_cast<double>(ranks), 1);
    return exchange_heads(tokens * static_cast<double>(options.heads * options.values()));
  }
  const double elements = key_elements(options, tokens * static_cast<double>(ranks));
  const auto gather = [&](ExchangeKind kind, Direction pass) {
    exchange({ExchangeAxis::context, kind, elements, false, pass, here(), here()});
  };
  gather(ExchangeKind::all_gather, Direction::forward);
  gather(ExchangeKind::reduce_scatter, Direction::backward);
  for (std::size_t step = 0; step < ranks; ++step) flash_attention(options, tokens, ranks);
  gather(ExchangeKind::all_gather, Direction::backward);
}

// MoEAlltoAllTokenDispatcher: how many tokens each expert gets, the tokens, and among the ranks of
// an expert their copies.
void Layers::exchange_tokens(const ExpertGroup& options, double elements, bool dispatch) {
  const auto sharing = static_cast<double>(options.sharing);
  const auto exchange_experts = [&] {
    if (parallel_.expert == 1) return;
    exchange_here(ExchangeAxis::expert, ExchangeKind::all_to_all, ExchangeKind::all_to_all,
                  elements);
  };
  if (!dispatch) {
    if (options.sharing > 1)
      exchange_here(ExchangeAxis::expert_tensor, ExchangeKind::reduce_scatter,
                    ExchangeKind::all_gather, elements * sharing);
    return exchange_experts();
  }
  if (parallel_.expert > 1)
    exchange({.axis = ExchangeAxis::expert,
              .kind = ExchangeKind::all_gather,
              .elements = static_cast<double>(options.count * parallel_.expert),
              .wide = true,
              .issued = here(),
              .awaited = here()});
  exchange_experts();
  if (options.sharing > 1)
    exchange_here(ExchangeAxis::expert_tensor, ExchangeKind::all_gather,
                  ExchangeKind::reduce_scatter, elements * sharing);
}

}  // namespace rehearse
