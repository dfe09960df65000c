#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "config/document.hpp"
#include "error_of.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(assign_test)
namespace {

const std::string kScenario =
    "model: {units: [{name: stem, forward: 1ms}, {name: head}]}\n"
    "cluster: {nodes: 4}\n"
    "strategy:\n";

std::shared_ptr<const Document> with(const std::vector<std::string>& assignments) {
  return Document::parse(kScenario, "f.yaml")->with_overrides(assignments);
}

/// The value at a path of keys and indices.
Value at(const Document& document, const std::vector<std::string>& path) {
  Value value = document.root();
  for (const std::string& step : path) {
    value = value.is_list() ? value.as_list().at(std::stoul(step)) : value.as_map().require(step);
  }
  return value;
}

BOOST_AUTO_TEST_CASE(an_assignment_replaces_a_value_and_leaves_the_original) {
  const auto original = Document::parse(kScenario, "f.yaml");
  const auto changed = original->with_overrides({"cluster.nodes=8"});
  BOOST_TEST(at(*changed, {"cluster", "nodes"}).as_number() == 8);
  BOOST_TEST(at(*original, {"cluster", "nodes"}).as_number() == 4);
  BOOST_TEST(changed->name() == "f.yaml");
}

BOOST_AUTO_TEST_CASE(the_last_assignment_to_a_path_wins) {
  BOOST_TEST(at(*with({"cluster.nodes=8", "cluster.nodes=16"}), {"cluster", "nodes"}).as_number() ==
             16);
}

BOOST_AUTO_TEST_CASE(a_step_may_be_a_list_index) {
  const auto document = with({"model.units.1.forward=2ms", "model.units.0={name: other}"});
  BOOST_TEST(at(*document, {"model", "units", "1", "forward"}).as_seconds().value() == 2e-3);
  BOOST_TEST(at(*document, {"model", "units", "1", "name"}).as_string() == "head");
  BOOST_TEST(!at(*document, {"model", "units", "0"}).as_map().has("forward"));
}

BOOST_AUTO_TEST_CASE(missing_maps_on_the_way_are_made) {
  const auto document = with({"run.noise.jitter=0.1", "strategy.ddp.bucket_cap_mb=5"});
  BOOST_TEST(at(*document, {"run", "noise", "jitter"}).as_number() == 0.1);
  BOOST_TEST(at(*document, {"run", "noise", "jitter"}).path() == "run.noise.jitter");
  BOOST_TEST(at(*document, {"strategy", "ddp", "bucket_cap_mb"}).as_number() == 5);
}

BOOST_AUTO_TEST_CASE(maps_and_lists_are_replaced_whole) {
  const auto document = with({"strategy={fsdp: {}}", "model.units=[]", "cluster=x=y"});
  BOOST_TEST(at(*document, {"strategy", "fsdp"}).is_map());
  BOOST_TEST(at(*document, {"model", "units"}).as_list().empty());
  BOOST_TEST(at(*document, {"cluster"}).as_string() == "x=y");
}

BOOST_AUTO_TEST_CASE(nothing_after_the_equals_sign_is_an_empty_value) {
  const Value nodes = at(*with({"cluster.nodes="}), {"cluster", "nodes"});
  BOOST_TEST(nodes.is_null());
  BOOST_TEST(error_of([&] { nodes.as_number(); }) ==
             "--set cluster.nodes=:1:15: error: cluster.nodes: expected a number; got nothing\n"
             "cluster.nodes=\n              ^");
}

BOOST_AUTO_TEST_CASE(an_error_in_an_assigned_value_points_into_the_assignment) {
  const Value nodes = at(*with({"cluster.nodes=many"}), {"cluster", "nodes"});
  BOOST_TEST(
      error_of([&] { nodes.as_number(); }) ==
      "--set cluster.nodes=many:1:15: error: cluster.nodes: expected a number; got \"many\"\n"
      "cluster.nodes=many\n              ^");
  BOOST_TEST(nodes.folder().empty());
  const Value inner = at(*with({"cluster={nodes: many}"}), {"cluster", "nodes"});
  BOOST_TEST(
      error_of([&] { inner.as_number(); }) ==
      "--set cluster={nodes: many}:1:17: error: cluster.nodes: expected a number; got \"many\"\n"
      "cluster={nodes: many}\n                ^");
}

BOOST_AUTO_TEST_CASE(an_unknown_key_that_was_assigned_is_shown_in_the_assignment) {
  Map cluster = at(*with({"cluster.ndoes=8"}), {"cluster"}).as_map();
  cluster.require("nodes");
  BOOST_TEST(
      error_of([&] { cluster.finish(); }) ==
      "--set cluster.ndoes=8:1:9: error: cluster.ndoes: unknown key; known keys here: nodes\n"
      "cluster.ndoes=8\n        ^\nremedy: did you mean \"nodes\"?");
}

struct BadAssignment {
  std::string text;
  std::string message;
};
std::ostream& operator<<(std::ostream& out, const BadAssignment& bad) { return out << bad.text; }

const std::string kExample = "\nremedy: write it as --set cluster.nodes=8";
const std::vector<BadAssignment> kBadAssignments = {
    {"", "--set :1:1: error: expected a path, \"=\" and a value\n\n^" + kExample},
    {"nodes",
     "--set nodes:1:6: error: expected a path, \"=\" and a value\nnodes\n     ^" + kExample},
    {"=8", "--set =8:1:1: error: an empty key\n=8\n^" + kExample},
    {"a..b=8", "--set a..b=8:1:3: error: an empty key\na..b=8\n  ^" + kExample},
    {"a.=8", "--set a.=8:1:3: error: an empty key\na.=8\n  ^" + kExample},
    {"model.units.2.name=x",
     "--set model.units.2.name=x:1:13: error: no item \"2\" in a list of 2\nmodel.units.2.name=x\n"
     "            ^\nremedy: use an index from 0 to 1"},
    {"model.units.-1=x",
     "--set model.units.-1=x:1:13: error: no item \"-1\" in a list of 2\nmodel.units.-1=x\n"
     "            ^\nremedy: use an index from 0 to 1"},
    {"model.units.stem=x",
     "--set model.units.stem=x:1:13: error: no item \"stem\" in a list of 2\nmodel.units.stem=x\n"
     "            ^\nremedy: use an index from 0 to 1"},
    {"cluster.nodes.x=1",
     "--set cluster.nodes.x=1:1:15: error: cannot set \"x\" inside the single value "
     "\"4\"\ncluster.nodes.x=1\n"
     "              ^\nremedy: set the value itself, or replace it by a map: {key: value}"},
    {"a=[1",
     "--set a=[1:1:3: error: a key must be a word, not a map or a list\na=[1\n  ^\nremedy: if it "
     "is not meant as a key: close the \"[\""},
    {"a={b: 1, b: 2}",
     "--set a={b: 1, b: 2}:1:10: error: duplicate key \"b\"; it stands on line 1 already\na={b: 1, "
     "b: 2}\n"
     "         ^"},
    {"a=\"x", "--set a=\"x:1:5: error: a quote is not closed before this\na=\"x\n    ^"},
    {"a=&x 1",
     "--set a=&x 1:1:3: error: anchors (&x) are not supported\na=&x 1\n  ^\nremedy: write the "
     "value out"},
    {"a=\x01", "--set a=\x01:1:3: error: the control character 0x01"},
};

BOOST_DATA_TEST_CASE(an_assignment_that_cannot_be_applied_is_an_input_error_with_a_remedy,
                     boost::unit_test::data::make(kBadAssignments)) {
  BOOST_TEST(error_of([&] { with({sample.text}); }) == sample.message);
}

BOOST_AUTO_TEST_CASE(a_path_of_more_than_64_steps_is_an_input_error) {
  std::string path = "a";
  for (int i = 0; i < 64; ++i) path += ".a";
  BOOST_TEST(error_of([&] { with({path + "=1"}); }).find("error: nested deeper than 64 levels") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(defaults_are_listed_by_the_document_that_was_read) {
  const auto original = Document::parse(kScenario, "f.yaml");
  const auto changed = original->with_overrides({"cluster.nodes=8"});
  changed->root().as_map().integer_or("seed", 1, 0, 9);
  BOOST_TEST(changed->defaults_taken().size() == 1u);
  BOOST_TEST(original->defaults_taken().empty());
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
