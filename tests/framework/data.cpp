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
  BOOST_TEST(framework("{horovod: v0.20.3}").word("strategy.ddp.cycle_time") == "5ms");
  BOOST_TEST(framework("{horovod: v0.21.0}").word("strategy.ddp.cycle_time") == "1ms");
  BOOST_TEST(framework("{horovod: v0.21.0}").number("strategy.ddp.bucket_cap_mb") == 128);
  BOOST_TEST(framework("{torch: \"1.4\"}").word("cluster.nccl.version") == "2.4.2");
  BOOST_TEST(framework("{torch: \"1.4\"}").word("strategy.ddp.per_collective") == "200us");
  BOOST_TEST(framework("torch").word("strategy.ddp.per_collective") == "0s");
}

// `like`: ByteScheduler's own, Horovod's, and PyTorch's.
BOOST_AUTO_TEST_CASE(what_one_does_not_say_is_anothers) {
  const Framework one = framework("bytescheduler");
  BOOST_TEST(one.word("strategy.ps.scheduling") == "priority");
  BOOST_TEST(one.number("strategy.ddp.bucket_cap_mb") == 128);
  BOOST_TEST(one.word("strategy.ps.protocol") == "own_request");
  BOOST_TEST(one.title() == "ByteScheduler");
  BOOST_TEST(one.choice().version == "v0.1.0");
}

// Horovod has no server, and ByteScheduler on it does.
BOOST_AUTO_TEST_CASE(what_another_lacks_one_may_have) {
  const auto document = Document::parse("{strategy: {ps: {}}}", "test.yaml");
  const Map root = document->root().as_map();
  BOOST_TEST(!framework("horovod").broken_rule(root).empty());
  BOOST_TEST(framework("bytescheduler").broken_rule(root).empty());
  BOOST_TEST(framework("mxnet").broken_rule(root).empty());
}

BOOST_AUTO_TEST_CASE(a_patch_or_a_build_of_a_known_release_is_known) {
  const std::vector<std::string> known = {
      "{torch: \"2.13.0\"}",
      "{torch: \"2.13.1\"}",
      "{torch: 2.13.0+cu128}",
      "{torch: 2.10rc1}",
      "{torch: v2.4}",
      "{torch: \"2.13.1.post1\"}",
      "{deepspeed: v0.19.99}",
      "{megatron: core_v0.19.7}",
      "{megatron: 0.14.0rc5}",
      "{torchtitan: v0.2.9+git1}",
      "{deepspeed: 0.19.3+cu130}",
  };
  for (const std::string& one : known) BOOST_CHECK_NO_THROW(framework(one));
  // A build's number is none of the release's: clip_grad is 1 from v0.19.3 on.
  BOOST_TEST(framework("{deepspeed: 0.19+cu130}").number("optimizer.clip_grad") == 0);
  BOOST_TEST(framework("{deepspeed: v0.19.99}").number("optimizer.clip_grad") == 1);
  for (const char* other : {"{torch: \"2.14\"}", "{torch: 2.14.0.dev20261101}", "{torch: 0.4.1}",
                            "{deepspeed: v0.20.0}", "{torchtitan: v0.3.0}", "{torch: cu128}"})
    BOOST_CHECK_THROW(framework(other), InputError);
}

BOOST_AUTO_TEST_CASE(each_says_what_a_reader_asks_of_any) {
  for (const std::string& name : framework_names())
    for (const char* key :
         {"model.compile", "model.experts_implementation", "optimizer.clip_grad", "optimizer.fused",
          "run.data_loading.num_workers", "strategy.context_parallel.method",
          "strategy.expert_tensor_parallel", "strategy.sequence_parallel",
          "strategy.async_tensor_model_parallel_allreduce", "strategy.avoid_record_streams",
          "pipeline.runtime", "tensor_parallel.dtensor", "activation_checkpointing.early_stop"})
      BOOST_CHECK_MESSAGE(framework(name).find(key).has_value(), name << " lacks " << key);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
