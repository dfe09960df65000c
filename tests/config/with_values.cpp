#include <boost/test/unit_test.hpp>

#include "config/document.hpp"
#include "error_of.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(with_values_test)
namespace {

const auto kBase = Document::parse("cluster: {nodes: 4}\nmodel:\n", "base.yaml");

/// The base with the values of a map of paths.
std::shared_ptr<const Document> with(const std::string& values) {
  Map map = Document::parse(values, "axes.yaml")->root().as_map();
  std::vector<Substitution> substitutions;
  for (const std::string& path : map.keys()) {
    substitutions.push_back({map.at_key(path), map.require(path)});
  }
  return kBase->with_values(substitutions);
}

BOOST_AUTO_TEST_CASE(values_replace_others_and_make_maps_on_their_way) {
  const auto changed = with("{cluster.nodes: 8, model.size.layers: [1, 2]}");
  Map root = changed->root().as_map();
  BOOST_TEST(root.require("cluster").as_map().require("nodes").as_number() == 8);
  const Value layers = root.require("model").as_map().require("size").as_map().require("layers");
  BOOST_TEST(layers.as_list().at(1).as_number() == 2);
  BOOST_TEST(kBase->root().as_map().require("cluster").as_map().require("nodes").as_number() == 4);
}

BOOST_AUTO_TEST_CASE(an_error_in_a_value_points_to_where_it_came_from) {
  const auto changed = with("cluster.nodes: many");
  BOOST_TEST(error_of([&] {
               changed->root().as_map().require("cluster").as_map().require("nodes").as_number();
             }) ==
             "axes.yaml:1:16: error: cluster.nodes: expected a number; got \"many\"\n"
             "cluster.nodes: many\n"
             "               ^");
}

BOOST_AUTO_TEST_CASE(an_unknown_key_is_shown_in_the_path_that_names_it) {
  const auto changed = with("cluster.node: 3");
  Map cluster = changed->root().as_map().require("cluster").as_map();
  cluster.require("nodes");
  BOOST_TEST(error_of([&] { cluster.finish(); }) ==
             "axes.yaml:1:9: error: cluster.node: unknown key; known keys here: nodes\n"
             "cluster.node: 3\n"
             "        ^\n"
             "remedy: did you mean \"nodes\"?");
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
