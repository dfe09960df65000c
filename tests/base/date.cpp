#include "base/date.hpp"

#include <boost/test/unit_test.hpp>
#include <cstdlib>

#include "base/error.hpp"

using namespace rehearse;

BOOST_AUTO_TEST_SUITE(date_test)
namespace {

std::int64_t days_of(const char* date) {
  return first_day(date).value().time_since_epoch().count();
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_month_and_a_year_begin_with_their_first_day) {
  BOOST_TEST(days_of("1970-01-01") == 0);
  BOOST_TEST(days_of("2026-07-20") == 20654);  // date -d 2026-07-20 +%s over 86400
  BOOST_TEST(days_of("2026-07") == days_of("2026-07-01"));
  BOOST_TEST(days_of("2026") == days_of("2026-01-01"));
  BOOST_TEST(days_of("2024-02-29") + 1 == days_of("2024-03-01"));
}

BOOST_AUTO_TEST_CASE(what_is_no_day_of_the_calendar_is_no_date) {
  for (const char* text :
       {"", "26", "2026-", "2026-7", "2026-13", "2026-00", "2026-02-30", "2026-07-20 ",
        "2026/07/20", "20260720", "2026-07-20-1", "-026-07-20", "yesterday"})
    BOOST_TEST(!first_day(text).has_value(), text);
}

BOOST_AUTO_TEST_CASE(source_date_epoch_takes_the_place_of_today) {
  setenv("SOURCE_DATE_EPOCH", "1784505599", 1);  // 2026-07-19 23:59:59 UTC
  BOOST_TEST((today() == *first_day("2026-07-19")));
  setenv("SOURCE_DATE_EPOCH", "1784505600", 1);
  BOOST_TEST((today() == *first_day("2026-07-20")));
  for (const char* text : {"", "soon", "-1", "1e9", "99999999999999"}) {
    setenv("SOURCE_DATE_EPOCH", text, 1);
    BOOST_CHECK_THROW(today(), InputError);
  }
  unsetenv("SOURCE_DATE_EPOCH");
  BOOST_TEST((today() >= *first_day("2026-01-01")));
}

BOOST_AUTO_TEST_SUITE_END()
