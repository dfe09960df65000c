#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "model/memory_tape.hpp"

// PyTorch's eager mode and its autograd engine without numbers: tensors that only have sizes and
// strides, in storages that are given back to the allocator when nobody holds them any more. The
// tape comes out of who holds what, as it does there; its kernels are the calls that did it.
namespace rehearse::tape {

/// Types of elements; float16: bf16, too.
enum class Type : std::uint8_t { float32, float16, int64, int32, byte, boolean, complex64 };
std::int64_t bytes_of(Type type);

class Recorder;

/// Memory of one or more tensors: given back by its end.
class Storage {
 public:
  Storage(Recorder& recorder, std::uint32_t tensor) : recorder_(recorder), tensor_(tensor) {}
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  ~Storage();
  std::uint32_t tensor() const { return tensor_; }
  /// Its tensor is the strategy's from now on: it is not given back.
  void leave() { leaves_ = true; }

 private:
  Recorder& recorder_;
  std::uint32_t tensor_;
  bool leaves_ = false;
};

struct Node;

/// Where a tensor's elements lie.
struct Shape {
  Shape(const Sizes& contiguous) : sizes(contiguous), strides(contiguous_strides(contiguous)) {}
  Shape(std::int64_t one) : Shape(Sizes(one)) {}
  Shape(std::initializer_list<std::int64_t> contiguous) : Shape(Sizes(contiguous)) {}
  Shape(const Sizes& those, const Sizes& apart) : sizes(those), strides(apart) {}

  std::int64_t elements() const { return sizes.elements(); }
  std::size_t dimensions() const { return sizes.size(); }
  /// No gaps, and in the order of its dimensions.
  bool contiguous() const;
  /// No gaps, and no element twice.
  bool dense() const;
  bool channels_last() const;

  Sizes sizes, strides;
};
/// A shape of four dimensions whose channels, the second, lie side by side.
Shape channels_last(const Sizes& sizes);
/// What TensorIterator (aten/src/ATen/TensorIterator.cpp) makes of operands: sizes by broadcasting,
/// and the order of their dimensions in memory.
Shape broadcast(std::initializer_list<const Shape*> operands);

/// A handle, as torch::Tensor is. Without storage: resident (a parameter, the batch).
struct Tensor : Shape {
  Tensor() : Shape(Sizes()) {}

  std::shared_ptr<Storage> storage;
  Type type = Type::float32;
  std::shared_ptr<Node> source;  ///< what its gradient goes to; null if it needs none
  std::size_t slot = 0;          ///< which output of `source` it is
  bool defined = true;
  bool shared = false;  ///< a gradient that somebody else holds, too

  bool needs_gradient() const { return source != nullptr; }
  /// The same memory, outside the graph: what a node saves.
  Tensor detached() const;
  /// The same, with other dimensions.
  Tensor as(const Shape& shape) const;
};
/// No gradient.
Tensor undefined();

/// Tensors side by side. In every build, an index past their end is an InternalError: a layer that
/// is played on something else than it was made for.
class Tensors : public std::vector<Tensor> {
 public:
  using std::vector<Tensor>::vector;

  Tensor& operator[](std::size_t index) { return data()[checked(index)]; }
  const Tensor& operator[](std::size_t index) const { return data()[checked(index)]; }
  Tensor& front() { return (*this)[0]; }
  const Tensor& front() const { return (*this)[0]; }

