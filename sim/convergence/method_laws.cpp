#include "convergence/method_laws.hpp"

#include <string>
#include <utility>
#include <vector>

#include "base/data_folder.hpp"
#include "config/document.hpp"

namespace rehearse::inline convergence {
namespace {

using Members = std::vector<std::pair<std::string, double*>>;

void read_members(Map map, const Members& members) {
  for (const auto& [key, member] : members) *member = map.require(key).as_number();
}

Estimate<double> estimate_at(Map& map, const std::string& key) {
  const std::vector<Value> numbers = map.require(key).as_list();
  return {numbers.at(0).as_number(), numbers.at(1).as_number(), numbers.at(2).as_number()};
}

MethodLaws read_laws() {
  const auto document = Document::load(platforms_path("convergence/methods.yaml"));
  Map root = document->root().as_map();
  const auto section = [&](const std::string& name) { return root.require(name).as_map(); };
  MethodLaws laws;
  Map tokens = section("tokens");
  read_members(tokens.require("loss").as_map(), {{"E", &laws.loss.E},
                                                 {"A", &laws.loss.A},
                                                 {"B", &laws.loss.B},
                                                 {"alpha", &laws.loss.alpha},
                                                 {"beta", &laws.loss.beta}});
  read_members(tokens.require("slope").as_map(),
               {{"A", &laws.slope.A}, {"beta", &laws.slope.beta}, {"spread", &laws.slope.spread}});
  read_members(tokens, {{"most_ratio", &laws.most_ratio}});
  auto& batch = laws.batch;
  read_members(section("batch"), {{"tokens_at_million", &batch.tokens_at_million},
                                  {"power", &batch.power},
                                  {"excess", &batch.excess},
                                  {"spread", &batch.spread}});
  auto& diloco = laws.diloco;
  read_members(section("diloco"), {{"gain", &diloco.gain},
                                   {"gain_size", &diloco.gain_size},
                                   {"gap", &diloco.gap},
                                   {"power", &diloco.power},
                                   {"fade", &diloco.fade},
                                   {"period", &diloco.period},
                                   {"off_below", &diloco.off_below},
                                   {"off_above", &diloco.off_above},
                                   {"off_period", &diloco.off_period},
                                   {"untuned_least", &diloco.untuned_least},
                                   {"untuned_most", &diloco.untuned_most},
                                   {"least_parameters", &diloco.least_parameters},
                                   {"most_parameters", &diloco.most_parameters},
                                   {"most_replicas", &diloco.most_replicas},
                                   {"most_period", &diloco.most_period}});
  read_members(section("diloco").require("batch").as_map(),
               {{"A", &diloco.batch.A},
                {"parameters", &diloco.batch.parameters},
                {"replicas", &diloco.batch.replicas}});
  Map asynchronous = section("asynchronous_diloco");
  laws.asynchronous_diloco = {estimate_at(asynchronous, "plain"),
                              estimate_at(asynchronous, "delayed_nesterov")};
  Map late = section("one_update_late");
  laws.one_update_late = estimate_at(late, "ratio");
  Map formats = section("formats");
  laws.fp8 = estimate_at(formats, "fp8");
  laws.mxfp8 = estimate_at(formats, "mxfp8");
  laws.nvfp4 = estimate_at(formats, "nvfp4");
  auto& repeated = laws.repeated;
  read_members(
      section("repeated"),
      {{"R", &repeated.R}, {"most_passes", &repeated.most_passes}, {"spread", &repeated.spread}});
  return laws;
}

}  // namespace

const MethodLaws& method_laws() {
  static const MethodLaws kLaws = read_laws();
  return kLaws;
}

}  // namespace rehearse::inline convergence
