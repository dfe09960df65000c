#include "base/quantity.hpp"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <ostream>
#include <stdexcept>
#include <string>
#include <vector>

namespace rehearse {
BOOST_AUTO_TEST_SUITE(quantity_test)
namespace {

namespace data = boost::unit_test::data;

template <class F>
std::string rejection(F parse) {
  try {
    parse();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

struct Written {
  std::string text;
  double value;
};
std::ostream& operator<<(std::ostream& out, const Written& item) { return out << item.text; }

struct Shown {
  double value;
  std::string text;
};
std::ostream& operator<<(std::ostream& out, const Shown& item) { return out << item.text; }

struct Rejected {
  std::string text;
  std::string message;
};
std::ostream& operator<<(std::ostream& out, const Rejected& item) { return out << item.text; }

const std::vector<Shown> kTimes = {{0, "0 s"},
                                   {1e-9, "1.00 ns"},
                                   {3e-10, "0.3 ns"},
                                   {5e-6, "5.00 us"},
                                   {9.994e-4, "999 us"},
                                   {9.996e-4, "1.00 ms"},
                                   {0.0123, "12.3 ms"},
                                   {4.56, "4.56 s"},
                                   {59.94, "59.9 s"},
                                   {59.96, "1 min 00 s"},
                                   {90, "1 min 30 s"},
                                   {3599.6, "1 h 00 min"},
                                   {7500, "2 h 05 min"},
                                   {172799, "2 d 00 h"},
                                   {270000, "3 d 03 h"},
                                   {1e13, "1.16e+08 d"},
                                   {-0.0025, "-2.50 ms"},
                                   {std::numeric_limits<double>::infinity(), "inf s"}};
BOOST_DATA_TEST_CASE(a_time_shows_three_digits_in_the_unit_that_suits_it, data::make(kTimes)) {
  BOOST_TEST(format(Seconds(sample.value)) == sample.text);
}

const std::vector<Shown> kSizes = {{0, "0 B"},
                                   {512, "512 B"},
                                   {1023, "1023 B"},
                                   {0.5, "0.5 B"},
                                   {1024, "1.00 KiB"},
                                   {1048575, "1.00 MiB"},
                                   {25.0 * 1048576, "25.0 MiB"},
                                   {999.0 * 1048576, "999 MiB"},
                                   {1023.0 * 1048576, "1023 MiB"},
                                   {80e9, "74.5 GiB"},
                                   {-1536, "-1.50 KiB"}};
BOOST_DATA_TEST_CASE(a_size_shows_binary_prefixes, data::make(kSizes)) {
  BOOST_TEST(format(Bytes(sample.value)) == sample.text);
}

BOOST_AUTO_TEST_CASE(rates_and_work_show_decimal_prefixes) {
  BOOST_TEST(format(BytesPerSecond(0)) == "0 B/s");
  BOOST_TEST(format(BytesPerSecond(12.5e9)) == "12.5 GB/s");
  BOOST_TEST(format(BytesPerSecond(999.9)) == "1.00 kB/s");
  BOOST_TEST(format(Flops(4.12e9)) == "4.12 GFLOP");
  BOOST_TEST(format(Flops(3e24)) == "3.00 YFLOP");
  BOOST_TEST(format(FlopsPerSecond(312e12)) == "312 TFLOP/s");
}

const std::vector<Written> kWrittenTimes = {{"0", 0},          {"-0us", 0},        {"5us", 5e-6},
                                            {"1.5ms", 1.5e-3}, {"250 ns", 2.5e-7}, {"1e-3s", 1e-3},
                                            {".5s", 0.5},      {"+2min", 120},     {"2.5h", 9000},
                                            {"30d", 2592000},  {"1E3ms", 1}};
BOOST_DATA_TEST_CASE(a_time_is_a_number_and_its_unit, data::make(kWrittenTimes)) {
  BOOST_TEST(parse_seconds(sample.text).value() == sample.value);
}

const std::vector<Written> kWrittenSizes = {{"0", 0},
                                            {"1B", 1},
                                            {"2kB", 2e3},
                                            {"3MB", 3e6},
                                            {"80GB", 80e9},
                                            {"1TB", 1e12},
                                            {"1KiB", 1024},
                                            {"25MiB", 26214400},
                                            {"2GiB", 2147483648.0},
                                            {"1TiB", 1099511627776.0}};
BOOST_DATA_TEST_CASE(a_size_has_powers_of_1000_or_of_1024, data::make(kWrittenSizes)) {
  BOOST_TEST(parse_bytes(sample.text).value() == sample.value);
}

const std::vector<Written> kWrittenRates = {
    {"300GBps", 300e9}, {"300GB/s", 300e9},    {"25Gbps", 3.125e9},      {"25Gbit/s", 3.125e9},
    {"8bps", 1},        {"100Mbit/s", 12.5e6}, {"1GiB/s", 1073741824.0}, {"0Gbps", 0}};
BOOST_DATA_TEST_CASE(a_rate_counts_bits_with_b_and_bytes_with_B, data::make(kWrittenRates)) {
  BOOST_TEST(parse_bytes_per_second(sample.text).value() == sample.value);
}

BOOST_AUTO_TEST_CASE(work_and_its_rate_have_decimal_prefixes) {
  BOOST_TEST(parse_flops("4.5GFLOP").value() == 4.5e9);
  BOOST_TEST(parse_flops("1kFLOP").value() == 1e3);
  BOOST_TEST(parse_flops_per_second("19.5TFLOPs").value() == 19.5e12);
  BOOST_TEST(parse_flops_per_second("19.5TFLOP/s").value() == 19.5e12);
}

const std::string kTime = "expected a time with its unit, such as \"5us\" or \"1.5ms\"; got ";
const std::string kTimeUnits = " (units: ns, us, ms, s, min, h, d)";
const std::vector<Rejected> kBadTimes = {{"5", kTime + "\"5\""},
                                         {"", kTime + "\"\""},
                                         {"us", kTime + "\"us\""},
                                         {"5sec", kTime + "\"5sec\"" + kTimeUnits},
                                         {"5US", kTime + "\"5US\"" + kTimeUnits},
                                         {"5us ", kTime + "\"5us \"" + kTimeUnits},
                                         {"1,5ms", kTime + "\"1,5ms\"" + kTimeUnits},
                                         {"5 us 3", kTime + "\"5 us 3\"" + kTimeUnits},
                                         {"05us", kTime + "\"05us\""},
                                         {"0x5us", kTime + "\"0x5us\""},
                                         {"5.us", kTime + "\"5.us\""},
                                         {"nan s", kTime + "\"nan s\""},
                                         {"inf", kTime + "\"inf\""},
                                         {"--5s", kTime + "\"--5s\""},
                                         {"1e400s", kTime + "\"1e400s\""},
                                         {"1e308h", "\"1e308h\" is too large for a time"},
                                         {"-5us", "expected a time of at least 0; got \"-5us\""}};
BOOST_DATA_TEST_CASE(a_time_that_is_none_says_what_was_expected, data::make(kBadTimes)) {
  BOOST_TEST(rejection([&] { parse_seconds(sample.text); }) == sample.message);
}

BOOST_AUTO_TEST_CASE(every_quantity_says_how_it_is_written) {
  BOOST_TEST(rejection([] { parse_bytes("25"); }) ==
             "expected a size with its unit, such as \"25MiB\" or \"80GB\"; got \"25\"");
  BOOST_TEST(rejection([] { parse_bytes("25MiBps"); }) ==
             "expected a size with its unit, such as \"25MiB\" or \"80GB\"; got \"25MiBps\" "
             "(units: B, kB, MB, GB, TB, KiB, MiB, GiB, TiB)");
  BOOST_TEST(rejection([] { parse_bytes("-1GB"); }) ==
             "expected a size of at least 0; got \"-1GB\"");
  BOOST_TEST(rejection([] { parse_bytes_per_second("0"); }) ==
             "expected a data rate with its unit, such as \"25Gbps\" or \"300GBps\"; got \"0\"");
  BOOST_TEST(rejection([] { parse_bytes_per_second("-1GBps"); }) ==
             "expected a data rate of at least 0; got \"-1GBps\"");
  BOOST_TEST(
      rejection([] { parse_flops("4"); }) ==
      "expected an amount of work with its unit, such as \"4.1GFLOP\" or \"2TFLOP\"; got \"4\"");
  BOOST_TEST(rejection([] { parse_flops_per_second("19.5"); }) ==
             "expected an arithmetic rate with its unit, such as \"19.5TFLOPs\" or \"312TFLOP/s\"; "
             "got \"19.5\"");
}

BOOST_DATA_TEST_CASE(what_a_time_shows_reads_back_within_its_three_digits,
                     data::make({1.234e-9, 5.678e-7, 9.994e-4, 0.1299, 12.345, 59.94})) {
  const Seconds time(sample);
  BOOST_TEST(parse_seconds(format(time)).value() == time.value(),
             boost::test_tools::tolerance(5e-3));
}

BOOST_DATA_TEST_CASE(what_a_size_shows_reads_back_within_its_three_digits,
                     data::make({1.0, 1023.0, 1536.0, 26214400.0, 8e10, 5e13})) {
  const Bytes size(sample);
  BOOST_TEST(parse_bytes(format(size)).value() == size.value(), boost::test_tools::tolerance(5e-3));
}

BOOST_AUTO_TEST_CASE(quantities_of_different_kinds_divide_into_the_third) {
  BOOST_TEST((Bytes(100) / BytesPerSecond(50)).value() == 2);
  BOOST_TEST((Bytes(100) / Seconds(4)).value() == 25);
  BOOST_TEST((BytesPerSecond(25) * Seconds(4)).value() == 100);
  BOOST_TEST((Flops(6) / FlopsPerSecond(3)).value() == 2);
  BOOST_TEST((Flops(6) / Seconds(3)).value() == 2);
  BOOST_TEST((Seconds(6) / Seconds(3)) == 2);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
