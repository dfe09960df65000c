#include "cost/segments.hpp"

#include <algorithm>

#include "cost/roofline.hpp"

namespace rehearse::inline cost {
namespace {

/// Where a pass of a unit is cut, in its order.
std::vector<Cut> cuts_of(const Unit& unit, Direction pass) {
  std::vector<Cut> cuts;
  for (const Exchange& exchange : unit.exchanges) {
    if (exchange.pass != pass) continue;
    for (const Cut& cut : {exchange.issued, exchange.awaited}) cuts.push_back(cut);
  }
  std::ranges::sort(
      cuts, [pass](const Cut& left, const Cut& right) { return comes_before(left, right, pass); });
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  return cuts;
}

/// What a pass does between two of its cuts that follow each other as closely as cuts can.
struct Piece {
  Cut end;
  Seconds time;
};

std::vector<Piece> recorded_pieces(const Unit& unit, Direction pass, const Roofline& roofline,
                                   double batch) {
  std::vector<Piece> pieces;
  const std::size_t count = unit.recorded.size();
  for (std::size_t i = 0; i < count; ++i) {
    const bool forward = pass == Direction::forward;
    const std::size_t number = forward ? i : count - 1 - i;
    const recorded::Operator& one = unit.recorded[number];
    const double share = forward ? one.forward : one.backward;
    pieces.push_back({{forward ? number + 1 : number},
                      Seconds(share * share_factor(one, pass, roofline, batch))});
  }
  return pieces;
}

std::vector<Piece> pieces_of(const Unit& unit, Direction pass, const Roofline& roofline,
                             double batch) {
  if (!unit.recorded.empty()) return recorded_pieces(unit, pass, roofline, batch);
  std::vector<Piece> pieces;
  const std::size_t count = unit.operators.size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t number = pass == Direction::forward ? i : count - 1 - i;
    // Kernels of a captured backward stand in the order in which they run.
    const Operator& op = unit.operators[unit.operators[number].kernel ? i : number];
    if (pass == Direction::forward) {
      pieces.push_back({{number + 1}, roofline.time(op, batch, Direction::forward)});
      continue;
    }
    const Seconds time = roofline.time(op, batch, Direction::backward);
    const Seconds first = roofline.input_gradient_time(op, batch);
    pieces.push_back({{number, true}, first});
    pieces.push_back({{number}, time - first});
  }
  return pieces;
}

/// A recorded product of a whole weight, or of a rank's part.
Operator product_of(const recorded::Operator& one, double rows_part, double columns_part) {
  const double inner = one.inner / rows_part, columns = one.columns / columns_part;
  const double flops = 2 * one.rows * inner * columns, elements = one.rows * (inner + columns);
  return {.kind = OperatorKind::matmul,
          .forward_flops = flops,
          .backward_flops = 2 * flops,
          .forward_elements = elements,
          .backward_elements = 2 * elements,
          .parameter_elements = inner * columns,
          .product = {.rows = one.rows, .columns = columns, .inner = inner}};
}

}  // namespace

double share_factor(const recorded::Operator& one, Direction pass, const Roofline& roofline,
                    double batch) {
  const auto ranks = static_cast<double>(one.ranks);
  if (!one.is_product() || one.ranks == 1) return 1 / ranks;
  const bool rows = one.split == recorded::Split::rows;
  const Seconds whole = roofline.time(product_of(one, 1, 1), batch, pass);
  const Seconds part =
      roofline.time(product_of(one, rows ? ranks : 1, rows ? 1 : ranks), batch, pass);
  return whole > Seconds(0) ? part / whole : 1 / ranks;
}

PassSegments segments(const Unit& unit, Direction pass, const Roofline& roofline, double batch,
                      Seconds whole) {
  const std::vector<Cut> cuts = cuts_of(unit, pass);
  PassSegments result;
  result.durations.assign(cuts.size() + 1, Seconds(0));
  std::size_t segment = 0;
  Seconds sum{0};
  for (const Piece& piece : pieces_of(unit, pass, roofline, batch)) {
    // A piece lies behind every cut that comes before its end.
    while (segment < cuts.size() && comes_before(cuts[segment], piece.end, pass)) ++segment;
    result.durations[segment] += piece.time;
    sum += piece.time;
  }
  if (sum > Seconds(0)) {
    for (Seconds& duration : result.durations) duration = duration * (whole / sum);
  } else {
    result.durations.back() = whole;
  }
  const auto place = [&](const Cut& cut) {
    return static_cast<std::size_t>(std::ranges::find(cuts, cut) - cuts.begin()) + 1;
  };
  for (std::size_t i = 0; i < unit.exchanges.size(); ++i) {
    const Exchange& exchange = unit.exchanges[i];
    if (exchange.pass != pass) continue;
    result.exchanges.push_back({i, place(exchange.issued), place(exchange.awaited)});
  }
  return result;
}

}  // namespace rehearse::inline cost
