#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <functional>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "config/document.hpp"
#include "error_of.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(value_test)
namespace {

namespace data = boost::unit_test::data;

constexpr auto kLowest = std::numeric_limits<std::int64_t>::min();
constexpr auto kHighest = std::numeric_limits<std::int64_t>::max();

/// The value of `x` in the file "f.yaml" whose one line is `x: text`.
Value value_of(const std::string& text) {
  return Document::parse("x: " + text, "f.yaml")->root().as_map().require("x");
}

/// A text that a reader does not take, the message behind the path and the remedy.
struct Rejected {
  std::function<void(const Value&)> read;
  std::string text;
  std::string message;
  std::string remedy;
};
std::ostream& operator<<(std::ostream& out, const Rejected& item) {
  return out << item.text << ": " << item.message;
}

void number(const Value& value) { value.as_number(); }
void positive(const Value& value) { value.as_positive_number(); }
void non_negative(const Value& value) { value.as_non_negative_number(); }
void up_to_8(const Value& value) { value.as_integer(1, 8); }
void from_1(const Value& value) { value.as_integer(1, kHighest); }
void up_to_minus_1(const Value& value) { value.as_integer(kLowest, -1); }
void integer(const Value& value) { value.as_integer(kLowest, kHighest); }
void boolean(const Value& value) { value.as_bool(); }
void text(const Value& value) { value.as_string(); }
void map(const Value& value) { value.as_map(); }
void list(const Value& value) { value.as_list(); }
void seconds(const Value& value) { value.as_seconds(); }
void bytes(const Value& value) { value.as_bytes(); }
void rate(const Value& value) { value.as_bytes_per_second(); }
void arithmetic(const Value& value) { value.as_flops_per_second(); }
void sharding(const Value& value) { value.as_choice({"full_shard", "shard_grad_op", "no_shard"}); }

const std::string kSharding = "expected one of full_shard, shard_grad_op, no_shard; got ";
const std::string kNoZeros = "write it without leading zeros";
const std::string kFinite = "numbers must be finite";

const std::vector<Rejected> kRejected = {
    {number, "big", "expected a number; got \"big\"", ""},
    {number, "", "expected a number; got nothing", ""},
    {number, "~", "expected a number; got nothing", ""},
    {number, "{}", "expected a number; got a map", ""},
    {number, "[1]", "expected a number; got a list", ""},
    {number, "\"8\"", "expected a number; got the text \"8\"", "write it without quotes: 8"},
    {number, "'big'", "expected a number; got the text \"big\"", ""},
    {number, "010", "expected a number; got \"010\"", kNoZeros},
    {number, "-00.5", "expected a number; got \"-00.5\"", kNoZeros},
    {number, "0x10", "expected a number; got \"0x10\"", "write it as a decimal number"},
    {number, "0o10", "expected a number; got \"0o10\"", "write it as a decimal number"},
    {number, "1_000", "expected a number; got \"1_000\"", "write it without underscores"},
    {number, ".nan", "expected a number; got \".nan\"", kFinite},
    {number, "-.inf", "expected a number; got \"-.inf\"", kFinite},
    {number, "inf", "expected a number; got \"inf\"", kFinite},
    {number, "1e400", "expected a number; got \"1e400\"",
     "numbers must be at most 1.8e308 and written like 1.5e3"},
    {number, "5.", "expected a number; got \"5.\"", ""},
    {number, "+", "expected a number; got \"+\"", ""},
    {number, "25MiB", "expected a number; got \"25MiB\"", ""},
    {positive, "big", "expected a positive number; got \"big\"", ""},
    {positive, "0", "expected a positive number; got \"0\"", ""},
    {positive, "-1", "expected a positive number; got \"-1\"", ""},
    {non_negative, "-1e-9", "expected a number of at least 0; got \"-1e-9\"", ""},
    {up_to_8, "9", "expected a whole number from 1 to 8; got \"9\"", ""},
    {up_to_8, "0", "expected a whole number from 1 to 8; got \"0\"", ""},
    {up_to_8, "2.0", "expected a whole number from 1 to 8; got \"2.0\"", "write 2"},
    {up_to_8, "1e0", "expected a whole number from 1 to 8; got \"1e0\"", "write 1"},
    {up_to_8, "010", "expected a whole number from 1 to 8; got \"010\"", kNoZeros},
    {up_to_8, "\"4\"", "expected a whole number from 1 to 8; got the text \"4\"",
     "write it without quotes: 4"},
    {up_to_8, "99999999999999999999",
     "expected a whole number from 1 to 8; got \"99999999999999999999\"", ""},
    {from_1, "0", "expected a whole number of at least 1; got \"0\"", ""},
    {up_to_minus_1, "0", "expected a whole number of at most -1; got \"0\"", ""},
    {integer, "many", "expected a whole number; got \"many\"", ""},
    {boolean, "yes", "expected true or false; got \"yes\"", ""},
    {boolean, "True", "expected true or false; got \"True\"", ""},
    {boolean, "1", "expected true or false; got \"1\"", ""},
    {boolean, "\"true\"", "expected true or false; got the text \"true\"",
     "write it without quotes: true"},
    {text, "", "expected a text; got nothing", ""},
    {text, "{}", "expected a text; got a map", ""},
    {map, "5", "expected a map; got \"5\"", ""},
    {map, "", "expected a map; got nothing", "give it keys, or write {} where it needs none"},
    {map, "nodes:4", "expected a map; got \"nodes:4\"", "put a space after the colon"},
    {map, "[1]", "expected a map; got a list", ""},
    {list, "5", "expected a list; got \"5\"", "write [5]"},
    {list, "null", "expected a list; got nothing", "write [] for an empty list"},
    {seconds, "5", "expected a time with its unit, such as \"5us\" or \"1.5ms\"; got \"5\"", ""},
    {seconds, "", "expected a time with its unit, such as \"5us\" or \"1.5ms\"; got nothing", ""},
    {seconds, "-5us", "expected a time of at least 0; got \"-5us\"", ""},
    {bytes, "25", "expected a size with its unit, such as \"25MiB\" or \"80GB\"; got \"25\"", ""},
    {bytes, "[]", "expected a size with its unit, such as \"25MiB\" or \"80GB\"; got a list", ""},
    {rate, "25",
     "expected a data rate with its unit, such as \"25Gbps\" or \"300GBps\"; got \"25\"", ""},
    {rate, "0Gbps", "expected a data rate above 0; got \"0Gbps\"", ""},
    {rate, "{}", "expected a data rate with its unit, such as \"25Gbps\" or \"300GBps\"; got a map",
     ""},
    {arithmetic, "19",
     "expected an arithmetic rate with its unit, such as \"19.5TFLOPs\" or \"312TFLOP/s\"; got "
     "\"19\"",
     ""},
    {arithmetic, "0FLOPs", "expected an arithmetic rate above 0; got \"0FLOPs\"", ""},
    {sharding, "ful_shard", kSharding + "\"ful_shard\"", "did you mean \"full_shard\"?"},
    {sharding, "zebra", kSharding + "\"zebra\"", ""},
    {sharding, "[]", kSharding + "a list", ""},
};

BOOST_DATA_TEST_CASE(a_reader_that_is_given_something_else_says_what_it_expected,
                     data::make(kRejected)) {
  // An empty value has no place of its own: the error stands at its key.
  const bool at_key = sample.text.empty();
  const std::string expected = std::string("f.yaml:1:") + (at_key ? "1" : "4") +
                               ": error: x: " + sample.message + "\nx: " + sample.text + "\n" +
                               (at_key ? "^" : "   ^") +
                               (sample.remedy.empty() ? "" : "\nremedy: " + sample.remedy);
  BOOST_TEST(error_of([&] { sample.read(value_of(sample.text)); }) == expected);
}

BOOST_AUTO_TEST_CASE(the_example_of_the_design_reads_exactly_like_that) {
  const std::string lines = "# a scenario\nstrategy:\n  bucket_cap_mb: big\n";
  Map strategy =
      Document::parse(lines, "scenarios/ddp.yaml")->root().as_map().require("strategy").as_map();
  BOOST_TEST(error_of([&] { strategy.require("bucket_cap_mb").as_positive_number(); }) ==
             "scenarios/ddp.yaml:3:18: error: strategy.bucket_cap_mb: expected a positive number; "
             "got \"big\"\n"
             "  bucket_cap_mb: big\n"
             "                 ^");
}

BOOST_AUTO_TEST_CASE(a_long_text_is_shortened_in_a_message) {
  const std::string message = error_of([] { value_of(std::string(70, 'a')).as_number(); });
  BOOST_TEST(message.starts_with("f.yaml:1:4: error: x: expected a number; got \"" +
                                 std::string(60, 'a') + "...\"\n"));
}

BOOST_AUTO_TEST_CASE(values_read_as_what_they_are) {
  BOOST_TEST(value_of("-2.5e-3").as_number() == -2.5e-3);
  BOOST_TEST(value_of("+3").as_number() == 3);
  BOOST_TEST(value_of("0").as_number() == 0);
  BOOST_TEST(value_of(".5").as_positive_number() == 0.5);
  BOOST_TEST(value_of("0").as_non_negative_number() == 0);
  BOOST_TEST(value_of("8").as_integer(1, 8) == 8);
  BOOST_TEST(value_of("+1").as_integer(1, 8) == 1);
  BOOST_TEST(value_of("-9223372036854775808").as_integer(kLowest, kHighest) == kLowest);
  BOOST_TEST(value_of("true").as_bool());
  BOOST_TEST(!value_of("false").as_bool());
  BOOST_TEST(value_of("8").as_string() == "8");
  BOOST_TEST(value_of("\"null\"").as_string() == "null");
  BOOST_TEST(value_of("''").as_string().empty());
  BOOST_TEST(value_of("5us").as_seconds().value() == 5e-6);
  BOOST_TEST(value_of("\"5 us\"").as_seconds().value() == 5e-6);
  BOOST_TEST(value_of("25MiB").as_bytes().value() == 25.0 * 1048576);
  BOOST_TEST(value_of("8Gbps").as_bytes_per_second().value() == 1e9);
  BOOST_TEST(value_of("1TFLOPs").as_flops_per_second().value() == 1e12);
  BOOST_TEST(value_of("b").as_choice({"a", "b"}) == "b");
}

BOOST_AUTO_TEST_CASE(values_know_their_kind_and_show_it) {
  BOOST_TEST(value_of("{}").is_map());
  BOOST_TEST(value_of("[]").is_list());
  BOOST_TEST(value_of("5").is_scalar());
  BOOST_TEST(value_of("~").is_null());
  BOOST_TEST(value_of("").is_null());
  BOOST_TEST(!value_of("\"\"").is_null());
  BOOST_TEST(value_of("{}").shown() == "a map");
  BOOST_TEST(value_of("[]").shown() == "a list");
  BOOST_TEST(value_of("5us").shown() == "5us");
}

BOOST_AUTO_TEST_CASE(the_path_of_a_list_item_is_its_index) {
  const auto document =
      Document::parse("units:\n  - {forward: 1ms}\n  - {forward: fast}\n", "f.yaml");
  const auto units = document->root().as_map().require("units").as_list();
  BOOST_REQUIRE(units.size() == 2u);
  const Value forward = units[1].as_map().require("forward");
  BOOST_TEST(forward.path() == "units.1.forward");
  BOOST_TEST(forward.line() == 3);
}

BOOST_AUTO_TEST_CASE(an_error_at_the_root_has_no_path) {
  BOOST_TEST(error_of([] { Document::parse("5", "f.yaml")->root().as_map(); }) ==
             "f.yaml:1:1: error: expected a map; got \"5\"\n5\n^");
}

BOOST_AUTO_TEST_CASE(a_value_outlives_the_handle_of_its_document) {
  const Value value = value_of("5us");
  BOOST_TEST(value.as_seconds().value() == 5e-6);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