 private:
  std::size_t checked(std::size_t index) const {
    check(index < size(), "a layer that reads a tensor that is not there");
    return index;
  }
};

using Gradients = Tensors;
/// From the gradients of a node's outputs to those of its inputs. What it captured is saved for
/// backward, and given back when it has run.
using Backward = std::function<Gradients(const Gradients&)>;

/// A node of autograd's graph.
struct Node {
  std::uint64_t number = 0;  ///< in order of creation: the highest that is ready runs first
  Tensors inputs;            ///< without storage: their nodes, sizes and types
  std::size_t outputs = 1;
  Backward backward;
  /// Where a parameter's gradients end.
  bool accumulates = false;
  std::uint32_t unit = 0, parameter = 0;
  bool enters = false;        ///< where those of a chunk's input end
  bool collects = false;      ///< where those of the `parameter`th input end of what runs again
  std::uint32_t made_in = 0;  ///< the unit whose forward made it, which its backward belongs to
};

/// What a kernel is told beside its tensors, and what it is for.
struct CallOptions {
  std::vector<std::pair<std::string_view, std::vector<double>>> with = {};
  KernelRole role = KernelRole::gradient;  ///< in backward
};
using Operands = std::initializer_list<const Tensor*>;

/// Runs one step's tensors and writes them down.
class Recorder {
 public:
  Recorder(const TapeOptions& options, const Model& model);

  std::int64_t batch() const { return options_.batch; }
  /// False: under torch.no_grad.
  bool has_gradients() const { return options_.gradients; }
  bool on_cpu() const { return options_.device == TapeDevice::cpu; }
  bool autocast() const { return is_autocast(options_.precision); }
  Precision precision() const { return options_.precision; }
  /// Bytes that so many elements take where linear layers of blocks multiply: an integer.
  std::int64_t narrow_bytes(std::int64_t elements) const {
    return static_cast<std::int64_t>(static_cast<double>(elements) *
                                     narrow_element(options_.precision).value());
  }
  Float8 float8() const { return model_.float8; }
  /// Whether weights of convolutions are in torch.channels_last, as the whole network is.
  bool weighs_channels_last() const {
    return model_.variant.find("channels_last") != std::string::npos;
  }
  /// Whether modules of the unit that runs are one kernel each, and save what those need.
  bool compiled() const { return model_.is_fused(unit_); }
  /// Type of parameters and the batch.
  Type parameter_type() const;
  /// Type of activations that linear layers make.
  Type narrow_type() const { return autocast() ? Type::float16 : parameter_type(); }
  /// Trait of a parameter: whether it is trained, and how it is kept.
  ParameterTrait trait(std::uint32_t unit, std::uint32_t parameter) const {
    check(unit < model_.units.size(), "a parameter of a unit that is not there");
    const Unit& owner = model_.units[unit];
    check(owner.traits.empty() || parameter < owner.traits.size(), "a parameter without a trait");
    return owner.trait(parameter);
  }

  /// Takes memory for a tensor: an activation or workspace in forward, a gradient in backward.
  Tensor take(const Shape& shape, Type type);
  Tensor take(const Shape& shape, Type type, TensorRole role);
  Tensor workspace(const Shape& shape, Type type) {
    return take(shape, type, TensorRole::workspace);
  }
  /// Writes down a kernel that has run.
  void record(std::string_view op, std::span<const Tensor* const> reads,
              std::span<const Tensor* const> writes, CallOptions options = {});
  void record(std::string_view op, std::span<const Tensor* const> reads, Operands writes,
              CallOptions options = {}) {
    record(op, reads, std::span(writes.begin(), writes.size()), std::move(options));
  }
  void record(std::string_view op, Operands reads, Operands writes, CallOptions options = {}) {
    record(op, std::span(reads.begin(), reads.size()), writes, std::move(options));
  }
  /// Runs an operator that makes one tensor.
  Tensor call(std::string_view op, Operands reads, const Shape& shape, Type type,
              CallOptions options = {}) {
    Tensor made = take(shape, type);
    record(op, reads, {&made}, std::move(options));
    return made;
  }
  Tensor parameter(std::uint32_t unit, std::uint32_t index, const Sizes& sizes);
  /// Makes `output` (or several of one node) a function of `inputs`, if one needs a gradient.
  void connect(std::vector<Tensor*> outputs, const Tensors& inputs, Backward backward);
  void connect(Tensor& output, const Tensors& inputs, Backward backward);

