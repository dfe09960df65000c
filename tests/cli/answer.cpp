#include "cli/answer.hpp"

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <iterator>

#include "../scratch.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(answer_test)
namespace {

/// What a file has of an answer of which each form is made once, where it is asked for.
std::string written(AnswerOptions options) {
  const Scratch folder;
  options.output = folder / "answer";
  const Answer answer{
      .table = [](int width, bool color) { return std::to_string(width) + (color ? "c" : "p"); },
      .json = [] { return std::string("{}"); },
      .csv = [] { return std::string("a,b"); },
      .page = [] { return std::string("<html>"); }};
  write_answer(answer, options);
  std::ifstream stream(options.output, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

BOOST_AUTO_TEST_CASE(a_file_gets_the_form_that_is_asked_for) {
  BOOST_TEST(written({.format = "json", .output = {}, .html = {}}) == "{}");
  BOOST_TEST(written({.format = "csv", .output = {}, .html = {}}) == "a,b");
}

BOOST_AUTO_TEST_CASE(a_table_in_a_file_has_100_columns_and_colours_only_where_they_are_asked_for) {
  BOOST_TEST(written({}) == "100p");
  AnswerOptions colored;
  colored.color = ColorChoice::always;
  BOOST_TEST(written(colored) == "100c");
}

BOOST_AUTO_TEST_CASE(a_page_is_written_beside_the_answer) {
  const Scratch folder;
  AnswerOptions options;
  options.html = folder / "page";
  BOOST_TEST(written(options) == "100p");
  std::ifstream stream(options.html);
  BOOST_TEST(std::string(std::istreambuf_iterator<char>(stream), {}) == "<html>");
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
