#include "strategy/side_by_side.hpp"

#include <algorithm>
#include <utility>

namespace rehearse::inline strategy {
namespace {

using Piece = std::pair<std::size_t, std::size_t>;

/// Finds the exchange of an operation on one of the lanes; null: it has none.
const Collective* exchanged(const Op& op, const std::vector<LaneId>& lanes) {
  const bool here = op.lane && std::ranges::find(lanes, *op.lane) != lanes.end();
  return here ? std::get_if<Collective>(&op.work) : nullptr;
}

/// An exchange of less than this part of the largest carries counts, and no tokens. Where tokens
/// are routed, what is gathered carries none, either (HybridEP's map).
constexpr double kCounts = 0.01;

/// Of operations [first, end): each but the last ends with exchanges of tokens, behind which others
/// follow.
std::vector<Piece> pieces_of(const Program& program, std::size_t first, std::size_t end,
                             const std::vector<LaneId>& lanes) {
  double largest = 0;
  bool routed = false;
  for (std::size_t op = first; op < end; ++op) {
    const Collective* sent = exchanged(program.ops[op], lanes);
    if (sent == nullptr) continue;
    largest = std::max(largest, sent->size.value());
    routed |= sent->kind == CollectiveKind::all_to_all;
  }
  const auto exchanges = [&](std::size_t op) {
    const Collective* sent = exchanged(program.ops[op], lanes);
    return sent != nullptr && sent->size.value() >= kCounts * largest &&
           (!routed || sent->kind == CollectiveKind::all_to_all);
  };
  std::vector<Piece> pieces;
  std::size_t begin = first;
  for (std::size_t op = first + 1; op < end; ++op)
    if (exchanges(op - 1) && !exchanges(op)) pieces.emplace_back(std::exchange(begin, op), op);
  pieces.emplace_back(begin, end);
  return pieces;
}

void append(std::vector<std::size_t>& order, const Piece& piece) {
  for (std::size_t op = piece.first; op < piece.second; ++op) order.push_back(op);
}

/// Piece i of m stands at (i + 1) / m of the way; of two at one place the first pair's comes first.
void take_turns(std::vector<std::size_t>& order, const std::vector<Piece>& first,
                const std::vector<Piece>& second) {
  std::size_t a = 0, b = 0;
  while (a < first.size() || b < second.size()) {
    const bool is_first = b == second.size() ||
                          (a < first.size() && (a + 1) * second.size() <= (b + 1) * first.size());
    append(order, is_first ? first[a++] : second[b++]);
  }
}

void reorder(Program& program, const std::vector<std::size_t>& order) {
  std::vector<OpId> now(order.size());
  std::vector<Op> ops;
  ops.reserve(order.size());
  for (const std::size_t op : order) {
    now[op] = OpId(ops.size());
    ops.push_back(std::move(program.ops[op]));
  }
  for (Op& op : ops)
    for (After& after : op.after) after.op = now[after.op.index()];
  program.ops = std::move(ops);
}

}  // namespace

std::vector<bool> side_by_side(const std::vector<PipelineAction>& order, bool forward_first) {
  const auto what = [&](bool first) {
    return first == forward_first ? PipelineAction::forward : PipelineAction::backward;
  };
  std::vector<bool> beside(order.size());
  for (std::size_t i = 0; i + 1 < order.size(); ++i) {
    const PipelineAction &one = order[i], &next = order[i + 1];
    if (one.what != what(true) || next.what != what(false)) continue;
    if (one.chunk == next.chunk && one.micro == next.micro) continue;
    beside[i++] = true;
  }
  return beside;
}

void interleave(Program& program, const std::vector<SideBySide>& pairs,
                const std::vector<LaneId>& lanes) {
  if (pairs.empty()) return;
  std::vector<std::size_t> order;
  for (const auto& [first, second, end] : pairs) {
    append(order, {order.size(), first});
    take_turns(order, pieces_of(program, first, second, lanes),
               pieces_of(program, second, end, lanes));
  }
  append(order, {order.size(), program.ops.size()});
  reorder(program, order);
}

}  // namespace rehearse::inline strategy
