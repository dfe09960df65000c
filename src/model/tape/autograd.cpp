#include "model/tape/autograd.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace rehearse::tape {

std::int64_t bytes_of(Type type) {
  switch (type) {
    case Type::float32:
      return 4;
    case Type::float16:
      return 2;
    case Type::int64:
    case Type::complex64:
      return 8;
    case Type::int32:
      return 4;
    case Type::byte:
    case Type::boolean:
      return 1;
  }
  return 0;
}

Storage::~Storage() {
  if (!leaves_) recorder_.give_back(tensor_);
}

Tensor Tensor::detached() const {
  Tensor same = *this;
  same.source = nullptr;
  same.slot = 0;
  return same;
}

Tensor Tensor::as(const Shape& shape) const {
  Tensor same = *this;
  static_cast<Shape&>(same) = shape;
  return same;
}

Tensor undefined() {
  Tensor none;
  none.defined = false;
  return none;
}

Recorder::Recorder(const TapeOptions& options, const Model& model)
    : options_(options), model_(model) {
  tape_.units.resize(model.units.size());
  if (options.kernels) tape_.kernels.resize(model.units.size());
}

Type Recorder::parameter_type() const {
  return parameter_element(options_.precision) == Bytes(2) ? Type::float16 : Type::float32;
}

Tensor Recorder::take(const Shape& shape, Type type) {
  return take(shape, type, in_backward_ ? TensorRole::activation_gradient : TensorRole::activation);
}

Tensor Recorder::take(const Shape& shape, Type type, TensorRole role) {
  const auto number = static_cast<std::uint32_t>(tape_.tensors.size());
  const auto size = static_cast<double>(shape.elements() * bytes_of(type));
  tape_.tensors.push_back(
      {.role = role, .size = Bytes(size), .unit = unit_, .remade = remakes_ && !in_backward_});
  events_->push_back({number, true});
  Tensor tensor;
  static_cast<Shape&>(tensor) = shape;
  tensor.storage = std::make_shared<Storage>(*this, number);
  tensor.type = type;
  return tensor;
}

Tensor Recorder::parameter(std::uint32_t unit, std::uint32_t index, const Sizes& sizes) {
  Tensor tensor;
  static_cast<Shape&>(tensor) = sizes;
  const ParameterTrait trait = this->trait(unit, index);
  tensor.type = parameter_type();
  if (trait.storage == StoredAs::fp32) tensor.type = Type::float32;
  if (trait.storage == StoredAs::bf16 || trait.quantized()) tensor.type = Type::float16;
  if (!trait.trained) return tensor;
  for (const Leaf& leaf : leaves_) {
    if (leaf.unit == unit && leaf.parameter == index) tensor.source = leaf.node;
  }
  if (tensor.source) return tensor;
  tensor.source = std::make_shared<Node>();
  tensor.source->number = std::numeric_limits<std::uint64_t>::max();
  tensor.source->accumulates = true;
  tensor.source->unit = unit;
  tensor.source->parameter = index;
  leaves_.push_back({unit, index, tensor.source});
  return tensor;
}

void Recorder::connect(std::vector<Tensor*> outputs, const Tensors& inputs, Backward backward) {
  const auto needs = [](const Tensor& input) { return input.needs_gradient(); };
  if (!saves_ || !options_.gradients) return;
  if (std::none_of(inputs.begin(), inputs.end(), needs)) return;
  auto node = std::make_shared<Node>();
  node->number = nodes_++;
  node->made_in = unit_;
  node->outputs = outputs.size();
  node->backward = std::move(backward);
  for (const Tensor& input : inputs) {
    node->inputs.push_back(input);
    node->inputs.back().storage = nullptr;
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    outputs[i]->source = node;
    outputs[i]->slot = i;
  }
}

void Recorder::connect(Tensor& output, const Tensors& inputs, Backward backward) {
  connect(std::vector<Tensor*>{&output}, inputs, std::move(backward));
}

void Recorder::begin_unit(std::uint32_t unit) { enter(unit, false); }

Tensor& Recorder::cached_copy(std::uint32_t unit, std::uint32_t parameter) {
  for (Copy& copy : copies_) {
    if (copy.unit == unit && copy.parameter == parameter) return copy.tensor;
  }
  copies_.push_back({unit, parameter, undefined()});
  return copies_.back().tensor;
}

void Recorder::add_leftovers(const Tensors& outputs, std::size_t position) {
  std::vector<TapeEvent>& first = tape_.units.front().forward;
  std::vector<TapeEvent>& last = tape_.units.back().forward;
  std::vector<TapeEvent> taken;
  const auto leave = [&](std::uint32_t like, auto place) {
    const auto number = static_cast<std::uint32_t>(tape_.tensors.size());
    tape_.tensors.push_back({.size = tape_.tensors[like].size});
    taken.push_back({number, true});
    last.insert(place, {number, false});
  };
  for (const Tensor& output : outputs)
    leave(output.storage->tensor(), last.begin() + static_cast<std::ptrdiff_t>(position));
  for (const std::uint32_t input : held_inputs_) leave(input, last.end());
  first.insert(first.begin(), taken.begin(), taken.end());
}

