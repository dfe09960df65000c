#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "config/document.hpp"
#include "config/key_places.hpp"
#include "error_of.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(map_test)
namespace {

std::shared_ptr<const Document> document_of(const std::string& text) {
  return Document::parse(text, "f.yaml");
}

BOOST_AUTO_TEST_CASE(a_missing_key_is_an_error_at_the_first_key_of_its_map) {
  Map map = document_of("cluster:\n  fabric: {}\n  speed: 1\n")
                ->root()
                .as_map()
                .require("cluster")
                .as_map();
  BOOST_TEST(error_of([&] { map.require("nodes"); }) ==
             "f.yaml:2:3: error: cluster: the key \"nodes\" is missing\n  fabric: {}\n  ^");
}

BOOST_AUTO_TEST_CASE(a_missing_key_in_an_empty_map_is_an_error_at_the_map) {
  Map map = document_of("cluster: {}\n")->root().as_map().require("cluster").as_map();
  BOOST_TEST(error_of([&] { map.require("nodes"); }) ==
             "f.yaml:1:10: error: cluster: the key \"nodes\" is missing\ncluster: {}\n         ^");
}

BOOST_AUTO_TEST_CASE(a_missing_key_that_is_only_misspelt_is_pointed_out) {
  Map map = document_of("ndoes: 4\n")->root().as_map();
  BOOST_TEST(error_of([&] { map.require("nodes"); }) ==
             "f.yaml:1:1: error: the key \"nodes\" is missing\nndoes: 4\n^\n"
             "remedy: is \"ndoes\" meant to be \"nodes\"?");
}

BOOST_AUTO_TEST_CASE(a_key_that_was_read_is_no_misspelling_of_a_missing_one) {
  Map map = document_of("node: 4\n")->root().as_map();
  map.require("node");
  BOOST_TEST(error_of([&] { map.require("nodes"); }) ==
             "f.yaml:1:1: error: the key \"nodes\" is missing\nnode: 4\n^");
}

BOOST_AUTO_TEST_CASE(a_key_that_files_have_there_is_no_misspelling_of_a_missing_one) {
  set_key_places([](const std::string& key, const std::vector<std::string>&) {
    return std::vector<std::string>{key};
  });
  Map map = document_of("node: 4\n")->root().as_map();
  BOOST_TEST(error_of([&] { map.require("nodes"); }) ==
             "f.yaml:1:1: error: the key \"nodes\" is missing\nnode: 4\n^");
  set_key_places(nullptr);
}

BOOST_AUTO_TEST_CASE(
    a_key_that_nobody_asked_for_is_an_error_at_the_key_with_the_nearest_known_one) {
  Map map = document_of("strategy:\n  ddp: {}\n  bucket_cap: 25\n")
                ->root()
                .as_map()
                .require("strategy")
                .as_map();
  map.require("ddp");
  map.optional("bucket_cap_mb");
  map.optional("accumulate");
  BOOST_TEST(error_of([&] { map.finish(); }) ==
             "f.yaml:3:3: error: strategy.bucket_cap: unknown key; known keys here: accumulate, "
             "bucket_cap_mb, ddp\n"
             "  bucket_cap: 25\n  ^\nremedy: did you mean \"bucket_cap_mb\"?");
}

BOOST_AUTO_TEST_CASE(an_unknown_key_unlike_any_known_one_has_no_remedy) {
  Map map = document_of("{zebra: 1}\n")->root().as_map();
  map.optional("nodes");
  BOOST_TEST(error_of([&] { map.finish(); }) ==
             "f.yaml:1:2: error: zebra: unknown key; known keys here: nodes\n{zebra: 1}\n ^");
}

BOOST_AUTO_TEST_CASE(a_map_without_known_keys_says_so) {
  Map map = document_of("star: {radix: 4}\n")->root().as_map().require("star").as_map();
  BOOST_TEST(error_of([&] { map.finish(); }) ==
             "f.yaml:1:8: error: star.radix: unknown key; no keys are known here\nstar: {radix: "
             "4}\n       ^");
}

BOOST_AUTO_TEST_CASE(looking_whether_a_key_is_there_does_not_count_as_reading_it) {
  Map map = document_of("a: 1\n")->root().as_map();
  BOOST_TEST(map.has("a"));
  BOOST_TEST(!map.has("b"));
  BOOST_CHECK_THROW(map.finish(), InputError);
}

BOOST_AUTO_TEST_CASE(keys_stand_in_the_order_of_the_file) {
  const std::vector<std::string> expected = {"c", "a", "b"};
  BOOST_TEST(document_of("{c: 1, a: 2, b: 3}")->root().as_map().keys() == expected,
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(an_error_about_a_key_stands_at_the_key) {
  Map map = document_of("gpu: a100\nnvlink: 300GBps\n")->root().as_map();
  BOOST_TEST(error_of([&] { map.at_key("nvlink").fail("needs several GPUs"); }) ==
             "f.yaml:2:1: error: nvlink: needs several GPUs\nnvlink: 300GBps\n^");
  BOOST_TEST(map.at_key("none").path().empty());
}

BOOST_AUTO_TEST_CASE(the_defaults_that_were_taken_are_listed_once_in_human_units) {
  const auto document = document_of("cluster: {nodes: 4}\n");
  for (int reading = 0; reading < 2; ++reading) {
    Map root = document->root().as_map();
    Map cluster = root.require("cluster").as_map();
    cluster.integer_or("nodes", 1, 1, 8);
    cluster.seconds_or("nic_latency", Seconds(5e-6));
    cluster.bytes_or("memory", Bytes(16.0 * 1073741824));
    cluster.bytes_per_second_or("nic", BytesPerSecond(12.5e9));
    root.integer_or("seed", 1, 0, 100);
    root.number_or("speed", 0.5);
    root.positive_number_or("bucket_cap_mb", 25);
    root.non_negative_number_or("jitter", 0);
    root.bool_or("prefetch", true);
    root.string_or("note", "");
    root.choice_or("fidelity", "auto", {"auto", "hop"});
  }
  const std::vector<std::string> expected = {"cluster.nic_latency = 5.00 us",
                                             "cluster.memory = 16.0 GiB",
                                             "cluster.nic = 12.5 GB/s",
                                             "seed = 1",
                                             "speed = 0.5",
                                             "bucket_cap_mb = 25",
                                             "jitter = 0",
                                             "prefetch = true",
                                             "note = \"\"",
                                             "fidelity = auto"};
  BOOST_TEST(document->defaults_taken() == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_key_that_is_there_is_read_and_leaves_no_default) {
  const auto document = document_of(
      "{s: 1ms, b: 1KiB, r: 8Gbps, i: 7, n: -1.5, p: 2, z: 0, t: false, x: note, c: hop}");
  Map map = document->root().as_map();
  BOOST_TEST(map.seconds_or("s", Seconds(0)).value() == 1e-3);
  BOOST_TEST(map.bytes_or("b", Bytes(0)).value() == 1024);
  BOOST_TEST(map.bytes_per_second_or("r", BytesPerSecond(0)).value() == 1e9);
  BOOST_TEST(map.integer_or("i", 1, 0, 10) == 7);
  BOOST_TEST(map.number_or("n", 0) == -1.5);
  BOOST_TEST(map.positive_number_or("p", 1) == 2);
  BOOST_TEST(map.non_negative_number_or("z", 1) == 0);
  BOOST_TEST(!map.bool_or("t", true));
  BOOST_TEST(map.string_or("x", "") == "note");
  BOOST_TEST(map.choice_or("c", "auto", {"auto", "hop"}) == "hop");
  BOOST_CHECK_NO_THROW(map.finish());
  BOOST_TEST(document->defaults_taken().empty());
}

BOOST_AUTO_TEST_CASE(a_key_without_a_value_does_not_take_the_default) {
  Map map = document_of("seed:\nsteps: 5\n")->root().as_map();
  BOOST_TEST(error_of([&] { map.integer_or("seed", 1, 0, 9); }) ==
             "f.yaml:1:1: error: seed: expected a whole number from 0 to 9; got nothing\nseed:\n^");
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
