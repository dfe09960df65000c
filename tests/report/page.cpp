#include "view/page.hpp"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(page_test)

using namespace rehearse;

BOOST_AUTO_TEST_CASE(columns_count_characters_and_not_bytes) {
  BOOST_TEST(columns("a · b") == 5u);
  BOOST_TEST(columns("█▏") == 2u);
  BOOST_TEST(left("·", 3) == "·  ");
  BOOST_TEST(right("·", 3) == "  ·");
  BOOST_TEST(left("longer", 3) == "longer");
}

BOOST_AUTO_TEST_CASE(text_breaks_between_words) {
  const std::vector<std::string> lines = wrap("one two  three\nunbreakable four", 8);
  const std::vector<std::string> expected{"one two", "three", "unbreakable", "four"};
  BOOST_TEST(lines == expected, boost::test_tools::per_element());
  BOOST_TEST(wrap("", 8).empty());
}

BOOST_AUTO_TEST_CASE(a_bar_has_eighths_and_shows_whatever_is_there) {
  BOOST_TEST(bar(1, 3) == "███");
  BOOST_TEST(bar(0.5, 3) == "█▌");
  BOOST_TEST(bar(1e-9, 3) == "▏");
  BOOST_TEST(bar(0, 3) == "");
  BOOST_TEST(bar(2, 3) == "███");
}

BOOST_AUTO_TEST_CASE(a_sparkline_is_as_high_as_its_values) {
  BOOST_TEST(sparkline({0, 1, 7, 14}) == "·▂▅█");
  BOOST_TEST(sparkline({}) == "");
}

BOOST_AUTO_TEST_CASE(a_line_is_one_line_and_printable_whatever_it_holds) {
  Page page(40, true);
  page.line("a\nb \x1b[2J" + page.ink(Ink::good, "ok"));
  BOOST_TEST(page.text() == "a b \\x1b[2J\x1b[1;32mok\x1b[0m\n");
}

BOOST_AUTO_TEST_CASE(a_page_without_colour_has_no_escapes) {
  Page page(40, false);
  page.wrapped_field("name", Ink::bad, "a text that is longer than one line");
  BOOST_TEST(page.text() == "name          a text that is longer than\n              one line\n");
  BOOST_TEST(Page(40, true).ink(Ink::good, "ok") == "\x1b[1;32mok\x1b[0m");
}

BOOST_AUTO_TEST_SUITE_END()