void Recorder::end_forward() { copies_.clear(); }

/// PyTorch's engine on one thread (torch/csrc/autograd/engine.cpp): of the nodes whose gradients
/// are complete, the one made last runs next, and parameters' accumulation before all others.
class Engine {
 public:
  explicit Engine(Recorder& recorder) : recorder_(recorder) {}
  /// The gradient that backward began with.
  std::uint32_t root() const { return root_; }

  void run(const Tensor& loss) {
    const Tensor one = recorder_.take(loss, loss.type);  // the caller's until the end
    recorder_.record("ones_like", {&loss}, {&one}, {.role = KernelRole::gathered});
    root_ = one.storage->tensor();
    run(loss, one);
  }

  /// From a gradient that is there; what collecting nodes got.
  Gradients run(const Tensor& output, const Tensor& gradient, std::size_t collecting = 0) {
    collected_.assign(collecting, undefined());
    count_dependencies(output.source.get());
    Work root{output.source, Gradients(output.source->outputs, undefined())};
    root.gradients[output.slot] = gradient;
    ready_.push_back(std::move(root));
    while (!ready_.empty()) {
      const auto next = std::max_element(
          ready_.begin(), ready_.end(),
          [](const Work& a, const Work& b) { return a.node->number < b.node->number; });
      Work work = std::move(*next);
      ready_.erase(next);
      evaluate(std::move(work));
    }
    return std::move(collected_);
  }

 private:
  struct Work {
    std::shared_ptr<Node> node;
    Gradients gradients;  ///< of its outputs
  };

  void count_dependencies(Node* root) {
    std::vector<Node*> reached = {root};
    dependencies_[root] = 0;
    for (std::size_t i = 0; i < reached.size(); ++i) {
      for (const Tensor& input : reached[i]->inputs) {
        if (!input.source) continue;
        const auto [entry, is_new] = dependencies_.emplace(input.source.get(), 0);
        ++entry->second;
        if (is_new) reached.push_back(input.source.get());
      }
    }
  }

  void evaluate(Work work) {
    if (work.node->backward) {
      recorder_.enter(work.node->made_in, true);
      recorder_.node_ = static_cast<std::uint32_t>(work.node->number);
    }
    if (work.node->accumulates) return accumulate_parameter(std::move(work));
    if (work.node->enters) return leave(work.gradients[0]);
    if (work.node->collects) {
      collected_[work.node->parameter] = work.gradients[0];
      return;
    }
    Gradients results = work.node->backward(work.gradients);
    check(results.size() <= work.node->inputs.size(), "more gradients than inputs");
    reduce(results, work.node->inputs);
    work.gradients.clear();
    work.node->backward = nullptr;  // gives back what it saved
    for (std::size_t i = 0; i < results.size(); ++i) {
      pass(std::exchange(results[i], undefined()), work.node->inputs[i]);
    }
    work.node->inputs.clear();  // or the graph's end would be as deep a recursion as it is long
  }

