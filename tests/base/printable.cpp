#include "base/printable.hpp"

#include <boost/test/unit_test.hpp>

namespace rehearse {
BOOST_AUTO_TEST_SUITE(printable_test)
namespace {

BOOST_AUTO_TEST_CASE(what_moves_the_cursor_or_turns_text_around_is_shown_as_an_escape) {
  BOOST_TEST(printable("a\x1b]0;title\ab") == "a\\x1b]0;title\\x07b");
  BOOST_TEST(printable("\r\x7f\b") == "\\x0d\\x7f\\x08");
  BOOST_TEST(printable("\u009b31m") == "\\u009b31m");
  BOOST_TEST(printable("a\u202eb\u2066c\u2029") == "a\\u202eb\\u2066c\\u2029");
}

BOOST_AUTO_TEST_CASE(text_lines_tabs_and_colours_stay) {
  const std::string text = "é █ 名\n\tb \x1b[1;31mred\x1b[0m";
  BOOST_TEST(printable(text) == text);
  BOOST_TEST(printable("\x1b[2J\x1b[1") == "\\x1b[2J\\x1b[1");
}

BOOST_AUTO_TEST_CASE(texts_of_others_have_no_colours) {
  BOOST_TEST(escaped("é\n\x1b[1;31mred\x1b[0m\u202e\xff") ==
             "é\n\\x1b[1;31mred\\x1b[0m\\u202e\\xff");
}

BOOST_AUTO_TEST_CASE(bytes_that_are_no_text_are_shown) {
  BOOST_TEST(printable("a\xff\xc3") == "a\\xff\\xc3");
  BOOST_TEST(printable(std::string_view("\xc0\xaf\0", 3)) == "\\xc0\\xaf\\x00");
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
