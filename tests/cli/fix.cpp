#include "cli/fix.hpp"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(fix_test)

using namespace rehearse;

BOOST_AUTO_TEST_CASE(a_word_with_one_remedy_is_replaced_where_it_stands) {
  const std::string text = "model: {use: resnet5}\nstrategy: {ddp: {bucket_cap_bm: 25}}\n";
  const std::string message =
      "a.yaml:1:14: error: model.use: no network is called so\nmodel: {use: resnet5}\n"
      "             ^\nremedy: did you mean \"resnet50\"?\n\n"
      "a.yaml:2:18: error: strategy.ddp.bucket_cap_bm: unknown key\n"
      "remedy: did you mean \"bucket_cap_mb\"?";
  const auto fixes = fixes_of(message, "a.yaml", text);
  BOOST_TEST(fixes.size() == 2u);
  BOOST_TEST(fixed(text, fixes) ==
             "model: {use: resnet50}\nstrategy: {ddp: {bucket_cap_mb: 25}}\n");
}

BOOST_AUTO_TEST_CASE(what_is_no_single_word_or_stands_elsewhere_stays) {
  const std::string text = "model: {use: resnet5}\n";
  for (const char* message :
       {"b.yaml:1:14: error: x\nremedy: did you mean \"resnet50\"?",
        "a.yaml:1:14: error: x\nremedy: did you mean \"resnet50\"? else take another",
        "a.yaml:9:14: error: x\nremedy: did you mean \"resnet50\"?",
        "a.yaml:1:99: error: x\nremedy: did you mean \"resnet50\"?",
        "a.yaml: error: x\nremedy: did you mean \"resnet50\"?"})
    BOOST_TEST(fixes_of(message, "a.yaml", text).empty(), message);
}

BOOST_AUTO_TEST_CASE(a_mistake_that_is_said_twice_is_mended_once) {
  const std::string one = "a.yaml:1:1: error: x\nremedy: did you mean \"model\"?\n";
  const auto fixes = fixes_of(one + one, "a.yaml", "modl: x\n");
  BOOST_TEST(fixes.size() == 1u);
  BOOST_TEST(fixed("modl: x\n", fixes) == "model: x\n");
}

BOOST_AUTO_TEST_CASE(several_words_of_a_line_are_replaced_from_its_end) {
  BOOST_TEST(fixed("a: b\n", {{1, 1, "a", "long"}, {1, 4, "b", "c"}}) == "long: c\n");
}

BOOST_AUTO_TEST_SUITE_END()
