#include "models/script_model.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/python/update_graph_executor_opt.h>
#include <torch/script.h>

#include <unordered_map>
#include <utility>

#include "base/error.hpp"

namespace rehearse::inline calibrate {
namespace {

namespace jit = torch::jit;

/// Samples of the batch that a module is tried with: batch norms need more than one.
constexpr std::int64_t kTried = 2;
constexpr double kTolerance = 1e-5;

/// LibTorch's messages go on with a trace.
std::string first_line(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

/// The last line that says something: the interpreter's messages begin with the module's source.
std::string last_line(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  std::string text = torch_error != nullptr ? torch_error->what_without_backtrace() : error.what();
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const std::size_t end = text.rfind('\n');
  return end == std::string::npos ? text : text.substr(end + 1);
}

/// Modules that run one after another, as a unit. Parameters are the modules' own tensors, each in
/// the first unit that has it.
class ScriptUnit : public UnitModule {
 public:
  explicit ScriptUnit(std::vector<jit::Module> modules) : modules_(std::move(modules)) {}

  /// `owner`: the units of the tensors that are registered already. Gives the unit of the first
  /// that is another's, or nothing.
  std::string take_tensors(const std::string& unit,
                           std::unordered_map<c10::TensorImpl*, std::string>& owner) {
    std::string shares_with;
    for (const jit::Module& module : modules_) {
      for (const torch::Tensor& tensor : module.parameters()) {
        const auto [known, is_new] = owner.emplace(tensor.unsafeGetTensorImpl(), unit);
        if (!is_new && known->second != unit && shares_with.empty()) shares_with = known->second;
        if (is_new) take(tensor, tensor.requires_grad());
      }
      for (const torch::Tensor& tensor : module.buffers()) {
        if (owner.emplace(tensor.unsafeGetTensorImpl(), unit).second) take(tensor, false);
      }
    }
    return shares_with;
  }

  torch::Tensor forward(const torch::Tensor& input) override {
    torch::Tensor value = input;
    for (jit::Module& module : modules_) value = module.forward({value}).toTensor();
    return value;
  }

 private:
  /// Names may not hold the dots of paths, and paths would not be unique.
  void take(const torch::Tensor& tensor, bool trained) {
    const std::string name = fmt::format("tensor{}", taken_++);
    if (trained) {
      register_parameter(name, tensor);
    } else {
      register_buffer(name, tensor);
    }
  }

  std::vector<jit::Module> modules_;
  int taken_ = 0;
};

bool has_trained_parameters(const jit::Module& module) {
  for (const torch::Tensor& tensor : module.parameters()) {
    if (tensor.requires_grad()) return true;
  }
  return false;
}

jit::Module load(const ScriptSource& source) {
  const std::string file = source.file.string();
  if (!std::filesystem::is_regular_file(source.file)) {
    throw MissingError(fmt::format(
        "{}: error: no such file\nremedy: give the path of a TorchScript module, or one of `list "
        "models`",
        file));
  }
  try {
    jit::Module module = jit::load(file, torch::kCPU);
    module.train();
    return module;
  } catch (const c10::Error& error) {
    throw InputError(
        fmt::format("{}: error: not a TorchScript module: {}\nremedy: save it with "
                    "torch.jit.script(module).save(file), or torch.jit.trace(...).save(file)",
                    file, first_line(error)));
  }
}

torch::Tensor run(jit::Module module, const torch::Tensor& input) {
  return module.forward({input}).toTensor();
}

/// Whether the module's output is that of its children, one after another. In evaluation, as
/// dropout is random.
bool is_chain(jit::Module module, const torch::Tensor& input) {
  const torch::NoGradGuard no_grad;
  module.eval();
  bool same = false;
  try {
    const torch::Tensor whole = run(module, input.clone());
    torch::Tensor value = input.clone();
    for (const jit::NameModule& child : module.named_children()) value = run(child.value, value);
    same = whole.sizes() == value.sizes() && torch::allclose(whole, value, kTolerance, kTolerance);
  } catch (const std::exception&) {
    same = false;  // some child takes or gives something else
  }
  module.train();
  return same;
}

struct Part {
  std::string name;
  std::vector<jit::Module> modules;
};

/// The children with parameters, each with those without that follow it.
std::vector<Part> parts_of(const jit::Module& module) {
  std::vector<Part> parts;
  std::vector<jit::Module> before;
  for (const jit::NameModule& child : module.named_children()) {
    if (has_trained_parameters(child.value)) {
      parts.push_back({child.name, std::exchange(before, {})});
      parts.back().modules.push_back(child.value);
    } else {
      (parts.empty() ? before : parts.back().modules).push_back(child.value);
    }
  }
  return parts;
}

std::vector<ChainUnit> units_of(const ScriptSource& source, const jit::Module& module,
                                const torch::Tensor& input) {
  std::vector<Part> parts = {{source.file.stem().string(), {module}}};
  if (module.named_children().size() > 1 && is_chain(module, input)) parts = parts_of(module);
  std::vector<ChainUnit> units;
  std::unordered_map<c10::TensorImpl*, std::string> owner;
  for (const Part& part : parts) {
    const auto unit = std::make_shared<ScriptUnit>(part.modules);
    const std::string shares_with = unit->take_tensors(part.name, owner);
    units.push_back({part.name, unit, shares_with});
  }
  return units;
}

std::string described(const ScriptInput& input) {
  return fmt::format("{} ({})", fmt::join(input.sizes, "x"), input.tokens ? "long" : "float");
}

/// The module's output for a small batch, in training; what the user is told where there is none.
torch::Tensor tried(const ScriptSource& source, const jit::Module& module,
                    const torch::Tensor& input) {
  const std::string file = source.file.string();
  torch::Tensor output;
  try {
    output = run(module, input.clone());
  } catch (const std::exception& error) {
    throw InputError(fmt::format(
        "{}: error: the module does not turn a batch of {} into one tensor: {}\nremedy: give one "
        "sample's shape and type by --input, such as 3x224x224 or 128:long:30522",
        file, described(source.input), last_line(error)));
  }
  if (!output.requires_grad()) {
    throw InputError(fmt::format(
        "{}: error: the output does not depend on a parameter that is trained\nremedy: save the "
        "module in training mode, with requires_grad set",
        file));
  }
  return output;
}

/// Targets for each sample: one class for each position of the output's last dimension.
void set_classes(const ScriptSource& source, const torch::Tensor& output, InputShape& shape) {
  if (output.dim() < 2 || output.size(0) != kTried || output.numel() == 0) {
    throw InputError(fmt::format(
        "{}: error: cross_entropy needs an output of samples x classes or samples x tokens x "
        "classes; a batch of {} gave {}\nremedy: --loss sum_of_squares takes any output",
        source.file.string(), kTried, fmt::join(output.sizes(), "x")));
  }
  shape.classes = output.size(-1);
  shape.targets_per_sample = output.numel() / output.size(-1) / kTried;
}

torch::Tensor sum_of_squares(const torch::Tensor& output, const torch::Tensor&) {
  return output.to(torch::kFloat32).square().sum();
}

torch::Tensor class_loss(const torch::Tensor& output, const torch::Tensor& target) {
  return torch::nn::functional::cross_entropy(output.flatten(0, -2), target.flatten());
}

}  // namespace

const std::vector<std::string>& script_losses() {
  static const std::vector<std::string> kAll = {"sum_of_squares", "cross_entropy"};
  return kAll;
}

Chain script_chain(const ScriptSource& source) {
  jit::setGraphExecutorOptimize(false);
  const jit::Module module = load(source);
  if (!has_trained_parameters(module)) {
    throw InputError(fmt::format(
        "{}: error: the module has no parameters that are trained\nremedy: save it unfrozen, with "
        "requires_grad set",
        source.file.string()));
  }
  Chain chain{.name = source.file.stem().string(),
              .input = {.sizes = source.input.sizes,
                        .vocabulary = source.input.tokens ? source.input.vocabulary : 0},
              .units = {},
              .loss = sum_of_squares};
  const torch::Tensor input = random_batch(chain.input, kTried, torch::kCPU).input;
  const torch::Tensor output = tried(source, module, input);
  if (source.loss == "cross_entropy") {
    set_classes(source, output, chain.input);
    chain.loss = class_loss;
  }
  chain.units = units_of(source, module, input);
  return chain;
}

void check_script_batch(const Chain& chain, std::int64_t batch) {
  torch::Tensor value = random_batch(chain.input, batch, torch::kCPU).input;
  try {
    for (const ChainUnit& unit : chain.units) value = unit.module->forward(value);
  } catch (const std::exception& error) {
    throw InputError(fmt::format(
        "error: --batches: {} does not train with {} {} at a time: {}\nremedy: --batches "
        "{} or more, or a larger --input",
        chain.name, batch, batch == 1 ? "sample" : "samples", last_line(error), kTried));
  }
}

}  // namespace rehearse::inline calibrate
