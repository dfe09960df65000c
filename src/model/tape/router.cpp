// How transformers' routers weigh experts and choose some for each token (...TopKRouter of each
// family's modeling file, transformers 5.24).
#include "model/tape/operators.hpp"

namespace rehearse::tape {
namespace {

/// Of each row's scores the largest, and which these are. Backward scatters into zeros.
Tensor largest(Recorder& r, const Tensor& scores, std::int64_t count, Tensor& chosen,
               std::string_view op = "topk") {
  Sizes sizes = scores.sizes;
  sizes[sizes.size() - 1] = count;
  Tensor output = r.take(sizes, scores.type);
  chosen = r.take(sizes, Type::int64);
  r.record(op, {&scores}, {&output, &chosen});
  r.connect(output, {scores},
            [&r, chosen, whole = scores.sizes](const Gradients& gradients) -> Gradients {
              const Tensor& dy = gradients[0];
              const Tensor zeros = r.call("new_zeros", {&dy}, whole, dy.type);
              r.record("scatter_", {&zeros, &chosen, &dy}, {&zeros});
              return {zeros};
            });
  return output;
}

/// torch.gather of each row's scores.
Tensor picked(Recorder& r, const Tensor& scores, const Tensor& chosen) {
  Tensor output = r.call("gather", {&scores, &chosen}, chosen.sizes, scores.type);
  r.connect(output, {scores},
            [&r, chosen, whole = scores.sizes](const Gradients& gradients) -> Gradients {
              const Tensor& dy = gradients[0];
              const Tensor zeros = r.call("new_zeros", {&dy}, whole, dy.type);
              r.record("scatter_add_", {&zeros, &chosen, &dy}, {&zeros});
              return {zeros};
            });
  return output;
}

/// Scores, those of experts alone whose group is one of the best: of a group's two best the sum, or
/// its best.
Tensor within_groups(Recorder& r, const Tensor& scores, const Router& router, bool sums) {
  const std::int64_t tokens = scores.sizes[0], groups = router.groups;
  const Tensor three = scores.detached().as({tokens, groups, scores.sizes[1] / groups});
  const Sizes by_group = {tokens, groups};
  Tensor best, chosen;
  if (sums) {
    best = largest(r, three, 2, chosen);
    best = r.call("sum", {&best}, by_group, best.type);
  } else {
    best = largest(r, three, 1, chosen, "max").as(by_group);
  }
  Tensor kept;
  largest(r, best, router.kept_groups, kept);
  const Tensor mask = r.call("zeros_like", {&best}, by_group, best.type);
  r.record("scatter_", {&mask, &kept}, {&mask});
  const Tensor by_expert =
      reshape(r, expand(r, mask.as({tokens, groups, 1}), three.sizes), scores.sizes);
  const Tensor seen = r.call("_to_copy", {&by_expert}, scores.sizes, Type::boolean);
  const Tensor hidden = r.call("bitwise_not", {&seen}, scores.sizes, Type::boolean);
  Tensor output = pointwise(r, "masked_fill", scores, hidden);
  r.connect(output, {scores}, [&r, hidden](const Gradients& gradients) -> Gradients {
    return {pointwise(r, "masked_fill", gradients[0], hidden)};
  });
  return output;
}

/// left / right, which broadcasts; in place it keeps a copy of what it overwrites.
Tensor divided(Recorder& r, const Tensor& left, const Tensor& right, bool in_place) {
  const Tensor kept = in_place ? r.call("clone", {&left}, left.sizes, left.type) : left;
  Tensor output = in_place ? left.detached() : r.take(left.sizes, left.type);
  r.record(in_place ? "div_" : "div", {&left, &right}, {&output});
  r.connect(output, {left, right},
            [&r, x = kept.detached(), y = right.detached()](const Gradients& gradients) {
              const Tensor& dy = gradients[0];
              const Tensor to_left = pointwise(r, "div", dy, y);
              const Tensor negative = pointwise(r, "neg", dy);
              const Tensor once = pointwise(r, "div", x, y);
              const Tensor twice = pointwise(r, "div", once, y);
              return Gradients{to_left, pointwise(r, "mul", negative, twice)};
            });
  return output;
}

/// Sum of each row.
Tensor row_sums(Recorder& r, const Tensor& input) {
  Tensor output = r.call("sum", {&input}, Sizes{input.sizes[0], 1}, input.type);
  r.connect(output, {input}, [&r, whole = input.sizes](const Gradients& gradients) -> Gradients {
    return {expand(r, gradients[0].detached(), whole)};
  });
  return output;
}

}  // namespace

Tensor routed(Recorder& r, const Tensor& logits, const ExpertGroup& o, Tensor& chosen) {
  const Router& how = o.router;
  const bool of_chosen = how.weighing == Router::Weighing::softmax_of_chosen;
  const bool as_it_is = of_chosen && !how.narrow;  // GPT-OSS
  const Type type = logits.type;
  Tensor scores = as_it_is ? logits : to(r, logits, Type::float32);
  if (how.weighing == Router::Weighing::softmax) scores = unary_of_output(r, scores, kSoftmax);
  if (how.weighing == Router::Weighing::sigmoid) scores = unary_of_output(r, scores, kSigmoid);
  Tensor weights;
  if (how.corrected) {
    Tensor correction;
    static_cast<Shape&>(correction) = o.count;
    correction.type = how.wide ? Type::float32 : r.parameter_type();
    Tensor ranked = pointwise(r, "add", scores, correction);
    if (how.groups > 0) ranked = within_groups(r, ranked, how, true);
    largest(r, ranked, o.active, chosen);
    weights = picked(r, scores, chosen);
  } else {
    const Tensor ranked = how.groups > 0 ? within_groups(r, scores, how, false) : scores;
    weights = largest(r, ranked, o.active, chosen);
  }
  if (of_chosen) weights = unary_of_output(r, weights, kSoftmax);
  if (how.normed || how.clamped) {
    Tensor sum = row_sums(r, weights);
    if (how.shifted) sum = add_number(r, sum);
    if (how.clamped) sum = clamp(r, sum, true, false);
    weights = divided(r, weights, sum, how.normed);
  }
  if (how.scaled) weights = scale(r, weights);
  return how.narrow ? to(r, weights, how.wide ? r.narrow_type() : type) : weights;
}

}  // namespace rehearse::tape
