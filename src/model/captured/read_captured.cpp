#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <system_error>

#include "base/error.hpp"
#include "config/json/json_place.hpp"
#include "config/record_set.hpp"
#include "config/whole_file.hpp"
#include "model/captured/captured.hpp"
#include "model/captured/work.hpp"

namespace rehearse::captured {
namespace {

constexpr const char* kSchema = "rehearse.captured/1";
constexpr double kMostElements = 1e15;

/// Reads a captured model; `length` is that of a sample, in tokens.
class Reader {
 public:
  Reader(const JsonPlace& root, std::string file, std::int64_t length)
      : root_(root), length_(static_cast<double>(length)), step_(std::make_shared<Step>()) {
    step_->file = std::move(file);
    step_->length = length;
  }

  Model read() {
    if (root_.at("schema").text() != kSchema)
      root_.at("schema").fail(fmt::format("\"{}\"", kSchema));
    const std::string precision = root_.at("precision").text();
    if (std::ranges::find(precision_names(), precision) == precision_names().end())
      root_.at("precision").fail("a precision");
    step_->precision = parse_precision(precision);
    Model made;
    read_step();
    made.name = made.family = root_.at("name").text();
    made.sample = sample();
    made.source =
        fmt::format("captured from PyTorch {} ({})", root_.at("torch").text(), step_->file);
    fill_inputs(made);
    const auto units = root_.at("units").list();
    if (units.empty()) root_.at("units").fail("units");
    for (std::size_t i = 0; i < units.size(); ++i)
      made.units.push_back(unit(units[i], static_cast<std::uint32_t>(i), step_->precision));
    read_roles(made);
    check_tape();
    if (made.parameters() == 0) root_.at("units").fail("a parameter to train");
    made.captured = step_;
    return made;
  }

 private:
  /// A whole number, or parts: a constant, the batch's, and the length's and both together.
  Size size(const JsonPlace& place) const {
    if (!place.is_list()) return {static_cast<double>(place.whole<std::int64_t>())};
    const auto parts = place.list([](const JsonPlace& one) { return one.number(); });
    if (parts.size() == 2) return {parts[0], parts[1]};
    if (parts.size() != 4) place.fail("two or four numbers");
    return {parts[0] + parts[2] * length_, parts[1] + parts[3] * length_};
  }

  Tensor tensor(const JsonPlace& place) const {
    const auto parts = place.list();
    if (parts.size() < 2) place.fail("a type and a shape");
    Tensor made{.format = parts[0].text()};
    for (const JsonPlace& side : parts[1].list()) {
      made.shape.push_back(size(side));
      if (std::abs(made.shape.back().at(1)) > kMostElements) side.fail("a smaller size");
    }
    const std::string layout = parts.size() > 2 ? parts[2].text() : "";
    made.strided = layout == "strided";
    made.channels_last = layout == "last";
    return made;
  }

  std::vector<Tensor> tensors(const JsonPlace& place) const {
    return place.list([&](const JsonPlace& one) { return tensor(one); });
  }

  void read_step() {
    step_->inputs = tensors(root_.at("inputs"));
    step_->kinds = tensors(root_.at("kinds"));
    step_->batch = root_.at("batch")
                       .or_null([](const JsonPlace& one) { return one.whole<std::int64_t>(); })
                       .value_or(0);
    if (const auto ranks = root_.find("tensor_parallel"))
      step_->tensor_parallel = ranks->whole<std::int32_t>();
    if (const auto ranks = root_.find("embedding_parallel"))
      step_->embedding_parallel = ranks->whole<std::int32_t>();
    for (const JsonPlace& one : root_.at("tensors").list()) {
      const auto kind = one.whole<std::uint32_t>();
      if (kind >= step_->kinds.size()) one.fail("one of `kinds`");
      step_->tensors.push_back({.kind = kind});
    }
    for (const JsonPlace& one : root_.at("kernels").list()) kernels_.push_back(kernel(one));
  }

