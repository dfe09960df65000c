#include "model/model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace rehearse {

const std::vector<std::string>& precision_names() {
  static const std::vector<std::string> kNames = {"fp32", "tf32", "bf16", "fp16", "bf16_pure"};
  return kNames;
}

std::string to_string(Precision precision) {
  return precision_names().at(static_cast<std::size_t>(precision));
}

Precision parse_precision(const std::string& name) {
  for (const Precision precision :
       {Precision::fp32, Precision::tf32, Precision::bf16, Precision::fp16, Precision::bf16_pure}) {
    if (to_string(precision) == name) return precision;
  }
  throw std::invalid_argument(fmt::format("expected a precision, one of {}; got \"{}\"",
                                          fmt::join(precision_names(), ", "), name));
}

bool is_autocast(Precision precision) {
  return precision == Precision::bf16 || precision == Precision::fp16;
}

Bytes parameter_element(Precision precision) {
  return Bytes(precision == Precision::bf16_pure ? 2 : 4);
}

Bytes activation_element(Precision precision) {
  return Bytes(precision == Precision::fp32 || precision == Precision::tf32 ? 4 : 2);
}

std::int64_t Unit::parameters() const {
  return std::accumulate(tensors.begin(), tensors.end(), std::int64_t{0});
}

std::int64_t Model::parameters() const {
  std::int64_t sum = 0;
  for (const Unit& unit : units) sum += unit.parameters();
  return sum;
}

bool Model::has_operator(OperatorKind kind) const {
  return std::any_of(units.begin(), units.end(), [kind](const Unit& unit) {
    return std::any_of(unit.operators.begin(), unit.operators.end(),
                       [kind](const Operator& op) { return op.kind == kind; });
  });
}

double Model::flops_per_sample() const {
  double sum = 0;
  for (const Unit& unit : units) {
    for (const Operator& op : unit.operators) sum += op.forward_flops + op.backward_flops;
  }
  return sum;
}

}  // namespace rehearse
