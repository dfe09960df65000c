#include "rollout/batcher.hpp"

#include <boost/test/unit_test.hpp>
#include <chrono>

#include "rollout/lengths.hpp"
#include "rollout/serving.hpp"

namespace rehearse {
namespace {

BOOST_AUTO_TEST_SUITE(batcher)

constexpr double kAmple = 1e9;

std::vector<Request> drawn(std::size_t prompts, std::size_t generations, double response) {
  const auto prompt = draw({200, 50, 0}, prompts, 1, "prompts", 0);
  const auto all = draw({response, 0.7 * response, 4096}, prompts * generations, 1, "responses", 0);
  std::vector<Request> requests;
  for (std::size_t i = 0; i < all.size(); ++i)
    requests.push_back({prompt[i / generations], all[i], i / generations});
  return requests;
}

BOOST_AUTO_TEST_CASE(one_sequence_takes_its_steps) {
  const DecodeModel model = served_llama();
  Batcher batcher(model, kAmple, 8);
  batcher.add({.prompt = 100, .response = 51, .group = 0});
  const auto ended = batcher.advance();
  BOOST_TEST_REQUIRE(ended.size() == 1U);
  // Contexts from 100 to 150 tokens, whose mean step is that of 125.
  const double expected =
      (51 * model.step(1, 125).total() + model.step(0, 100, 100, 100).total()).value();
  BOOST_TEST(ended[0].at.value() == expected, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(batcher.idle());
}

BOOST_AUTO_TEST_CASE(every_token_is_made_once_and_prompts_once_a_group) {
  const DecodeModel model = served_llama();
  const std::vector<Request> requests = drawn(16, 8, 500);
  double responses = 0, prompts = 0;
  for (const Request& one : requests) responses += one.response;
  for (std::size_t i = 0; i < requests.size(); i += 8) prompts += requests[i].prompt;
  const Generated all = generate(model, requests, 1, kAmple, 1024);
  BOOST_TEST(all.counts.generated == responses, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(all.counts.computed == prompts, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(all.counts.preemptions == 0U);
}

BOOST_AUTO_TEST_CASE(a_small_cache_preempts_and_loses_no_token) {
  const DecodeModel model = served_llama();
  const std::vector<Request> requests = drawn(8, 8, 1000);
  double responses = 0;
  for (const Request& one : requests) responses += one.response;
  const Generated ample = generate(model, requests, 1, kAmple, 64);
  const Generated tight = generate(model, requests, 1, 12'000, 64);
  BOOST_TEST(tight.counts.preemptions > 0U);
  BOOST_TEST(tight.counts.generated == responses, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(tight.counts.computed > ample.counts.computed);
  BOOST_TEST(tight.counts.most_cache <= 12'000);
  BOOST_TEST(tight.time.value() > ample.time.value());
}

BOOST_AUTO_TEST_CASE(the_longest_response_is_a_floor) {
  const DecodeModel model = served_llama();
  std::vector<Request> requests(32, {.prompt = 100, .response = 100, .group = 0});
  requests.back().response = 4000;
  const Generated all = generate(model, requests, 1, kAmple, 64);
  BOOST_TEST(all.time.value() > 4000 * model.step(1, 100).total().value());
  // More copies leave it as long.
  const Generated four = generate(model, requests, 4, kAmple, 64);
  BOOST_TEST(four.time.value() > 0.9 * all.time.value());
}

BOOST_AUTO_TEST_CASE(thousands_of_responses_are_played_in_a_moment) {
  const DecodeModel model = served_llama();
  const auto begin = std::chrono::steady_clock::now();
  const Generated all = generate(model, drawn(64, 32, 1060), 16, kAmple, 256);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  BOOST_TEST_MESSAGE("2,048 responses: " << took.count() << " s for " << all.time.value() << " s");
  BOOST_TEST(took.count() < 0.5);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace rehearse
