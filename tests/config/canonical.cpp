#include "config/canonical.hpp"

#include <boost/test/unit_test.hpp>

#include "config/draft.hpp"
#include "error_of.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(canonical_test)
namespace {

std::string formatted(const std::string& text) {
  return canonical(text, "a.yaml", {"model", "cluster", "strategy"});
}

BOOST_AUTO_TEST_CASE(sections_stand_in_order_and_comments_go_with_them) {
  BOOST_TEST(formatted("# A study of one layer.\n"
                       "strategy:   {fsdp: {}}   # all is sharded\n"
                       "\n\n\n"
                       "# Two nodes.\n"
                       "cluster:\n"
                       "     nodes:  2\n"
                       "     # As rented.\n"
                       "     node: {gpu: A100-SXM-80,gpus: 8}\n"
                       "model: {use: 'gpt2',   batch_per_gpu: 4}\n"
                       "# The end.\n") ==
             "model: {use: gpt2, batch_per_gpu: 4}\n"
             "\n"
             "# Two nodes.\n"
             "cluster:\n"
             "  nodes: 2\n"
             "  # As rented.\n"
             "  node: {gpu: A100-SXM-80, gpus: 8}\n"
             "# A study of one layer.\n"
             "strategy: {fsdp: {}}  # all is sharded\n"
             "# The end.\n");
}

BOOST_AUTO_TEST_CASE(two_times_is_as_once) {
  for (const char* text :
       {"a: 1 # b\n", "a: [1,\n  2, # two\n  3]\n", "a:\n- b: 1\n  # c\n  d: 2\n- e\n",
        "a: |\n  one\n  two\n", "a: \"x # y\"\nb: 'it''s'\n", "a: {b: {c: {}}}\n",
        "vary:\n  # Nodes.\n  cluster.nodes: [1, 2]\n"}) {
    const std::string once = formatted(text);
    BOOST_TEST(formatted(once) == once);
  }
}

BOOST_AUTO_TEST_CASE(a_comment_in_braces_opens_them) {
  BOOST_TEST(formatted("a: {b: 1,  # one\n    c: 2}\n") == "a:\n  b: 1  # one\n  c: 2\n");
}

BOOST_AUTO_TEST_CASE(braces_open_where_they_do_not_fit) {
  const std::string wide(90, 'x');
  BOOST_TEST(formatted("model: {use: " + wide + ", batch_per_gpu: 4}\n") ==
             "model:\n  use: " + wide + "\n  batch_per_gpu: 4\n");
}

BOOST_AUTO_TEST_CASE(texts_keep_the_quotes_that_they_need) {
  BOOST_TEST(
      formatted("a: '12'\nb: \"true\"\nc: 'x: y'\nd: \"plain\"\ne: 'a, b'\nf: [\"a, b\"]\n") ==
      "a: \"12\"\nb: \"true\"\nc: \"x: y\"\nd: plain\ne: a, b\nf: [\"a, b\"]\n");
}

BOOST_AUTO_TEST_CASE(a_number_sign_within_a_text_is_no_comment) {
  BOOST_TEST(formatted("a: \"x # y\"\nb: c#d\n") == "a: \"x # y\"\nb: c#d\n");
}

BOOST_AUTO_TEST_CASE(what_is_no_yaml_is_refused) {
  BOOST_TEST(error_of([] { formatted("a: [1\n"); }).starts_with("a.yaml:"));
}

BOOST_AUTO_TEST_CASE(drafts_print_what_was_set_in_its_order) {
  Draft scenario;
  scenario.set("model.use", "gpt2").set("strategy.fsdp", Draft::map()).set("model.sequence", 1024);
  scenario.set("description", "a: b").set("train.tokens", 1.5e9);
  BOOST_TEST(scenario.block() ==
             "model: {use: gpt2, sequence: 1024}\n"
             "strategy: {fsdp: {}}\n"
             "description: \"a: b\"\n"
             "train: {tokens: 1500000000}\n");
  BOOST_TEST(Draft::parsed(scenario.flow(), "again").flow() == scenario.flow());
  scenario.set("model.use", "bert_base");
  BOOST_TEST(scenario.at("model").flow() == "{use: bert_base, sequence: 1024}");
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