  Kernel kernel(const JsonPlace& place) const {
    Kernel made{.name = place.at("op").text(),
                .reads = tensors(place.at("reads")),
                .writes = tensors(place.at("writes"))};
    made.first_of_node = !place.find("same_node");
    if (const auto options = place.find("with"))
      for (const auto& [key, value] : options->entries())
        made.options[key] = value.list([](const JsonPlace& one) { return one.number(); });
    return made;
  }

  /// Each sample adds so much; a capture at one batch tells only a sample's share.
  double of_a_sample(const std::function<double(double)>& whole) const {
    if (step_->batch > 0) return whole(1) / static_cast<double>(step_->batch);
    return whole(2) - whole(1);
  }

  /// Of the first input: an image, tokens, or numbers.
  std::string sample() const {
    if (step_->inputs.empty()) return "sample";
    std::vector<std::string> sides;
    const Tensor& first = step_->inputs[0];
    for (std::size_t i = 0; i < first.shape.size(); ++i) {
      const bool batch = first.shape[i].each != 0 || (i == 0 && step_->batch > 0);
      if (!batch) sides.push_back(fmt::format("{:.0f}", first.shape[i].constant));
    }
    if (first.format == "int64" && sides.size() == 1)
      return fmt::format("sequence of {} tokens", sides[0]);
    return fmt::format("{} sample", fmt::join(sides, "x"));
  }

  void fill_inputs(Model& model) const {
    if (step_->inputs.empty()) return;
    const Tensor& first = step_->inputs[0];
    model.input_elements = of_a_sample([&](double batch) { return first.elements(batch); });
    if (first.format == "int64" && first.shape.size() == 2)
      model.tokens_per_sample = static_cast<std::int64_t>(model.input_elements);
  }

  Unit unit(const JsonPlace& place, std::uint32_t number, Precision precision) {
    Unit made;
    made.name = place.at("name").text();
    made.captured_unit = number;
    std::vector<std::int64_t> rows;
    for (const JsonPlace& one : place.at("parameters").list())
      rows.push_back(add_parameter(one, precision, made));
    made.buffer_elements = place.at("buffers").whole<std::int64_t>();
    add_kernels(place.at("forward"), false, made);
    add_kernels(place.at("backward"), true, made);
    if (const auto exchanges = place.find("exchanges"))
      for (const JsonPlace& one : exchanges->list()) made.exchanges.push_back(exchange(one, place));
    order_exchanges(made.exchanges);
    const auto tape = place.at("tape").list();
    if (tape.size() != 2) place.at("tape").fail("a list of two");
    const auto block = place.find("block");
    step_->units.push_back({.block = block ? block->text() : "",
                            .forward = events(tape[0], number),
                            .backward = events(tape[1], number),
                            .rows = std::move(rows)});
    for (const JsonPlace& one : place.at("enters").list()) {
      const auto tensor = one.whole<std::uint32_t>();
      if (tensor >= step_->tensors.size()) one.fail("one of `tensors`");
      step_->units.back().enters.push_back(tensor);
    }
    return made;
  }

  /// Gives the size of its dimension 0; of a number 1.
  std::int64_t add_parameter(const JsonPlace& place, Precision precision, Unit& unit) const {
    const auto parts = place.list();
    const bool summed = parts.size() == 5 && parts[4].text() == "summed";
    if (parts.size() != 4 && !summed)
      place.fail("a name, a shape, a type, and whether it is trained");
    std::int64_t elements = 1;
    std::optional<std::int64_t> rows;
    for (const JsonPlace& side : parts[1].list()) {
      const auto size = side.whole<std::int32_t>();
      if (size < 0 || static_cast<double>(elements) * size > kMostElements)
        side.fail("a size of at least 0, and a smaller tensor");
      if (!rows) rows = size;
      elements *= size;
    }
    unit.tensors.push_back(elements);
    ParameterTrait trait{.trained = parts[3].flag()};
    const bool wide = parts[2].text() == "fp32";
    if (wide != (parameter_element(computed_in(precision)) == Bytes(4)))
      trait.storage = wide ? StoredAs::fp32 : StoredAs::bf16;
    unit.traits.push_back(trait);
    if (step_->tensor_parallel > 1 || step_->embedding_parallel > 1)
      unit.shares.push_back(summed ? ParameterShare::summed : ParameterShare::replicated);
    return rows.value_or(1);
  }

