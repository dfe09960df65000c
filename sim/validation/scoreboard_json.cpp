#include "validation/scoreboard_json.hpp"

namespace rehearse::inline validation {
namespace {

using Ordered = nlohmann::ordered_json;

Ordered line_object(const ScoreLine& line) {
  return {{"gpu", line.of.gpu},
          {"framework", line.of.framework},
          {"strategy", line.of.work},
          {"cases", line.cases},
          {"mean", line.mean},
          {"median", line.median},
          {"p90", line.p90},
          {"most", line.most},
          {"bias", line.bias},
          {"coverage", {{"inside", line.coverage.inside}, {"intervals", line.coverage.intervals}}},
          {"half_width", line.half_width ? Ordered(*line.half_width) : Ordered()},
          {"interval_score", line.score ? Ordered(*line.score) : Ordered()}};
}

Ordered lines_of(const ScoreTable& table) {
  Ordered lines = Ordered::array();
  for (const ScoreLine& line : table.lines) lines.push_back(line_object(line));
  if (table.cpus) lines.push_back(line_object(*table.cpus));
  return lines;
}

}  // namespace

Ordered scoreboard_object(const Scoreboard& board) {
  Ordered relations = Ordered::array(), outliers = Ordered::array();
  for (const RelationLine& one : board.relations) {
    relations.push_back({{"relation", to_string(one.relation)},
                         {"sets", one.sets},
                         {"time", line_object(one.time)},
                         {"memory", line_object(one.memory)}});
  }
  for (const Outlier& one : board.outliers) {
    outliers.push_back({{"set", one.set},
                        {"case", one.name},
                        {"metric", one.metric},
                        {"error", one.error},
                        {"cause", one.cause}});
  }
  return {{"time", lines_of(board.time)},
          {"memory", lines_of(board.memory)},
          {"relations", relations},
          {"layouts",
           {{"choices", board.layouts},
            {"kendall_tau_b", board.tau},
            {"regret", board.regret},
            {"pairs", board.pairs},
            {"pairs_in_order", board.right_pairs}}},
          {"outliers", outliers}};
}

}  // namespace rehearse::inline validation
