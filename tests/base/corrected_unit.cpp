#include "base/corrected_unit.hpp"

#include <boost/test/unit_test.hpp>

#include "base/quantity.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(corrected_unit_test)
namespace {

BOOST_AUTO_TEST_CASE(a_unit_that_others_write_is_told_in_ours) {
  BOOST_TEST(corrected_bytes_per_second("400Gb/s") == "400Gbps");
  BOOST_TEST(corrected_bytes_per_second("400 gbps") == "400Gbps");  // fewer letters off than GBps
  BOOST_TEST(corrected_bytes_per_second("25 Gbits/sec") == "25Gbps");
  BOOST_TEST(corrected_bytes_per_second("300GB/sec") == "300GBps");
  BOOST_TEST(corrected_seconds("2sec") == "2s");
  BOOST_TEST(corrected_seconds("5 usec") == "5us");
  BOOST_TEST(corrected_seconds("12 hours") == "12h");
  BOOST_TEST(corrected_bytes("25 mib") == "25MiB");
  BOOST_TEST(corrected_bytes("80gb") == "80GB");
  BOOST_TEST(corrected_flops_per_second("312TFLOPS") == "312TFLOPs");
}

BOOST_AUTO_TEST_CASE(what_is_no_unit_of_the_kind_is_not_corrected) {
  BOOST_TEST(corrected_bytes("1GBps") == "");
  BOOST_TEST(corrected_seconds("5") == "");
  BOOST_TEST(corrected_seconds("soon") == "");
  BOOST_TEST(corrected_bytes_per_second("3 furlongs") == "");
}

BOOST_AUTO_TEST_CASE(what_is_told_can_be_read) {
  BOOST_TEST(parse_bytes_per_second(corrected_bytes_per_second("400Gb/s")).value() == 50e9);
  BOOST_TEST(parse_seconds(corrected_seconds("5 usec")).value() == 5e-6);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
