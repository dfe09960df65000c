// Mixtures of experts: as Hugging Face's transformers computes them on one rank with
// experts_implementation: grouped_mm (grouped_mm_experts_forward of integrations/moe.py, 5.24: rows
// of absent experts are masked under expert parallelism alone; 5.17 masked them always), and as
// stacks do that exchange tokens.
#include <cmath>
#include <optional>

#include "model/layers.hpp"
#include "model/tape/operators.hpp"
#include "model/tape/play.hpp"

namespace rehearse::tape {
namespace {

/// A matrix, or several, turned: outside the graph.
Tensor transposed(const Tensor& t) {
  Shape shape = t;
  const std::size_t last = t.dimensions() - 1;
  std::swap(shape.sizes[last], shape.sizes[last - 1]);
  std::swap(shape.strides[last], shape.strides[last - 1]);
  return t.detached().as(shape);
}

struct GroupedWeights {
  Parameter parameter;      ///< experts by out by in
  bool transposed = false;  ///< experts by in by out
  /// Experts by out, which the products' epilogues add and sum the gradient of.
  std::optional<Parameter> bias = std::nullopt;
  Tensor ends = undefined();  ///< the last row of each, if a kernel of PyTorch's asks for them
};

/// torch._grouped_mm, both sides of a product with a weight for each of the experts.
Tensor grouped_product(Recorder& r, const Tensor& input, const GroupedWeights& weights) {
  const Tensor weight = product_parameter(r, weights.parameter);
  const Tensor x = lower(r, input);
  const bool quantized = r.trait(weights.parameter.unit, weights.parameter.index).quantized();
  // One expert at a time gets its 16 bits.
  const auto widened = [&r, quantized, each = weight.sizes] {
    return quantized ? r.workspace({each[1], each[2]}, Type::float16) : undefined();
  };
  const bool direct = weights.transposed;
  const Tensor right = direct ? weight.detached() : transposed(weight);
  Tensor output;
  {
    const Tensor wide = widened();
    output = r.call("_grouped_mm", {&x, &right, &weights.ends}, Sizes{x.sizes[0], right.sizes[2]},
                    x.type);
  }
  Tensors inputs = {x, weight};
  if (weights.bias) inputs.push_back(parameter(r, *weights.bias));
  r.connect(output, inputs,
            [&r, widened, direct, right, ends = weights.ends, inputs = x.sizes,
             sizes = weight.sizes, trained = weight.needs_gradient(), type = x.type,
             bias = weights.bias, saved = weight.needs_gradient() ? x.detached() : undefined()](
                const Gradients& gradients) -> Gradients {
              const Tensor wide = widened();
              const Tensor& dy = gradients[0];
              Gradients results = {undefined(), undefined()};
              if (bias) results.push_back(trained ? r.take(bias->sizes, type) : undefined());
              if (trained) {
                const Tensor left = transposed(direct ? saved : dy);
                results[1] = r.call("_grouped_mm", {&left, direct ? &dy : &saved, &ends}, sizes,
                                    type, {.role = KernelRole::weight_gradient});
              }
              const Tensor back = transposed(right);
              results[0] = r.call("_grouped_mm", {&dy, &back, &ends}, inputs, type);
              return results;
            });
  return output;
}

/// A bias for each row's expert: gathered, which is a function's local variable, then added in
/// place.
Tensor with_expert_bias(Recorder& r, const Tensor& product, const Parameter& bias,
                        const Tensor& experts, Tensor& chosen) {
  chosen = gathered(r, parameter(r, bias), experts, product.sizes);
  return add_in_place(r, product, chosen);
}

/// TEGroupedMLP._apply_bias (megatron/core/transformer/moe/experts.py): of each expert's rows, its
/// bias times the router's weights is added, and torch.cat joins them again.
Tensor with_weighted_biases(Recorder& r, const Tensor& product, const Parameter& bias,
                            const Tensor& weights) {
  const std::int64_t experts = bias.sizes[0];
  std::vector<std::int64_t> counts(static_cast<std::size_t>(experts), product.sizes[0] / experts);
  counts.back() += product.sizes[0] % experts;
  const Tensors rows = split(r, product, 0, counts), shares = split(r, weights, 0, counts);
  const Tensors biases =
      split(r, parameter(r, bias), 0, std::vector<std::int64_t>(counts.size(), 1));
  Tensors sums;
  for (std::size_t i = 0; i < counts.size(); ++i)
    sums.push_back(add(r, rows[i], multiply(r, biases[i], shares[i])));
  return to(r, concatenate(r, sums, 0), product.type);
}

/// weighted_bias_quick_geglu_impl's clamps before its kernel (megatron/core/fusions/
/// fused_bias_geglu.py): gate and up, and both side by side again.
Tensor clamped_halves(Recorder& r, const Tensor& both) {
  const Tensors halves = chunk(r, both, 2);
  return concatenate(r, {clamp(r, halves[0], false, true), clamp(r, halves[1], true, true)}, 1);
}

/// SwiGLU of GPT-OSS: gate and up are each other channel, clamped; the gate's sigmoid is of a
/// multiple, up gets 1 more.
Tensor clamped_product(Recorder& r, const Tensor& both) {
  const std::int64_t half = both.sizes[1] / 2;
  const Tensor gate = slice(r, both, 1, half, 2), up = slice(r, both, 1, half, 2);
  const Tensor low = clamp(r, gate, false, true);
  const Tensor between = clamp(r, up, true, true);
  const Tensor glu = multiply(r, low, unary_of_output(r, scale(r, low), kSigmoid));
  return multiply(r, add_number(r, between), glu);
}

/// As Megatron-LM's TEGroupedMLP: what its fused products have in their epilogues stands apart.
bool as_megatron(const ExpertGroup& o) { return o.weighs_activation && !o.grouped; }

/// What stands between an expert's products as one kernel, which keeps its input, and where it
/// multiplies by the router's weights these, too.
Tensor fused_rows(Recorder& r, const Tensor& first, const Tensor& weights, std::int64_t channels) {
  Tensor output = r.call("fused_experts", {&first}, Sizes{first.sizes[0], channels}, first.type);
  Tensors inputs = {first};
  if (weights.defined) inputs.push_back(weights);
  r.connect(output, inputs,
            [&r, x = first.detached(),
             weights = weights.detached()](const Gradients& gradients) -> Gradients {
              Gradients results = {
                  r.call("fused_experts_backward", {&gradients[0], &x}, x.sizes, x.type)};
              if (weights.defined) results.push_back(r.take(weights.sizes, weights.type));
              return results;
            });
  return output;
}

/// Sum of each token's rows.
Tensor summed(Recorder& r, const Tensor& rows, const Sizes& sizes) {
  const std::int64_t each = rows.sizes[0] / sizes[0];
  if (rows.sizes[0] != each * sizes[0]) {  // a capacity leaves some out
    Tensor output = r.call("sum", {&rows}, sizes, rows.type);
    r.connect(output, {rows},
              [&r, wide = rows.sizes, type = rows.type](const Gradients& gradients) -> Gradients {
                return {r.call("clone", {&gradients[0]}, wide, type)};
              });
    return output;
  }
  const Tensor three = reshape(r, rows, {sizes[0], each, sizes[1]});
  Tensor output = r.call("sum", {&three}, sizes, rows.type);
  r.connect(output, {three}, [&r, wide = three.sizes](const Gradients& gradients) -> Gradients {
    const Tensor& dy = gradients[0];
    return {expand(r, unsqueeze(r, dy.detached(), 1), wide)};
  });
  return output;
}

struct Routing {
  Tensor order, experts, weights;  ///< rows by expert
};

/// The router's softmax in fp32, the largest of each token, and rows sorted by expert.
Routing route(Recorder& r, const Tensor& logits, std::int64_t rows) {
  const Tensor wide = to(r, logits, Type::float32);
  const Tensor shares = unary_of_output(r, wide, kSoftmax);
  const Tensor indices = r.take(rows, Type::int64);
  const Tensor largest = gathered(r, shares, indices, {rows, 1});
  const Tensor normed = multiply(r, largest, scale(r, largest));
  Routing routing;
  routing.experts = r.take(rows, Type::int64);
  routing.order = r.take(rows, Type::int64);
  r.record("sort", {&indices}, {&routing.experts, &routing.order});
  routing.weights = gathered(r, normed, routing.order, {rows, 1});
  return routing;
}

/// Parameters in the order in which the layer has them.
struct Weights {
  std::uint32_t unit = 0, next = 0;
  Parameter take(const Sizes& sizes) { return {unit, next++, sizes}; }
};

Tensor router_logits(Recorder& r, const Tensor& x, const ExpertGroup& o, Weights& weights) {
  LinearOptions router{.weight = weights.take({o.count, x.sizes.back()}), .out = o.count};
  router.wide = o.router.wide;
  if (o.biases) router.bias = weights.take(o.count);
  return linear(r, x, router);
}

}  // namespace

Tensor Player::between_products(const ExpertGroup& o, const Tensor& first, const Tensor& weights) {
  Recorder& r = recorder_;
  if (r.compiled()) {
    const bool apart = as_megatron(o) && o.clamped && o.gated;
    return fused_rows(r, apart ? clamped_halves(r, first) : first,
                      o.weighs_activation ? weights : undefined(), o.width);
  }
  Tensor made;
  if (o.gated && o.clamped) {
    made = clamped_product(r, first);
  } else if (o.gated) {
    const Tensors halves = chunk(r, first, 2);
    made = multiply(r, unary_of_input(r, halves[0], kSilu), halves[1]);
  } else {
    made = power(r, unary_of_output(r, first, kRelu));
  }
  return o.weighs_activation ? multiply(r, made, weights) : made;
}

Tensor Player::experts(const Layer& layer) {
  return layer.experts.as_transformers() && !recorder_.compiled() && !recorder_.on_cpu()
             ? grouped_experts(layer)
             : exchanged_experts(layer);
}

Tensor Player::grouped_experts(const Layer& layer) {
  Recorder& r = recorder_;
  const ExpertGroup& o = layer.experts;
  const Sizes whole = input(layer).sizes;
  const std::int64_t hidden = whole.back(), tokens = input(layer).elements() / hidden;
  const std::int64_t rows = tokens * o.active;
  Weights weights{layer.unit, layer.parameter};
  const Tensor once = reshape(r, input(layer), {tokens, hidden});
  const bool apart = o.router.views == Router::Views::apart;
  const Tensor by_token = apart ? reshape(r, input(layer), {tokens, hidden}) : once;
  Tensor chosen;
  const Tensor shares = routed(r, router_logits(r, once, o, weights), o, chosen);
  const Tensor by_row = reshape(r, shares, rows);
  Routing routing;
  routing.experts = r.take(rows, Type::int64);
  routing.order = r.take(rows, Type::int64);
  r.record("sort", {&chosen}, {&routing.experts, &routing.order});
  Tensor selected;
  {
    const Tensor places = r.call("floor_divide", {&routing.order}, rows, Type::int64);
    selected = gathered(r, by_token, places, {rows, hidden});
  }
  routing.weights = gathered(r, by_row, routing.order, rows);
  const Tensor narrow = r.call("_to_copy", {&routing.experts}, rows, Type::int32);
  const Tensor counts = r.call("histc", {&narrow}, o.count, Type::int32);
  const Tensor ends = r.call("cumsum", {&counts}, o.count, Type::int32);
  Tensor biases;
  const auto product = [&](const Tensor& in, std::int64_t wide) {
    const std::int64_t channels = in.sizes.back();
    const Sizes sizes = o.biases ? Sizes{o.own(), channels, wide} : Sizes{o.own(), wide, channels};
    const GroupedWeights own{
        .parameter = weights.take(sizes), .transposed = o.biases, .ends = ends};
    if (!o.biases) return grouped_product(r, in, own);
    const Parameter bias = weights.take({o.own(), wide});
    biases = undefined();
    return with_expert_bias(r, grouped_product(r, in, own), bias, routing.experts, biases);
  };
  Tensor made = product(selected, o.wide());
  {
    const bool remade = r.remakes(o.remakes_activation || layer.remade);
    made = between_products(o, made, undefined());
    r.remakes(remade);
  }
  made = product(made, hidden);
  made = multiply(r, made, reshape(r, routing.weights, {rows, 1}));
  const Tensor inverse = r.take(rows, Type::int64);
  {
    const Tensor range = r.call("arange", {}, rows, Type::int64);
    r.record("index_put_", {&inverse, &routing.order, &range}, {&inverse});
  }
  made = gathered(r, made, inverse, {rows, hidden});
  made = to(r, summed(r, made, {tokens, hidden}), by_token.type);
  return reshape(r, made, whole);
}

Tensor Player::exchanged_experts(const Layer& layer) {
  Recorder& r = recorder_;
  const ExpertGroup& o = layer.experts;
  const std::int64_t tokens = r.batch() * layer.in.positions();
  const std::int64_t hidden = o.latent > 0 ? o.latent : layer.in.channels;
  const auto times = [](std::int64_t count, double factor) {
    return static_cast<std::int64_t>(std::llround(static_cast<double>(count) * factor));
  };
  const std::int64_t rows = times(tokens * o.active, filled(o));
  const std::int64_t got = times(rows, o.imbalance);
  const std::int64_t computed = got * o.sharing;
  Weights own{layer.unit, layer.parameter};
  const Routing routing = route(r, router_logits(r, input(layer), o, own), rows);
  // Behind the experts' two.
  const auto projected = [&](const Tensor& in, std::uint32_t which, std::int64_t out) {
    const Parameter product{layer.unit, layer.parameter + 3 + which, {out, in.sizes.back()}};
    return linear(r, in, {.weight = product, .out = out});
  };
  const Tensor x = o.latent > 0 ? projected(input(layer), 0, hidden) : input(layer);
  Tensor biases;
  const bool library = r.compiled() && o.weighs_activation;
  const auto product = [&](const Tensor& in, std::int64_t wide, bool second) {
    GroupedWeights weights{.parameter = own.take({o.own(), wide, in.sizes.back()})};
    if (!o.biases) return grouped_product(r, in, weights);
    const Parameter bias = own.take({o.own(), wide});
    const bool behind = second && as_megatron(o);
    if (library && !behind) weights.bias = bias;
    const Tensor out = grouped_product(r, in, weights);
    if (!library) return with_expert_bias(r, out, bias, routing.experts, biases);
    if (!behind) return out;
    return with_weighted_biases(
        r, out, bias,
        computed == rows ? routing.weights : exchanged(r, routing.weights, {computed, 1}));
  };
  // To the ranks that hold the experts, sorted by expert there, and copies to those that share one.
  const auto dispatched = [&](Tensor sent) {
    if (o.held > 0) sent = exchanged(r, sent, got);
    if (o.held > 1) sent = gathered(r, sent, routing.order, {got, hidden});
    return o.sharing > 1 ? exchanged(r, sent, computed) : sent;
  };
  const auto combined = [&](Tensor made) {
    if (o.sharing > 1) made = exchanged(r, made, got);
    if (o.held > 1) made = gathered(r, made, routing.order, {got, hidden});
    return o.held > 0 ? exchanged(r, made, rows) : made;
  };
  const Tensor by_token = reshape(r, x, {tokens, hidden});
  Tensor activated;
  {
    const Tensor selected = dispatched(gathered(r, by_token, routing.order, {rows, hidden}));
    const Tensor first = product(selected, o.wide(), false);
    const bool whole = r.remakes(o.remakes_activation || layer.remade);
    activated = between_products(o, first, routing.weights);
    r.remakes(whole);
  }
  const Tensor out = combined(product(activated, hidden, true));
  activated = undefined();
  Tensor back = out;
  if (!o.weighs_activation)
    back = gathered(r, multiply(r, out, routing.weights), routing.order, {rows, hidden});
  const Tensor sum = reshape(r, to(r, summed(r, back, {tokens, hidden}), x.type), x.sizes);
  return o.latent > 0 ? projected(sum, 1, layer.in.channels) : sum;
}

}  // namespace rehearse::tape
