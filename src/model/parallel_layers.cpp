// What ranks that share a transformer's layers exchange, as Megatron-LM (core/tensor_parallel) and
// TransformerEngine (attention/dot_product_attention/context_parallel.py) do.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "model/layers.hpp"

namespace rehearse::inline model {

void Layers::exchange_here(ExchangeAxis axis, ExchangeKind forward, ExchangeKind backward,
                           double elements) {
  exchange({axis, forward, elements, false, Direction::forward, here(), here()});
  exchange({axis, backward, elements, false, Direction::backward, here(), here()});
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

// core/transformer/attention.py: with fewer key-value heads than ranks, a rank's part of the
// product is no whole heads. All parts are gathered and put side by side, and each rank takes its
// heads. Backward fills the gradient of all with zeros, and sums it.
void Layers::gather_heads(std::int64_t channels) {
  const Activation part = current_;
  current_.channels *= parallel_.tensor;
  exchange_here(ExchangeAxis::tensor, ExchangeKind::all_gather, ExchangeKind::reduce_scatter,
                current_.elements());
  move(OperatorKind::elementwise, 2 * current_.elements(), 3 * current_.elements());
  record({.kind = LayerKind::scatter}, part);
  const Activation whole = current_;
  current_.channels = channels;
  record({.kind = LayerKind::select}, whole);
}

// funcol's all_gather_tensor over the last dimension: what came of the ranks is put side by side by
// cat. Backward keeps this rank's part of the gradient, and nothing is sent.
void Layers::gather_logits() {
  if (!parallel_.gathers_logits()) return;
  const Activation part = current_;
  current_.channels *= parallel_.tensor;
  exchange({.kind = ExchangeKind::all_gather,
            .elements = current_.elements(),
            .pass = Direction::forward,
            .issued = here(),
            .awaited = here()});
  move(OperatorKind::elementwise, 2 * current_.elements(), 2 * part.elements());
  record({.kind = LayerKind::scatter}, part);
}

// vocab_parallel_cross_entropy: the largest logit of each token, then its target's and the sum of
// exponentials, in fp32.
void Layers::begin_losses() {
  if (parallel_.tensor == 1 || parallel_.gather_logits) return;
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

// A step's output is corrected by its softmax's sums: the first is copied, each further one is
// added to what is there. Backward adds gradients of queries, and of keys and values, likewise.
// TransformerEngine does so in 16 bits (flash_attn_fwd_out_correction, AttnFuncWithCPAndKVP2P of
// dot_product_attention/context_parallel.py), PyTorch in fp32 (_SDPAMerger of
// torch/distributed/tensor/experimental/_context_parallel/_attention.py).
void Layers::merge_steps(const Attention& options, std::size_t ranks, double keys, bool wide) {
  const double queries =
      current_.positions() * static_cast<double>(options.heads * options.values());
  const auto sums = static_cast<double>(ranks - 1);
  move(OperatorKind::elementwise, (2 + 3 * sums) * queries, 3 * sums * (queries + keys));
  last().operators.back().library = true;
  last().operators.back().always_fp32 = wide;
}

// Each rank's tokens are one piece of the sequence's front and the piece of its back that balances
// it, so that under a causal mask each step does the same work: a triangle, then rectangles of half
// its sides' product. Backward sends keys and values once more, and one step later their gradients.
void Layers::ring_attention(const Attention& options) {
  const auto ranks = static_cast<std::size_t>(parallel_.context);
  const double tokens = current_.positions();
  const double elements = key_elements(options, tokens);
  const std::size_t begin = last().operators.size();
  const auto send = [&](Direction pass, std::size_t issued, std::size_t awaited) {
    exchange({ExchangeAxis::context,
              ExchangeKind::send_recv,
              elements,
              false,
              pass,
              {begin + issued},
              {begin + awaited}});
  };
  for (std::size_t step = 0; step < ranks; ++step) flash_attention(options, tokens, ranks);
  merge_steps(options, ranks, elements, false);
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
  merge_steps(options, ranks, elements / static_cast<double>(ranks), true);
  gather(ExchangeKind::all_gather, Direction::backward);
}

namespace {

/// A step on the way to the experts; back it goes the other way.
struct TokenStep {
  ExchangeAxis axis = ExchangeAxis::expert;
  ExchangeKind out = ExchangeKind::all_to_all, back = ExchangeKind::all_to_all;
  double elements = 0;
  bool beside = false;  ///< it goes on while the step before it does
  double copies = 0;    ///< tokens that it carries
};

/// Of a token that chooses `active` of `count` experts, all alike, which lie evenly on `places`:
/// how many of these it has to reach. `share` of the experts are on places that it may go to.
double places_reached(const ExpertGroup& options, double places, double share) {
  const double count = share * static_cast<double>(options.count);
  places *= share;
  double misses_one = 1;
  for (std::int64_t i = 0; i < options.active; ++i) {
    const auto chosen = static_cast<double>(i);
    misses_one *= std::max(0.0, count - count / places - chosen) / (count - chosen);
  }
  return places * (1 - misses_one);
}

/// The same where a token's experts follow one another, from a multiple of `active` on: their first
/// lies on each of a place's experts alike that such multiples meet.
double places_in_a_row(const ExpertGroup& options, double places) {
  const auto held = std::llround(static_cast<double>(options.count) / places);
  const auto further = options.active - std::gcd(options.active, held);
  return std::min(places, 1 + static_cast<double>(further) / static_cast<double>(held));
}

/// `tokens`: elements of this rank's tokens, each once; `positions`: how many they are.
std::vector<TokenStep> steps_of(const ExpertGroup& options, const ModelParallel& parallel,
                                double tokens, double positions) {
  const double ranks = parallel.expert, nodes = parallel.expert_nodes;
  const double sent =
      tokens * static_cast<double>(options.active) * filled(options) * options.imbalance;
  std::vector<TokenStep> steps;
  const auto copies = [&](double elements) { return elements / tokens * positions; };
  const auto inside = [&](double elements, bool beside = false) {
    if (ranks > nodes)
      steps.push_back({.axis = ExchangeAxis::expert_node,
                       .elements = elements,
                       .beside = beside,
                       .copies = copies(elements)});
  };
  const auto across = [&](double elements) {
    if (nodes > 1)
      steps.push_back(
          {.axis = ExchangeAxis::expert_across, .elements = elements, .copies = copies(elements)});
  };
  const double allowed = parallel.node_limit > 0 ? std::min(1.0, parallel.node_limit / nodes) : 1;
  const auto reached = [&](double places) {
    return parallel.consecutive_experts ? places_in_a_row(options, places)
                                        : places_reached(options, places, allowed);
  };
  double arrived = sent;
  if (ranks > 1) {
    switch (parallel.dispatch) {
      case ExpertDispatch::all_to_all:
        steps.push_back({.elements = sent});
        break;
      case ExpertDispatch::hierarchical:
        inside(sent);
        across(sent);
        break;
      case ExpertDispatch::deepep:
      case ExpertDispatch::hybridep:
        across(tokens * reached(nodes) * options.imbalance);
        inside(tokens * reached(ranks) * options.imbalance, nodes > 1);
        break;
      case ExpertDispatch::all_gather:
        arrived = tokens * ranks;
        steps.push_back({.out = ExchangeKind::all_gather,
                         .back = ExchangeKind::reduce_scatter,
                         .elements = arrived});
        break;
      case ExpertDispatch::replicated:
        break;
    }
  }
  if (options.sharing > 1)
    steps.push_back({.axis = ExchangeAxis::expert_tensor,
                     .out = ExchangeKind::all_gather,
                     .back = ExchangeKind::reduce_scatter,
                     .elements = arrived * static_cast<double>(options.sharing)});
  return steps;
}

}  // namespace

/// Ranks exchange how many tokens each expert gets, before its own are put in order. HybridEP's
/// allgather_routing_map gathers a bool of each token and expert (csrc/hybrid_ep/executor).
void Layers::exchange_counts(const ExpertGroup& options) {
  if (parallel_.expert == 1) return;
  const bool map = parallel_.dispatch == ExpertDispatch::hybridep;
  const double rows = map ? static_cast<double>(current_.positions()) : 1;
  exchange({.axis = ExchangeAxis::expert,
            .kind = ExchangeKind::all_gather,
            .elements = rows * static_cast<double>(options.count * parallel_.expert),
            .wide = !map,
            .issued = here(),
            .awaited = here(),
            .float8 = map});
}

/// Each rank has its own experts' part of a sum over the same tokens.
void Layers::add_replicas(const ExpertGroup& options, Direction pass) {
  if (options.replicas == 1) return;
  exchange({.axis = ExchangeAxis::tensor,
            .elements = current_.elements(),
            .pass = pass,
            .issued = here(),
            .awaited = here()});
}

/// A gradient goes the way of its activation, from the end to the beginning.
void Layers::exchange_tokens(const ExpertGroup& options, bool dispatch) {
  const auto positions = static_cast<double>(current_.positions());
  const std::vector<TokenStep> steps = steps_of(options, parallel_, current_.elements(), positions);
  // Each expert in the domain has one: attn_input_prob, expert_input_prob (hybrid_ep_backend.cuh).
  const bool carries = dispatch && parallel_.dispatch == ExpertDispatch::hybridep;
  const double weights = carries ? static_cast<double>(options.count) / parallel_.expert_nodes : 0;
  const auto go = [&](Direction pass, bool out) {
    std::uint8_t turn = 0;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const std::size_t at = out ? i : steps.size() - 1 - i;
      const bool beside = out ? steps[at].beside : at + 1 < steps.size() && steps[at + 1].beside;
      if (i > 0 && !beside) ++turn;
      exchange({.axis = steps[at].axis,
                .kind = out ? steps[at].out : steps[at].back,
                .elements = steps[at].elements,
                .pass = pass,
                .issued = here(),
                .awaited = here(),
                .turn = turn,
                .wide_beside = weights * steps[at].copies});
    }
  };
  go(Direction::forward, dispatch);
  go(Direction::backward, !dispatch);
  if (dispatch) exchange_weights(options);
}

/// The router's weights go with the tokens where the activation takes them: Megatron-LM's
/// MoEAlltoAllTokenDispatcher (core/transformer/moe/token_dispatcher.py) sends them in fp32 by an
/// all_to_all of their own, as it sends their gradients back. DeepEP's kernels carry both.
void Layers::exchange_weights(const ExpertGroup& options) {
  if (!options.weighs_activation || parallel_.expert == 1) return;
  if (parallel_.dispatch != ExpertDispatch::all_to_all) return;
  const double rows = current_.positions() * static_cast<double>(options.active) * filled(options);
  for (const Direction pass : {Direction::forward, Direction::backward})
    exchange({.axis = ExchangeAxis::expert,
              .kind = ExchangeKind::all_to_all,
              .elements = rows * options.imbalance,
              .wide = true,
              .pass = pass,
              .issued = here(),
              .awaited = here(),
              .turn = 1});
}

// Megatron-LM's SharedExpertMLP: its first product runs beside the dispatch, its second beside the
// combine.
void Layers::beside_experts(std::size_t first, std::size_t second, std::size_t exchange) {
  Unit& unit = last();
  const std::size_t end = unit.operators.size();
  const std::size_t one = second - first, two = end - second;
  const auto at = [&](std::size_t place) {
    return unit.operators.begin() + static_cast<std::ptrdiff_t>(place);
  };
  std::rotate(at(dispatched_), at(first), at(second));
  std::rotate(at(combined_ + one), at(second), at(end));
  const auto moved = [&](Cut cut) {
    std::size_t& place = cut.before_operator;
    if (place < second) {
      place += dispatched_ - first;
    } else {
      place += combined_ + one - second;
    }
    return cut;
  };
  for (std::size_t i = exchange; i < unit.exchanges.size(); ++i) {
    unit.exchanges[i].issued = moved(unit.exchanges[i].issued);
    unit.exchanges[i].awaited = moved(unit.exchanges[i].awaited);
  }
  for (std::size_t i = 0; i < exchange; ++i) {
    Exchange& tokens = unit.exchanges[i];
    const std::size_t place = tokens.issued.before_operator;
    if (place != dispatched_ && place != combined_) continue;
    const std::size_t begin = place == dispatched_ ? place : place + one;
    const std::size_t behind = begin + (place == dispatched_ ? one : two);
    const bool forward = tokens.pass == Direction::forward;
    tokens.issued.before_operator = forward ? begin : behind;
    tokens.awaited.before_operator = forward ? behind : begin;
  }
}

}  // namespace rehearse::inline model