  /// From here on forward's tensors are made again in backward, or are not.
  bool remakes(bool remade) { return std::exchange(remakes_, remade); }
  /// A collective on another stream reads or writes it while the host goes on.
  const Tensor& travels(const Tensor& tensor) {
    if (tensor.storage) tape_.tensors[tensor.storage->tensor()].travels = true;
    return tensor;
  }
  /// Keeps a tensor that would otherwise be made again.
  void keep(const Tensor& tensor) {
    if (!remakes_ || !tensor.storage) return;
    TapeTensor& own = tape_.tensors[tensor.storage->tensor()];
    own.remade = false;
    own.kept = true;
  }
  /// Keeps an input of a layer whose tensors are made again, unless it is made again, too.
  void keep_input(const Tensor& tensor) {
    if (!tensor.storage) return;
    TapeTensor& own = tape_.tensors[tensor.storage->tensor()];
    if (own.unit != unit_) own.remade = false;  // another unit has handed it on
    own.kept = own.kept || !own.remade;
  }
  bool keeps_exchanges() const { return keeps_exchanges_; }
  void keep_exchanges(bool keep) { keeps_exchanges_ = keep; }
  void begin_unit(std::uint32_t unit);
  /// The 16-bit copy of a parameter that autocast's cache holds until forward ends.
  Tensor& cached_copy(std::uint32_t unit, std::uint32_t parameter);
  /// Marks what the cache holds, where it has memory of its own, as one of autocast's copies.
  void mark_autocast_copy(const Tensor& tensor) {
    if (tensor.storage) tape_.tensors[tensor.storage->tensor()].role = TensorRole::autocast_copy;
  }
  /// The input of a frozen 4-bit product is an attribute of its node, and lives as long as that.
  void hold_input(const Tensor& tensor) {
    if (tensor.storage) held_inputs_.insert(tensor.storage->tensor());
  }
  /// Events of the unit that runs.
  std::size_t position() const { return events_->size(); }
  /// The last micro-batch has left as much as this one holds: its outputs until so many events of
  /// the last unit, and its held inputs until forward's end.
  void add_leftovers(const Tensors& outputs, std::size_t position);
  /// Forward is over: autocast forgets its copies.
  void end_forward();
  /// Function that torch.utils.checkpoint runs: forward saves the inputs alone, and backward runs
  /// it again before its own backward.
  using Function = std::function<Tensors(const Tensors&)>;
  Tensors checkpoint(const Tensors& inputs, const Function& function);
  /// Backward from a scalar.
  void backward(const Tensor& loss);
  /// A chunk's input, which another rank has computed; its output, which goes to another; and
  /// backward from the gradient that comes back. They end with the chunk's backward.
  Tensor receive(const Shape& shape, Type type);
  void send(const Tensor& output);
  void begin_chunk() { tape_.chunks.emplace_back(); }
  void end_chunk(std::size_t last_unit, const Tensor& output);

  MemoryTape take_tape() { return std::move(tape_); }
  void give_back(std::uint32_t tensor) { events_->push_back({tensor, false}); }

 private:
  friend class Engine;
  struct Copy {
    std::uint32_t unit, parameter;
    Tensor tensor;
  };
  void enter(std::uint32_t unit, bool backward);
  Gradients run_again(const Tensors& saved, const Function& function, const Tensor& gradient);

  struct Leaf {
    std::uint32_t unit, parameter;
    std::shared_ptr<Node> node;
  };

  TapeOptions options_;
  const Model& model_;
  MemoryTape tape_;
  std::vector<TapeEvent>* events_ = nullptr;
  std::vector<Kernel>* kernels_ = nullptr;  ///< null: nobody asks
  std::uint32_t unit_ = 0;
  bool in_backward_ = false, saves_ = true, remakes_ = false, keeps_exchanges_ = false;
  std::uint64_t nodes_ = 0;
  std::uint32_t node_ = 0;  ///< that runs in backward; of forward the next one
  Tensor received_;         ///< until the chunk's backward is over
  std::vector<Copy> copies_;
  std::vector<Leaf> leaves_;
  std::set<std::uint32_t> held_inputs_;
};

}  // namespace rehearse::tape
