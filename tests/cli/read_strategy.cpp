#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <string>

#include "base/error.hpp"
#include "strategy/strategy.hpp"

namespace rehearse {
namespace {

Strategy read_usual(const Document& document) {
  Framework framework = Framework::of_strategy(document.root());
  return read_strategy(document.root(), framework);
}

Strategy read(const std::string& text) { return read_usual(*Document::parse(text, "test.yaml")); }

template <class Kind>
Kind options_of(const Strategy& strategy) {
  return std::get<Kind>(strategy.sync);
}

std::string message_of(const std::string& text) {
  try {
    read(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

BOOST_AUTO_TEST_CASE(ddp_without_options_has_pytorch_s_defaults) {
  const auto ddp = options_of<TorchDdp>(read("ddp: {}"));
  BOOST_TEST(ddp.bucket_cap_mb == 25);
  BOOST_TEST(ddp.first_bucket_mb == 1);
  BOOST_TEST(!ddp.gradient_as_bucket_view);
  BOOST_TEST(!ddp.static_graph);
  BOOST_TEST((ddp.compression == TorchDdp::Compression::none));
  BOOST_TEST(ddp.gradient_accumulation == 1);
  BOOST_TEST((ddp.algorithm == CollectiveAlgorithm::automatic));
}

BOOST_AUTO_TEST_CASE(every_option_of_ddp_arrives) {
  const auto ddp = options_of<TorchDdp>(
      read("ddp: {bucket_cap_mb: 50, first_bucket_mb: 0.5, gradient_as_bucket_view: true, "
           "static_graph: true, compression: bf16, gradient_accumulation: 4, algorithm: tree}"));
  BOOST_TEST(ddp.bucket_cap_mb == 50);
  BOOST_TEST(ddp.first_bucket_mb == 0.5);
  BOOST_TEST(ddp.gradient_as_bucket_view);
  BOOST_TEST(ddp.static_graph);
  BOOST_TEST((ddp.compression == TorchDdp::Compression::bf16));
  BOOST_TEST(ddp.gradient_accumulation == 4);
  BOOST_TEST((ddp.algorithm == CollectiveAlgorithm::tree));
}

BOOST_AUTO_TEST_CASE(fsdp_without_options_has_pytorch_s_defaults) {
  const auto fsdp = options_of<TorchFsdp1>(read("fsdp: {}"));
  BOOST_TEST((fsdp.sharding == TorchFsdp1::Sharding::full_shard));
  BOOST_TEST((fsdp.backward_prefetch == TorchFsdp1::Prefetch::backward_pre));
  BOOST_TEST(!fsdp.forward_prefetch);
  BOOST_TEST(fsdp.limit_all_gathers);
  BOOST_TEST((fsdp.wrap == TorchFsdp1::Wrap::blocks));
  BOOST_TEST(!fsdp.param_dtype.has_value());
  BOOST_TEST(!fsdp.cpu_offload);
}

BOOST_AUTO_TEST_CASE(every_option_of_fsdp_arrives) {
  const auto fsdp = options_of<TorchFsdp1>(
      read("fsdp: {sharding: hybrid_shard, shard_group: 8, backward_prefetch: backward_post, "
           "forward_prefetch: true, limit_all_gathers: false, wrap: {min_num_params: 1000}, "
           "param_dtype: bf16, reduce_dtype: fp32, buffer_dtype: bf16, cpu_offload: true, "
           "gradient_accumulation: 2, "
           "algorithm: hierarchical}"));
  BOOST_TEST((fsdp.sharding == TorchFsdp1::Sharding::hybrid_shard));
  BOOST_TEST(fsdp.shard_group == 8);
  BOOST_TEST((fsdp.backward_prefetch == TorchFsdp1::Prefetch::backward_post));
  BOOST_TEST(fsdp.forward_prefetch);
  BOOST_TEST(!fsdp.limit_all_gathers);
  BOOST_TEST((fsdp.wrap == TorchFsdp1::Wrap::size));
  BOOST_TEST(fsdp.min_num_params == 1000);
  BOOST_TEST(parameter_element(*fsdp.param_dtype).value() == 2);
  BOOST_TEST(parameter_element(*fsdp.reduce_dtype).value() == 4);
  BOOST_TEST(parameter_element(*fsdp.buffer_dtype).value() == 2);
  BOOST_TEST(fsdp.cpu_offload);
  BOOST_TEST(fsdp.gradient_accumulation == 2);
  BOOST_TEST((fsdp.algorithm == CollectiveAlgorithm::hierarchical));
}

BOOST_AUTO_TEST_CASE(an_fp16_parameter_type_has_two_bytes) {
  const auto fsdp = options_of<TorchFsdp1>(read("fsdp: {param_dtype: fp16}"));
  BOOST_TEST(parameter_element(*fsdp.param_dtype).value() == 2);
}

BOOST_AUTO_TEST_CASE(the_host_overhead_of_a_unit_is_a_time) {
  BOOST_TEST(options_of<TorchFsdp1>(read("fsdp: {host_overhead: 8ms}")).host_overhead->value() ==
             8e-3);
  BOOST_TEST(!options_of<TorchFsdp1>(read("fsdp: {}")).host_overhead.has_value());
  BOOST_TEST(message_of("fsdp: {host_overhead: 8}").find("fsdp.host_overhead: expected a time") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(wrap_model_wraps_the_whole_model) {
  BOOST_TEST((options_of<TorchFsdp1>(read("fsdp: {wrap: model}")).wrap == TorchFsdp1::Wrap::model));
}

BOOST_AUTO_TEST_CASE(zero_stages_2_and_3_are_deepspeed_s) {
  const auto one = options_of<TorchDdp>(read("zero: {stage: 1, bucket_cap_mb: 10}"));
  BOOST_TEST(one.bucket_cap_mb == 10);
  BOOST_TEST(one.zero_redundancy_optimizer);
  const auto two = options_of<DeepspeedBuckets>(read("zero: {stage: 2, overlap_comm: true}"));
  BOOST_TEST(two.partitions_gradients);
  BOOST_TEST(two.overlap_comm);
  BOOST_TEST(two.contiguous_gradients);
  BOOST_TEST(two.reduce_bucket_size == 500'000'000);
  const auto three = options_of<DeepspeedZero3>(read("zero: {stage: 3, reduce_bucket_size: 7}"));
  BOOST_TEST(three.reduce_bucket_size == 7);
  BOOST_TEST(three.overlap_comm);
}

BOOST_AUTO_TEST_CASE(staleness_is_a_number_or_unbounded_and_0_by_default) {
  BOOST_TEST(*options_of<ParameterServer>(read("ps: {}")).staleness == 0u);
  BOOST_TEST(*options_of<ParameterServer>(read("ps: {staleness: 3}")).staleness == 3u);
  BOOST_TEST(
      !options_of<ParameterServer>(read("ps: {staleness: unbounded}")).staleness.has_value());
}

BOOST_AUTO_TEST_CASE(every_option_of_the_parameter_server_arrives) {
  const auto ps = options_of<ParameterServer>(
      read("ps: {servers: 3, server_host: cpu_node, staleness: 0, backup_workers: 2, "
           "apply_rate: 5GBps, aggregate: node, worker_cpu_rate: 2GBps, server_cpu_rate: 3GBps, "
           "partition: unit, layerwise: true}"));
  BOOST_TEST(ps.servers == 3);
  BOOST_TEST(ps.server_host == "cpu_node");
  BOOST_TEST(ps.backup_workers == 2);
  BOOST_TEST(ps.apply_rate->value() == 5e9);
  BOOST_TEST((ps.aggregate == ParameterServer::Aggregate::node));
  BOOST_TEST(ps.worker_cpu_rate->value() == 2e9);
  BOOST_TEST(ps.server_cpu_rate->value() == 3e9);
  BOOST_TEST((ps.partition == ParameterServer::Partition::unit));
  BOOST_TEST(ps.layerwise);
}

const std::vector<std::pair<std::string, std::string>> kNames = {
    {"ddp: {}", "ddp"},
    {"fsdp: {}", "fsdp full_shard"},
    {"zero: {stage: 1}", "zero 1"},
    {"zero: {stage: 2}", "zero 2"},
    {"ps: {}", "ps bsp"},
    {"ps: {backup_workers: 1}", "ps bsp, 1 backup"},
    {"ps: {aggregate: node, staleness: 1}", "ps ssp 1, by node"},
    {"ps: {staleness: 2}", "ps ssp 2"},
    {"ps: {staleness: unbounded}", "ps asp"},
    {"ps: {staleness: unbounded, local_steps: 50, outer_optimizer: {sgd: {}}}",
     "ps asp, 50 local, outer sgd"},
    {"local_sgd: {period: 8}", "local_sgd 8"}};
BOOST_DATA_TEST_CASE(a_strategy_has_a_name_for_reports,
                     boost::unit_test::data::xrange(kNames.size()), index) {
  BOOST_TEST(strategy_name(read(kNames[index].first)) == kNames[index].second);
}

BOOST_AUTO_TEST_CASE(every_strategy_that_is_listed_is_described) {
  for (const std::string& name : strategy_names()) BOOST_TEST(!describe_strategy(name).empty());
}

BOOST_AUTO_TEST_CASE(backup_workers_need_synchronous_updates) {
  BOOST_TEST(message_of("ps: {staleness: 1, backup_workers: 1}") ==
             "test.yaml:1:20: error: ps.backup_workers: backup workers need synchronous updates\n"
             "ps: {staleness: 1, backup_workers: 1}\n"
             "                   ^\n"
             "remedy: set staleness: 0, or remove backup_workers");
}

BOOST_AUTO_TEST_CASE(what_a_server_does_by_its_host_has_no_default) {
  const auto ps = options_of<ParameterServer>(read("ps: {}"));
  BOOST_TEST(!ps.apply_rate.has_value());
  BOOST_TEST(!ps.worker_cpu_rate.has_value());
  BOOST_TEST(!ps.server_cpu_rate.has_value());
}

BOOST_AUTO_TEST_CASE(a_server_s_outer_optimizer_is_local_sgd_s) {
  const std::string text =
      "outer_optimizer: {sgd: {learning_rate: 0.5, momentum: 0.8, nesterov: false}}, "
      "compression: int4}";
  const auto ps = options_of<ParameterServer>(read("ps: {local_steps: 9, " + text));
  const auto local = *read("local_sgd: {period: 9, " + text).local_sgd;
  BOOST_TEST((ps.outer == OuterSgd{0.5, 0.8, false}));
  BOOST_TEST((ps.outer == local.outer));
  BOOST_TEST((ps.compression == OuterCompression::int4));
  BOOST_TEST((local.compression == OuterCompression::int4));
}

BOOST_AUTO_TEST_CASE(defaults_that_were_taken_are_recorded) {
  const auto document = Document::parse("ps: {servers: 2}", "test.yaml");
  read_usual(*document);
  const std::vector<std::string> expected = {"ps.staleness = 0",     "ps.backup_workers = 0",
                                             "ps.aggregate = none",  "ps.server = ours",
                                             "ps.partition = size",  "ps.layerwise = false",
                                             "ps.scheduling = fifo", "ps.warmup_rounds = 0",
                                             "ps.local_steps = 1",   "ps.sampled_workers = 0"};
  BOOST_TEST(document->defaults_taken() == expected, boost::test_tools::per_element());
}

}  // namespace
}  // namespace rehearse