  /// The engine makes a gradient as small as its input, and of its type.
  void reduce(Gradients& results, const Tensors& inputs) {
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (!results[i].defined || !inputs[i].source) continue;
      results[i] = converted(summed(std::move(results[i]), inputs[i]), inputs[i].type);
    }
  }

  /// at::sum_to.
  Tensor summed(Tensor gradient, const Tensor& input) {
    if (gradient.sizes == input.sizes) return gradient;
    Shape kept = gradient;
    const std::size_t leading = gradient.dimensions() - input.dimensions();
    bool reduces = leading > 0;
    for (std::size_t i = 0; i < gradient.dimensions(); ++i) {
      if (i >= leading && (input.sizes[i - leading] != 1 || gradient.sizes[i] == 1)) continue;
      kept.sizes[i] = 1;
      reduces = true;
    }
    check(kept.elements() == input.elements(), "a gradient of other sizes than its input");
    if (!reduces) return gradient.as(input.sizes);
    const Tensor sum = recorder_.take(kept.sizes, gradient.type);
    recorder_.record("sum", {&gradient}, {&sum}, {.role = KernelRole::gathered});
    return sum.as(input.sizes);
  }

  Tensor converted(Tensor gradient, Type type) {
    if (gradient.type == type) return gradient;
    Tensor made = recorder_.take(gradient, type);
    recorder_.record("_to_copy", {&gradient}, {&made}, {.role = KernelRole::gathered});
    return made;
  }

  void pass(Tensor gradient, const Tensor& input) {
    if (!input.source) return;
    const auto [entry, is_new] = waiting_.try_emplace(input.source.get());
    Work& work = entry->second;
    if (is_new)
      work = {input.source,
              Gradients(std::max<std::size_t>(input.source->outputs, 1), undefined())};
    if (gradient.defined) add(work.gradients[input.slot], std::move(gradient), *input.source);
    if (--dependencies_.at(input.source.get()) > 0) return;
    ready_.push_back(std::move(work));
    waiting_.erase(entry);
  }

  /// torch/csrc/autograd/input_buffer.cpp: in place where nobody else holds the first one's memory.
  void add(Tensor& sum, Tensor gradient, const Node& node) {
    if (!sum.defined) {
      sum = std::move(gradient);
      return;
    }
    if (!node.accumulates && sum.storage.use_count() == 1 && sum.dense()) {
      recorder_.record("add_", {&sum, &gradient}, {&sum}, {.role = KernelRole::gathered});
      return;
    }
    const Tensor both = recorder_.take(broadcast({&sum, &gradient}), sum.type);
    recorder_.record("add", {&sum, &gradient}, {&both}, {.role = KernelRole::gathered});
    sum = both;
  }

  /// Of a chunk's input: it goes to the rank that has computed it.
  void leave(const Tensor& gradient) {
    if (!gradient.defined) return;
    recorder_.tape_.chunks.back().sent_gradient = gradient.storage->tensor();
    gradient.storage->leave();
  }

  void accumulate_parameter(Work work) {
    Tensor& gradient = work.gradients[0];
    if (!gradient.defined) return;
    if (gradient.storage.use_count() > 1 || gradient.shared || !gradient.contiguous()) {
      const Tensor copy = recorder_.take(gradient.sizes, gradient.type);
      recorder_.record("copy_", {&copy, &gradient}, {&copy}, {.role = KernelRole::gathered});
      gradient = copy;
    }
    TapeTensor& tensor = recorder_.tape_.tensors[gradient.storage->tensor()];
    tensor.role = TensorRole::parameter_gradient;
    tensor.unit = work.node->unit;
    tensor.parameter = work.node->parameter;
    gradient.storage->leave();
  }

  Recorder& recorder_;
  std::uint32_t root_ = 0;
  std::map<const Node*, int> dependencies_;
  std::map<const Node*, Work> waiting_;
  std::vector<Work> ready_;
  Gradients collected_;
};

void Recorder::backward(const Tensor& loss) {
  if (!options_.gradients) return;
  in_backward_ = true;
  enter(static_cast<std::uint32_t>(tape_.units.size() - 1), true);
  Engine(*this).run(loss);
}

Tensors Recorder::checkpoint(const Tensors& inputs, const Function& function) {
  saves_ = false;
  Tensors outputs = function(inputs);
  saves_ = true;
  Tensors saved;
  for (const Tensor& input : inputs) saved.push_back(input.detached());
  Tensor output = outputs[0].detached();
  connect(output, inputs, [this, saved, function](const Gradients& gradients) {
    return run_again(saved, function, gradients[0]);
  });
  outputs[0] = output;
  return outputs;
}

Gradients Recorder::run_again(const Tensors& saved, const Function& function,
                              const Tensor& gradient) {
  Tensors inputs = saved;
  for (std::uint32_t i = 0; i < inputs.size(); ++i) {
    inputs[i].source = std::make_shared<Node>();
    inputs[i].source->number = std::numeric_limits<std::uint64_t>::max();
    inputs[i].source->collects = true;
    inputs[i].source->parameter = i;
  }
  in_backward_ = false;
  const Tensors outputs = function(inputs);
  in_backward_ = true;
  return Engine(*this).run(outputs[0], gradient, inputs.size());
}

Tensor Recorder::receive(const Shape& shape, Type type) {
  Tensor input = take(shape, type);
  tape_.chunks.back().received = input.storage->tensor();
  if (!options_.gradients) return input;
  received_ = input;
  input.source = std::make_shared<Node>();
  input.source->number = std::numeric_limits<std::uint64_t>::max();
  input.source->enters = true;
  return input;
}

void Recorder::send(const Tensor& output) {
  tape_.chunks.back().sent = output.storage->tensor();
  output.storage->leave();
}

void Recorder::end_chunk(std::size_t last_unit, const Tensor& output) {
  if (!options_.gradients) return;
  in_backward_ = true;
  enter(static_cast<std::uint32_t>(last_unit), true);
  Engine engine(*this);
  engine.run(output);
  if (tape_.chunks.back().sent) tape_.chunks.back().received_gradient = engine.root();
  received_ = {};
  in_backward_ = false;
}

}  // namespace rehearse::tape
