#include "model/recorded/recorded.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

namespace rehearse::recorded {
namespace {

/// Operators that send tokens to experts: how many each gets is in no shape of theirs.
constexpr std::array<const char*, 3> kRouters{"topk", "_grouped_mm", "grouped_mm"};

/// The share of one unit.
class Share {
 public:
  Share(const Unit& whole, int ranks) : unit_(whole), ranks_(ranks) {
    unit_.shares.assign(unit_.tensors.size(), ParameterShare::replicated);
  }

  Unit make() {
    std::vector<std::size_t> products;
    for (std::size_t i = 0; i < all().size(); ++i) {
      const Operator& one = all()[i];
      if (std::ranges::find(kRouters, one.name) != kRouters.end())
        throw std::invalid_argument(
            fmt::format("{} routes tokens to experts, of which a record has no shares; rehearse "
                        "import config reads the layout of a framework's own files",
                        unit_.name));
      if (one.is_product()) products.push_back(i);
      if (!one.sum) continue;
      if (products.size() > 1) share_group(products);
      products.clear();
    }
    if (products.size() > 1) share_group(products);
    if (products.size() == 1) gather(products.front());
    order_exchanges(unit_.exchanges);
    return std::move(unit_);
  }

 private:
  std::vector<Operator>& all() { return unit_.recorded; }

  void require(bool divides, const std::string& what, double count) const {
    if (divides) return;
    throw std::invalid_argument(
        fmt::format("{}'s {:.0f} {} do not divide over {} ranks", unit_.name, count, what, ranks_));
  }
  bool divides(double count) const { return std::fmod(count, ranks_) == 0; }

  void split(Operator& one, Split how) const {
    one.split = how;
    one.ranks = ranks_;
  }

  void exchange(ExchangeKind kind, double elements, Direction pass, std::size_t before) {
    unit_.exchanges.push_back({.kind = kind,
                               .elements = elements,
                               .pass = pass,
                               .issued = {before},
                               .awaited = {before}});
  }

  /// Products that leave as many features as they read; others run whole.
  void share_group(const std::vector<std::size_t>& products) {
    const std::size_t first = products.front(), last = products.back();
    if (all()[last].columns != all()[first].inner) return;
    for (std::size_t i = first; i <= last; ++i) {
      Operator& one = all()[i];
      require(divides(static_cast<double>(one.heads)), "heads", static_cast<double>(one.heads));
      require(divides(static_cast<double>(one.kv_heads)), "heads of keys and values",
              static_cast<double>(one.kv_heads));
      if (!one.is_product()) {
        split(one, Split::between);
        continue;
      }
      const bool rows = i == last;
      require(divides(rows ? one.inner : one.columns), rows ? "rows" : "columns",
              rows ? one.inner : one.columns);
      split(one, rows ? Split::rows : Split::columns);
      share_weight(one);
    }
    exchange(ExchangeKind::all_reduce, all()[last].rows * all()[last].columns, Direction::forward,
             last + 1);
    exchange(ExchangeKind::all_reduce, all()[first].rows * all()[first].inner, Direction::backward,
             first);
  }

  /// PyTorch's ColwiseParallel with output_layouts=Replicate(), as transformers'
  /// colwise_gather_output.
  void gather(std::size_t product) {
    Operator& one = all()[product];
    split(one, Split::columns);
    share_weight(one);
    exchange(ExchangeKind::all_gather, one.rows * one.columns, Direction::forward, product + 1);
    exchange(ExchangeKind::all_reduce, one.rows * one.inner, Direction::backward, product);
  }

  /// Of tensors that are no part yet: the weight, where its bias comes behind it before others of
  /// its size. A weight that is another unit's stays there.
  void share_weight(const Operator& one) {
    const auto size = static_cast<std::int64_t>(one.inner * one.columns);
    const auto columns = static_cast<std::int64_t>(one.columns);
    const auto is_whole = [&](std::size_t tensor, std::int64_t elements) {
      return tensor < unit_.tensors.size() && unit_.tensors[tensor] == elements &&
             unit_.shares[tensor] == ParameterShare::replicated;
    };
    std::size_t weight = unit_.tensors.size();
    for (std::size_t i = unit_.tensors.size(); i-- > 0;) {
      if (!is_whole(i, size)) continue;
      const bool has_bias = one.bias && is_whole(i + 1, columns);
      if (weight == unit_.tensors.size() || has_bias || !one.bias) weight = i;
    }
    if (weight == unit_.tensors.size()) return;
    part(weight);
    if (one.bias && one.split == Split::columns && is_whole(weight + 1, columns)) part(weight + 1);
  }

  /// Where ranks do not divide it, that of the first.
  void part(std::size_t tensor) {
    unit_.tensors[tensor] = (unit_.tensors[tensor] + ranks_ - 1) / ranks_;
    unit_.shares[tensor] = ParameterShare::sharded;
  }

  Unit unit_;
  int ranks_;
};

bool is_split(const Unit& unit) {
  return std::ranges::any_of(unit.recorded,
                             [](const Operator& one) { return one.split != Split::whole; });
}

}  // namespace

bool is_profiled(const Model& model) {
  const auto is_plain = [](const Unit& unit) {
    return unit.layers.empty() && unit.operators.empty() && !unit.forward && !unit.activation;
  };
  return !model.captured && model.parameters() > 0 && std::ranges::all_of(model.units, is_plain);
}

bool tells_cuts(const Model& model) {
  return is_profiled(model) &&
         std::ranges::any_of(model.units, [](const Unit& unit) { return unit.handed > Bytes(0); });
}

Model rank_of(const Model& whole, int ranks) {
  if (std::ranges::all_of(whole.units, [](const Unit& unit) { return unit.recorded.empty(); }))
    throw std::invalid_argument(
        "its profile has no operators, so that their shares are not known; `rehearse record` "
        "writes them of a network that torch.compile does not hold");
  Model share = whole;
  for (std::size_t i = 0; i < whole.units.size(); ++i)
    share.units[i] = Share(whole.units[i], ranks).make();
  if (std::ranges::none_of(share.units, is_split))
    throw std::invalid_argument(
        "no two products were recorded between which ranks could split its layers; "
        "fsdp2, pipeline_parallel, or data parallelism alone");
  return share;
}

}  // namespace rehearse::recorded
