#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <ostream>

#include "fixtures.hpp"
#include "study/content_key.hpp"
#include "study/study.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(read_study_test)
namespace {

namespace data = boost::unit_test::data;

struct Folder {
  Scratch scratch;
  Folder() {
    scratch.write("base.yaml", "cluster: {nodes: 4}\nmodel: {batch: 8}\nstrategy: {ddp: {}}\n");
  }

  Study study(const std::string& rest, const std::vector<std::string>& overrides = {}) const {
    return read_study(scratch.write("study.yaml", "scenario: base.yaml\n" + rest), overrides);
  }

  /// "a b; c d": the labels of each point.
  static std::string points(const Study& study) {
    std::string text;
    for (const Point& point : study.points) {
      text += text.empty() ? "" : "; ";
      const std::vector<std::string> labels = labels_of(study, point);
      for (const std::string& label : labels) text += (&label == labels.data() ? "" : " ") + label;
    }
    return text;
  }
};

BOOST_FIXTURE_TEST_CASE(points_are_nested_loops_with_the_last_axis_fastest, Folder) {
  BOOST_TEST(points(study("vary: {cluster.nodes: [1, 2], model.batch: [8, 16, 32]}")) ==
             "1 8; 1 16; 1 32; 2 8; 2 16; 2 32");
}

BOOST_FIXTURE_TEST_CASE(a_point_s_values_stand_in_its_scenario, Folder) {
  const Study one = study("vary: {cluster.nodes: [1, 2], strategy: [{ddp: {}}, {fsdp: {}}]}");
  BOOST_TEST(canonical_text(scenario_at(one, one.points[3])->root()) ==
             R"({"cluster":{"nodes":"2"},"model":{"batch":"8"},"strategy":{"fsdp":{}}})");
}

BOOST_FIXTURE_TEST_CASE(a_scenario_may_stand_in_the_study, Folder) {
  const Study one = read_study(scratch.write("inline.yaml",
                                             "scenario: {cluster: {nodes: 4}, model: {batch: 8}}\n"
                                             "vary: {cluster.nodes: [1, 2]}\n"),
                               {"model.batch=16"});
  BOOST_TEST(canonical_text(scenario_at(one, one.points[1])->root()) ==
             R"({"cluster":{"nodes":"2"},"model":{"batch":"16"}})");
}

BOOST_FIXTURE_TEST_CASE(a_zip_changes_its_keys_together, Folder) {
  const Study one = study("vary: {size: {zip: {cluster.nodes: [1, 2], model.batch: [8, 4]}}}");
  BOOST_TEST(points(one) == "1, 8; 2, 4");
  BOOST_TEST(canonical_text(scenario_at(one, one.points[1])->root()) ==
             R"({"cluster":{"nodes":"2"},"model":{"batch":"4"},"strategy":{"ddp":{}}})");
}

BOOST_FIXTURE_TEST_CASE(labels_are_given_or_say_what_a_value_is, Folder) {
  BOOST_TEST(points(study("vary: {strategy: [{ddp: {}}, {fsdp: {offload: true, n: [1, 2]}}]}")) ==
             "ddp; fsdp {offload: true, n: [1, 2]}");
  BOOST_TEST(points(study("vary: {strategy: {values: [{ddp: {}}, {fsdp: {}}], labels: [A, B]}}")) ==
             "A; B");
}

BOOST_FIXTURE_TEST_CASE(seeds_are_one_more_axis, Folder) {
  const Study one = study("vary: {cluster.nodes: [1, 2]}\nseeds: 2");
  BOOST_TEST(points(one) == "1 1; 1 2; 2 1; 2 2");
  BOOST_TEST(one.axes.back().name == "seed");
}

BOOST_FIXTURE_TEST_CASE(conditions_keep_what_fits_only_and_leave_out_what_fits_exclude, Folder) {
  const std::string axes = "vary: {cluster.nodes: [1, 2, 4], strategy: [{ddp: {}}, {fsdp: {}}]}\n";
  BOOST_TEST(points(study(axes + "exclude: [{cluster.nodes: [2, 4], strategy: ddp}]")) ==
             "1 ddp; 1 fsdp; 2 fsdp; 4 fsdp");
  BOOST_TEST(
      points(study(axes + "only: [{cluster.nodes: 1}, {cluster.nodes: 4, strategy: ddp}]")) ==
      "1 ddp; 1 fsdp; 4 ddp");
}

BOOST_FIXTURE_TEST_CASE(overrides_change_the_scenario_below_the_axes, Folder) {
  const Study one = study("vary: {cluster.nodes: [1]}", {"model.batch=99"});
  BOOST_TEST(canonical_text(scenario_at(one, one.points[0])->root()) ==
             R"({"cluster":{"nodes":"1"},"model":{"batch":"99"},"strategy":{"ddp":{}}})");
}

struct Wrong {
  std::string study, message;
  friend std::ostream& operator<<(std::ostream& out, const Wrong& one) { return out << one.study; }
};

const std::vector<Wrong> kWrong = {
    {"vary: {}", "2:7: error: vary: expected at least one axis"},
    {"vary: {cluster.nodes: 3}", "2:23: error: vary.cluster.nodes: expected a list; got \"3\""},
    {"vary: {cluster.nodes: []}",
     "2:23: error: vary.cluster.nodes: an axis without values leaves no points"},
    {"vary: {cluster.nodes: [1, 2, 1]}",
     "2:30: error: vary.cluster.nodes.2: two values of this axis are called \"1\""},
    {"vary: {cluster.nodes: {value: [1]}}",
     "2:23: error: vary.cluster.nodes: the key \"values\" is missing"},
    {"vary: {a: {zip: {cluster.nodes: [1, 2], model.batch: [1]}}}",
     "2:54: error: vary.a.zip.model.batch: 1 values; the first key of this axis has 2"},
    {"vary: {cluster.nodes: {values: [1, 2], labels: [one]}}",
     "2:48: error: vary.cluster.nodes.labels: 1 labels for 2 values"},
    {"vary: {cluster.nodes: [1], size: {zip: {cluster.nodes: [2]}}}",
     "2:41: error: vary.size.zip.cluster.nodes: \"cluster.nodes\" varies already, in axis "
     "\"cluster.nodes\""},
    {"vary: {strategy.ddp.x: [1], strategy: [{ddp: {}}]}",
     "2:29: error: vary.strategy: would undo \"strategy.ddp.x\" of axis \"strategy.ddp.x\""},
    {"vary: {run.seed: [1]}\nseeds: 2", "seeds:1:2: error: run.seed: \"run.seed\" varies already"},
    {"vary: {cluster.nodes: [1]}\nexclude: [{cluster.node: 1}]",
     "3:12: error: exclude.0.cluster.node: no such axis; the axes are cluster.nodes"},
    {"vary: {cluster.nodes: [1]}\nexclude: [{cluster.nodes: 3}]",
     "3:27: error: exclude.0.cluster.nodes: expected one of 1; got \"3\""},
    {"vary: {cluster.nodes: [1]}\nonly: [{cluster.nodes: 1}, {cluster.nodes: []}]",
     "3:28: error: only.1: no point fits this condition"},
    {"vary: {cluster.nodes: [1]}\nexclude: [{cluster.nodes: 1}]",
     "2:7: error: vary: the conditions leave no points"},
    {"vary: {cluster.nodes: [1]}\nseed: 3", "3:1: error: seed: unknown key; known keys here: "},
};

BOOST_DATA_TEST_CASE_F(Folder, a_wrong_study_is_told_where_it_is_wrong, data::make(kWrong), wrong) {
  const std::string message = scratch.anonymous(error_from([&] { study(wrong.study); }));
  const bool inside = wrong.message.starts_with("seeds:");
  const std::string expected = (inside ? "" : "SCRATCH/study.yaml:") + wrong.message;
  BOOST_TEST(message.substr(0, expected.size()) == expected);
}

BOOST_FIXTURE_TEST_CASE(a_wrong_value_is_shown_in_the_study, Folder) {
  const Study one = study("vary:\n  model.batch.size: [3]");
  BOOST_TEST(scratch.anonymous(error_from([&] { scenario_at(one, one.points[0]); })) ==
             "SCRATCH/study.yaml:3:15: error: cannot set \"size\" inside the single value \"8\"\n"
             "  model.batch.size: [3]\n"
             "              ^\n"
             "remedy: set the value itself, or replace it by a map: {key: value}");
}

BOOST_FIXTURE_TEST_CASE(an_override_of_what_varies_is_refused, Folder) {
  BOOST_TEST(error_from([&] { study("vary: {cluster.nodes: [1]}", {"cluster.nodes=3"}); }) ==
             "--set cluster.nodes=3: error: the study varies \"cluster.nodes\"\n"
             "remedy: leave it out, or change the study");
}

BOOST_FIXTURE_TEST_CASE(a_scenario_that_is_not_there_is_shown_where_it_is_named, Folder) {
  const auto file = scratch.write("other.yaml", "scenario: gone.yaml\nvary: {a: [1]}");
  BOOST_TEST(scratch.anonymous(error_from([&] { read_study(file, {}); })) ==
             "SCRATCH/other.yaml:1:11: error: scenario: no file \"SCRATCH/gone.yaml\"\n"
             "scenario: gone.yaml\n"
             "          ^");
}

// --- keys of contents
// ------------------------------------------------------------------------------

std::string key_of(const std::string& text, const std::vector<FilesRead::File>& files = {},
                   const std::string& program = "p") {
  return content_key(program, *Document::parse(text, "f.yaml"), files);
}

BOOST_AUTO_TEST_CASE(a_key_depends_on_what_a_scenario_says_and_not_on_how) {
  const std::string key = key_of("{a: 1, b: {c: [x, y], d: }}");
  BOOST_TEST(key.size() == 32);
  BOOST_TEST(key == key_of("# other\nb:\n  d: null\n  c:\n  - x\n  - y\na: 1\ndescription: other"));
  BOOST_TEST(key != key_of("{a: 1, b: {c: [y, x], d: }}"));
  BOOST_TEST(key != key_of("{a: 2, b: {c: [x, y], d: }}"));
  BOOST_TEST(key != key_of("{a: 1, b: {c: [x, y], d: }}", {}, "other program"));
}

BOOST_AUTO_TEST_CASE(a_key_depends_on_the_contents_of_the_files_that_were_read) {
  BOOST_TEST(key_of("a: 1", {{"x.yaml", "one"}}) == key_of("a: 1", {{"x.yaml", "one"}}));
  BOOST_TEST(key_of("a: 1", {{"x.yaml", "one"}}) != key_of("a: 1", {{"x.yaml", "two"}}));
  BOOST_TEST(key_of("a: 1", {{"x.yaml", "one"}}) != key_of("a: 1"));
}

BOOST_AUTO_TEST_CASE(files_are_noted_while_somebody_listens) {
  const Scratch scratch;
  const auto file = scratch.write("a.yaml", "a: 1");
  Document::load(file);
  const FilesRead outer;
  {
    const FilesRead inner;
    Document::load(file);
    BOOST_TEST(inner.files().size() == 1);
  }
  Document::load(file);
  BOOST_TEST(outer.files().size() == 2);
  BOOST_TEST(outer.files()[1].text == "a: 1");
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
