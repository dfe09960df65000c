#include "view/table.hpp"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(table_test)
namespace {

using namespace rehearse;

Table two_gpus() {
  using enum TableColumn::Side;
  Table table({{"GPU", left}, {"step"}, {"note", left, true}, {"USD", right, true}});
  table.row({{"A100 | 80", "9.5 ms", "", "1,25"}});
  table.row({.cells = {"H100"}, .running_on = "failed: it waits", .ink = Ink::bad});
  return table;
}

std::string printed(const Table& table, std::size_t width, bool color = false) {
  Page page(width, color);
  table.print(page);
  return page.text();
}

BOOST_AUTO_TEST_CASE(a_page_has_aligned_columns_and_none_that_is_empty) {
  BOOST_TEST(printed(two_gpus(), 80) ==
             "GPU          step   USD\n"
             "A100 | 80  9.5 ms  1,25\n"
             "H100       failed: it waits\n");
}

BOOST_AUTO_TEST_CASE(a_row_has_its_ink) {
  BOOST_TEST(printed(two_gpus(), 80, true).find("\x1b[1;31mH100") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_name_too_long_for_its_column_stands_above_its_row) {
  using enum TableColumn::Side;
  Table table({{"case", left}, {"seconds"}});
  table.row({{"a name of forty columns, which is too wide", "123456"}});
  BOOST_TEST(printed(table, 40) ==
             "case                             seconds\n"
             "a name of forty columns, which is too...\n"
             "                                  123456\n");
}

BOOST_AUTO_TEST_CASE(what_runs_on_ends_with_the_page) {
  Table table({{"a"}, {"b"}});
  table.row({.cells = {"1"}, .running_on = std::string(50, 'z')});
  BOOST_TEST(printed(table, 20) == "a  b\n1  zzzzzzzzzzzzzz...\n");
}

BOOST_AUTO_TEST_CASE(csv_quotes_what_it_must_and_disarms_formulas) {
  Table table({{"GPU"}, {"note"}});
  table.row({{"-1.5e-3", "=1+1"}});
  table.row({{"-x", "@a,b"}});
  table.row({{"a=b", "a \"b\""}});
  table.row({{"two\nlines"}});
  BOOST_TEST(table.csv() ==
             "GPU,note\n-1.5e-3,'=1+1\n'-x,\"'@a,b\"\na=b,\"a \"\"b\"\"\"\n\"two\nlines\",\n");
}

BOOST_AUTO_TEST_CASE(markdown_escapes_bars_and_says_sides) {
  BOOST_TEST(two_gpus().markdown() ==
             "| GPU | step | note | USD |\n|---|---:|---|---:|\n"
             "| A100 \\| 80 | 9.5 ms |  | 1,25 |\n"
             "| H100 |  |  | failed: it waits |\n");
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
