// platforms/frameworks: what each file says.
#include <boost/test/unit_test.hpp>

#include "base/error.hpp"
#include "framework/framework.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(framework_data)
namespace {

Framework framework(const std::string& text) {
  const auto document = Document::parse("{framework: " + text + "}", "test.yaml");
  Map root = document->root().as_map();
  return read_framework(root, std::nullopt);
}

std::string usual(const std::string& strategy) {
  return Framework::of_strategy(Document::parse(strategy, "test.yaml")->root()).name();
}

BOOST_AUTO_TEST_CASE(the_strategys_words_say_whose_it_is_where_nobody_does) {
  BOOST_TEST(usual("{ddp: {}}") == "torch");
  BOOST_TEST(usual("{ddp: {}, tensor_parallel: 1, context_parallel: {degree: 1}}") == "torch");
  BOOST_TEST(usual("{ddp: {}, tensor_parallel: 2}") == "megatron");
  BOOST_TEST(usual("{zero: {stage: 1}, context_parallel: {degree: 2}}") == "megatron");
  BOOST_TEST(usual("{zero: {stage: 1}, expert_parallel: 8}") == "megatron");
  BOOST_TEST(usual("{fsdp2: {}, tensor_parallel: 2}") == "torch");
  BOOST_TEST(usual("{zero: {stage: 2}}") == "deepspeed");
  BOOST_TEST(usual("{zero: {stage: 3}, tensor_parallel: 1}") == "deepspeed");
}

BOOST_AUTO_TEST_CASE(the_line_names_the_other_ones_key) {
  const auto line = [](const std::string& strategy) {
    return Framework::of_strategy(Document::parse(strategy, "t")->root()).choice().line;
  };
  BOOST_TEST(line("{ddp: {}}").find("`framework: megatron`") != std::string::npos);
  BOOST_TEST(line("{ddp: {}, tensor_parallel: 2}").find("`framework: torch`") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_version_changes_what_changed_in_it) {
  BOOST_TEST(framework("deepspeed").number("optimizer.clip_grad") == 0);
  BOOST_TEST(framework("{deepspeed: v0.19.2}").number("optimizer.clip_grad") == 0);
  BOOST_TEST(framework("{deepspeed: v0.19.3}").number("optimizer.clip_grad") == 1);
  BOOST_TEST(framework("{torch: \"2.4\"}").word("model.experts_implementation") == "sequential");
  BOOST_TEST(framework("{torch: \"2.13\"}").word("model.experts_implementation") == "grouped_mm");
}

BOOST_AUTO_TEST_CASE(each_says_what_a_reader_asks_of_any) {
  for (const std::string& name : framework_names())
    for (const char* key :
         {"model.compile", "model.experts_implementation", "optimizer.clip_grad", "optimizer.fused",
          "run.data_loading.num_workers", "strategy.context_parallel.method",
          "strategy.expert_tensor_parallel", "strategy.sequence_parallel",
          "strategy.async_tensor_model_parallel_allreduce", "pipeline.runtime"})
      BOOST_CHECK_MESSAGE(framework(name).find(key).has_value(), name << " lacks " << key);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