  void add_kernels(const JsonPlace& place, bool backward, Unit& unit) const {
    for (const JsonPlace& one : place.list()) {
      const auto pair = one.list();
      if (pair.size() != 2) one.fail("a kernel and its calls");
      const auto which = pair[0].whole<std::uint32_t>();
      if (which >= kernels_.size()) pair[0].fail("one of `kernels`");
      auto made = std::make_shared<Kernel>(kernels_[which]);
      made->backward = backward;
      made->calls = static_cast<double>(pair[1].whole<std::uint32_t>());
      const Work one_sample = work_of(*made, 1);
      Operator op{.kind = one_sample.kind};
      const double flops = of_a_sample([&](double batch) { return work_of(*made, batch).flops; });
      (backward ? op.backward_flops : op.forward_flops) = made->calls * flops;
      if (one_sample.plain) op.heads = one_sample.plain->heads;
      op.kernel = std::move(made);
      unit.operators.push_back(std::move(op));
    }
  }

  /// A collective of tensor ranks: in backward, which, of what, and kernels of its pass before its
  /// issue and before the wait for it. Cuts of a backward count from its end (cost/segments.cpp).
  Exchange exchange(const JsonPlace& place, const JsonPlace& unit) const {
    static const std::map<std::string, ExchangeKind> kKinds = {
        {"all_reduce", ExchangeKind::all_reduce},
        {"all_gather", ExchangeKind::all_gather},
        {"reduce_scatter", ExchangeKind::reduce_scatter},
        {"all_to_all", ExchangeKind::all_to_all}};
    const auto parts = place.list();
    if (parts.size() != 5) place.fail("a pass, a collective, a tensor, and two places");
    const auto kind = kKinds.find(parts[1].text());
    if (kind == kKinds.end()) parts[1].fail("a collective");
    const bool backward = parts[0].flag();
    const Tensor sized = tensor(parts[2]);
    const std::size_t all = unit.at(backward ? "backward" : "forward").list().size();
    const auto cut = [&](const JsonPlace& at) {
      const auto before = at.whole<std::size_t>();
      if (before > all) at.fail("a place among its kernels");
      return Cut{.before_operator = backward ? all - before : before};
    };
    Exchange made{
        .axis = step_->embedding_parallel > 1 ? ExchangeAxis::embedding : ExchangeAxis::tensor,
        .kind = kind->second,
        .wide = sized.element() > Bytes(2),
        .pass = backward ? Direction::backward : Direction::forward,
        .issued = cut(parts[3]),
        .awaited = cut(parts[4])};
    const Bytes element(made.wide ? 4 : 2);
    made.elements = of_a_sample([&](double batch) { return sized.bytes(batch) / element; });
    if (made.elements <= 0) parts[2].fail("a tensor that grows with the batch");
    return made;
  }

  std::vector<std::int64_t> events(const JsonPlace& place, std::uint32_t unit) {
    std::vector<std::int64_t> all;
    for (const JsonPlace& one : place.list()) {
      const auto event = one.whole<std::int64_t>();
      const auto number = static_cast<std::size_t>(event >= 0 ? event : -1 - event);
      if (number >= step_->tensors.size()) one.fail("one of `tensors`");
      if (event >= 0) step_->tensors[number].unit = unit;
      all.push_back(event);
    }
    return all;
  }

