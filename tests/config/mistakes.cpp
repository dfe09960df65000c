#include "config/mistakes.hpp"

#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <csignal>
#include <cstdlib>
#include <string>

#include "config/document.hpp"
#include "error_of.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(mistakes_test)
namespace {

/// A toy: a count, a rate, and a part whose last line rests on all of it.
void read_toy(const std::string& text) {
  const auto document = Document::parse(text, "f.yaml");
  Map root = document->root().as_map();
  const Value part = root.require("part");
  read_part([&] {
    Map map = part.as_map();
    const std::int64_t count = map.require("count").as_integer(1, 8);
    map.require("rate").as_bytes_per_second();
    map.finish();
    if (count == 5) part.fail("five will not do");
  });
  read_part([&] { root.require("choice").as_choice({"ddp", "fsdp"}); });
  root.finish();
}

std::string all_mistakes(const std::string& text) {
  return error_of([&] { read_with_all_mistakes([&] { read_toy(text); }); });
}

BOOST_AUTO_TEST_CASE(without_a_mistake_nothing_is_thrown) {
  BOOST_TEST(all_mistakes("part: {count: 1, rate: 1GBps}\nchoice: ddp\n") == "nothing was thrown");
}

BOOST_AUTO_TEST_CASE(one_mistake_is_said_as_ever) {
  for (const char* text :
       {"part: {count: 9, rate: 1GBps}\nchoice: ddp\n",
        "part: {count: 5, rate: 1GBps}\nchoice: ddp\n", "part: {count: 1, rate: 1GBps}\n",
        "part: {cuont: 1, rate: 1GBps}\nchoice: ddp\n",
        "part: {count: 1, rate: 1GBps}\nchoice: ddp\nmore: 1\n", "part: 1\nchoice: ddp\n"}) {
    BOOST_TEST(all_mistakes(text) == error_of([&] { read_toy(text); }));
  }
}

BOOST_AUTO_TEST_CASE(all_mistakes_are_said_in_the_order_of_the_file) {
  BOOST_TEST(
      all_mistakes("choice: dpd\npart: {count: x, rate: 10gbps, size: 1}\n") ==
      "f.yaml:1:9: error: choice: expected one of ddp, fsdp; got \"dpd\"\n"
      "choice: dpd\n        ^\nremedy: did you mean \"ddp\"?\n\n"
      "f.yaml:2:15: error: part.count: expected a whole number from 1 to 8; got \"x\"\n"
      "part: {count: x, rate: 10gbps, size: 1}\n              ^\n\n"
      "f.yaml:2:24: error: part.rate: expected a data rate with its unit, such as "
      "\"25Gbps\" or \"300GBps\"; got \"10gbps\" (units: Bps, kBps, MBps, GBps, TBps, "
      "KiBps, MiBps, GiBps, TiBps, B/s, kB/s, MB/s, GB/s, TB/s, KiB/s, MiB/s, GiB/s, TiB/s, bps, "
      "kbps, Mbps, Gbps, Tbps, bit/s, kbit/s, Mbit/s, Gbit/s, Tbit/s)\n"
      "part: {count: x, rate: 10gbps, size: 1}\n                       ^\n"
      "remedy: did you mean \"10Gbps\"?\n\n"
      "f.yaml:2:32: error: part.size: unknown key; known keys here: count, rate\n"
      "part: {count: x, rate: 10gbps, size: 1}\n                               ^\n\n"
      "4 mistakes");
}

BOOST_AUTO_TEST_CASE(what_may_only_follow_from_a_mistake_is_left_out) {
  const std::string text = all_mistakes("part: {count: 5, rate: 1}\nchoice: ddp\n");
  BOOST_TEST(text.find("part.rate: expected a data rate") != std::string::npos, text);
  BOOST_TEST(text.find("five will not do") == std::string::npos, text);
  BOOST_TEST(all_mistakes("part: []\nchoice: ddp\n") ==
             "f.yaml:1:7: error: part: expected a map; got a list\npart: []\n      ^");
}

BOOST_AUTO_TEST_CASE(a_misspelt_key_that_is_needed_is_read_and_said_once) {
  const std::string text = all_mistakes("part: {cuont: 9, rate: 1GBps}\nchoice: ddp\n");
  BOOST_TEST(text.find("is \"cuont\" meant to be \"count\"?") != std::string::npos, text);
  BOOST_TEST(text.find("part.cuont: expected a whole number") != std::string::npos, text);
  BOOST_TEST(text.find("unknown key") == std::string::npos, text);
}

// It begins after a mistake, where the first reading had ended.
BOOST_AUTO_TEST_CASE(a_second_reading_that_dies_leaves_the_first_message) {
  const auto read = [](void (*dies)()) {
    read_part([] { throw InputError("first"); });
    dies();
  };
  // Boost.Test catches signals.
  for (const int number : {SIGABRT, SIGSEGV, SIGFPE}) std::signal(number, SIG_DFL);
  for (const auto dies : {+[] { std::abort(); }, +[] { std::raise(SIGSEGV); }, +[] { _exit(0); }}) {
    const std::string text = error_of([&] { read_with_all_mistakes([&] { read(dies); }); });
    BOOST_TEST(text.starts_with("first"), text);
  }
  const std::string text =
      error_of([&] { read_with_all_mistakes([&] { read(+[] { std::raise(SIGFPE); }); }); });
  BOOST_TEST(text.starts_with("first\n\nnote: no further mistakes could be looked for: internal "
                              "error: a child process died of signal 8"),
             text);
}

BOOST_AUTO_TEST_CASE(parts_with_a_mistake_are_not_checked_against_each_other) {
  Mistakes all;
  const bool sound = read_part([] { throw InputError("wrong"); });
  BOOST_TEST(!check_parts(sound, [] { BOOST_ERROR("it is checked"); }));
  BOOST_TEST(check_parts(true, [] {}));
  BOOST_TEST(!check_parts(true, [] { throw InputError("they differ"); }));
  BOOST_TEST(all.count() == 2U);
}

BOOST_AUTO_TEST_CASE(the_first_mistake_is_enough_for_who_says_so) {
  const FirstMistake only;
  BOOST_TEST(all_mistakes("part: {count: x, rate: 10gbps}\nchoice: dpd\n") ==
             error_of([&] { read_toy("part: {count: x, rate: 10gbps}\nchoice: dpd\n"); }));
}

BOOST_AUTO_TEST_CASE(a_part_in_doubt_is_read_but_what_ends_it_is_left_out) {
  Mistakes all;
  BOOST_TEST(!read_part([] { throw InputError("it follows"); }, false));
  BOOST_TEST(all.count() == 0U);
  BOOST_TEST(!read_part([] { throw InputError("it is wrong"); }));
  BOOST_TEST(all.text() == "it is wrong");
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