  /// Every piece is taken once, and given back after it or a gradient.
  void check_tape() const {
    std::vector<bool> taken(step_->tensors.size()), over(step_->tensors.size());
    const auto units = root_.at("units").list();
    const auto play = [&](const JsonPlace& unit, std::size_t pass) {
      for (const JsonPlace& one : unit.at("tape").list()[pass].list()) {
        const auto event = one.whole<std::int64_t>();
        const auto number = static_cast<std::size_t>(event >= 0 ? event : -1 - event);
        std::vector<bool>& now = event >= 0 ? taken : over;
        if (now[number] || (event < 0 && !taken[number]))
          one.fail(event >= 0 ? "a tensor that was not taken before" : "a tensor that is there");
        now[number] = true;
      }
    };
    for (const JsonPlace& unit : units) play(unit, 0);
    for (std::size_t i = units.size(); i-- > 0;) play(units[i], 1);
    for (const JsonPlace& one : root_.at("gradients").list())
      over[one.list()[0].whole<std::uint32_t>()] = true;
    const std::size_t written = root_.at("tensors").list().size();
    for (std::size_t i = 0; i < written; ++i)
      if (taken[i] && !over[i]) root_.at("units").fail(fmt::format("tensor {} given back", i));
  }

  /// Known once the passes are: what is taken in backward is a gradient.
  void read_roles(const Model& model) {
    for (const UnitStep& unit : step_->units)
      for (const std::int64_t event : unit.backward)
        if (event >= 0)
          step_->tensors[static_cast<std::size_t>(event)].role = TensorRole::activation_gradient;
    for (const auto& [key, role] : {std::pair("copies", TensorRole::autocast_copy),
                                    std::pair("gradients", TensorRole::parameter_gradient)})
      for (const JsonPlace& one : root_.at(key).list()) {
        const auto parts = one.list([](const JsonPlace& p) { return p.whole<std::uint32_t>(); });
        const bool known = parts.size() == 3 && parts[0] < step_->tensors.size() &&
                           parts[1] < model.units.size() &&
                           parts[2] < model.units[parts[1]].tensors.size();
        if (!known) one.fail("a tensor, a unit, and one of its parameters");
        std::uint32_t number = parts[0];
        if (role == TensorRole::parameter_gradient && step_->tensors[number].unit != parts[1])
          number = own_gradient(number, parts[1]);
        StepTensor& tensor = step_->tensors[number];
        tensor.role = role;
        tensor.unit = parts[1];
        tensor.parameter = parts[2];
      }
  }

  /// A gradient that began in a later unit, which uses the parameter, too (tied embeddings): it is
  /// whole, and the strategy's, where the parameter's own unit ends.
  std::uint32_t own_gradient(std::uint32_t begun, std::uint32_t unit) {
    step_->tensors.push_back({.kind = step_->tensors[begun].kind});
    const auto made = static_cast<std::uint32_t>(step_->tensors.size() - 1);
    std::vector<std::int64_t>& events = step_->units[unit].backward;
    events.push_back(made);
    events.push_back(-1 - static_cast<std::int64_t>(begun));
    return made;
  }

  JsonPlace root_;
  double length_;
  std::shared_ptr<Step> step_;
  std::vector<Kernel> kernels_;
};

}  // namespace

Model read_captured(const std::filesystem::path& file, std::int64_t length) {
  const std::string name = file.string();
  const auto document = parse_json(read_whole_file(file), name);
  const JsonPlace root(document, name);
  const std::int64_t captured =
      root.at("length")
          .or_null([](const JsonPlace& one) { return one.whole<std::int64_t>(); })
          .value_or(0);
  if (length > 0 && length != captured && !root.at("lengths").flag())
    throw InputError(
        fmt::format("{}: error: captured at a length of {}, not {}\nremedy: capture it with "
                    "lengths=(512, 1024, "
                    "768), which holds at any",
                    name, captured, length));
  return Reader(root, name, length > 0 ? length : captured).read();
}

}  // namespace rehearse::captured
