// What a rank holds under each strategy. Adam in fp32: two states of 4 B, so 2 P of optimizer state
// for P of parameters.
#include "memory/memory.hpp"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "model/adaptation.hpp"
#include "model/shares.hpp"
#include "strategy/every_strategy.hpp"
#include "strategy/jobs.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(memory_test)
namespace {

namespace data = boost::unit_test::data;

/// Sizes as they are asked for, so that they can be added up.
constexpr MemoryDevice kPlain{.caching = false};

std::string text_of(const MemoryForecast& forecast) {
  const double mib = forecast.allocated_peak.value() / kMiB;
  return std::to_string(static_cast<int>(mib)) + (mib == static_cast<int>(mib) ? "" : "+") +
         " MiB at " + forecast.peak_label;
}

/// "24 MiB at backward u2" of a worker.
std::string peak(const Strategy& strategy, const Toy& toy, const Cluster& cluster) {
  return text_of(forecast_memory(schedule_of(strategy, toy, cluster).programs[0], kPlain));
}

/// The same of a job with other options.
std::string peak(const Strategy& strategy, const Job& job) {
  return text_of(forecast_memory(build_schedule(strategy, job).programs[0], kPlain));
}

/// Bytes of a kind that a worker holds between two iterations.
double resident(const Strategy& strategy, const Toy& toy, const Cluster& cluster, MemoryKind kind) {
  const Schedule schedule = schedule_of(strategy, toy, cluster);
  MemoryReplay replay(schedule.programs[0], kPlain);
  replay.iterate();
  return replay.use().by_kind[static_cast<std::size_t>(kind)].value();
}

/// P 4 and 8 MiB, activations 3 and 5.
Toy unlike_units() {
  return toy({{4 * kMiB, kMs, kMs, 3 * kMiB}, {8 * kMiB, kMs, kMs, 5 * kMiB}}, kMs);
}
/// P 4 MiB, activations 3, twice.
Toy like_units() { return equal_units(2, {4 * kMiB, kMs, kMs, 3 * kMiB}, kMs); }

BOOST_AUTO_TEST_CASE(every_strategy_gives_back_what_an_iteration_takes) {
  const Toy model =
      toy({{0, kMs, kMs, 1e6}, {4 * kMiB, kMs, kMs, 3e6}, {4 * 250'001, kMs, kMs, 2e6}}, kMs);
  const Cluster cluster = star_cluster(2, 2);
  for (const auto& [name, strategy] : every_strategy()) {
    for (const TapeDevice device : {TapeDevice::cuda, TapeDevice::cpu})
      for (const bool set_to_none : {true, false}) {
        Job job = job_of(model, cluster);
        job.device = device;
        job.set_to_none = set_to_none;
        job.checkpointed = {false, true, true};
        const MemoryDevice memory{.caching = device == TapeDevice::cuda};
        BOOST_TEST_CONTEXT(name << (set_to_none ? "" : ", gradients stay")) {
          for (const Program& program : build_schedule(strategy, job).programs)
            BOOST_CHECK_NO_THROW(forecast_memory(program, memory));
        }
      }
  }
}

BOOST_AUTO_TEST_CASE(ddp_holds_parameters_states_buckets_activations_and_gradients) {
  // Resident 12 + 24 + 12 = 48. Forward 56. Backward u2 takes 8: 64, leaves 59; backward u1 takes
  // 4: 63.
  BOOST_TEST(peak(TorchDdp{}, unlike_units(), star_cluster(4)) == "64 MiB at backward u2");
}

BOOST_AUTO_TEST_CASE(bucket_views_save_one_copy_of_the_gradients) {
  // Without activations: 48 + 12 against 48 and the 8 of u2 on their way into the bucket.
  const Toy model = toy({{4 * kMiB, kMs, kMs}, {8 * kMiB, kMs, kMs}}, kMs);
  BOOST_TEST(peak(TorchDdp{}, model, star_cluster(4)) == "60 MiB at backward u1");
  BOOST_TEST(peak(TorchDdp{.gradient_as_bucket_view = true}, model, star_cluster(4)) ==
             "56 MiB at backward u2");
  // In no_sync() they are tensors of their own: 48 + 12 + 8 and u2's 8 once more.
  BOOST_TEST(peak(TorchDdp{.gradient_as_bucket_view = true, .gradient_accumulation = 2},
                  unlike_units(), star_cluster(4)) == "76 MiB at backward u2");
}

BOOST_AUTO_TEST_CASE(accumulated_gradients_stand_through_the_next_forward) {
  // 48 + 12 + 8 at the end of the second forward; its backward makes u2's 8 once more to add them.
  for (const int micro : {2, 3, 9})
    BOOST_TEST(peak(TorchDdp{.gradient_accumulation = micro}, unlike_units(), star_cluster(4)) ==
               "76 MiB at backward u2");
}

BOOST_AUTO_TEST_CASE(gradients_that_are_zeroed_in_place_stand_through_forward) {
  // set_to_none=False: 48 + 12 all the time, 8 of activations, u2's 8 on their way.
  const Toy model = unlike_units();
  const Cluster cluster = star_cluster(4);
  Job job = job_of(model, cluster);
  job.set_to_none = false;
  BOOST_TEST(peak(TorchDdp{}, job) == "76 MiB at backward u2");
}

BOOST_AUTO_TEST_CASE(a_compressed_bucket_is_a_copy_of_half_its_size) {
  // Buckets 8 and 4. After backward u2: 48 + 8 + 3 = 59, and 4 for its bucket: 63; at the end
  // 48 + 12 and 2. Backward u2 holds 64, u1 63.
  const TorchDdp fp16{.bucket_cap_mb = 4, .compression = TorchDdp::Compression::fp16};
  const Toy model = toy({{4 * kMiB, kMs, kMs}, {8 * kMiB, kMs, kMs}}, kMs);
  BOOST_TEST(peak(fp16, model, star_cluster(4)) == "62 MiB at all_reduce bucket 1 (2.00 MiB)");
}

BOOST_AUTO_TEST_CASE(foreach_adam_takes_the_denominators_of_all_parameters_at_once) {
  // 48 + 12 of gradients and 12 of square roots; one tensor after the other 2 x 8; fused none.
  const Toy model = unlike_units();
  const Cluster cluster = star_cluster(4);
  Job job = job_of(model, cluster);
  job.optimizer.fused = false;
  BOOST_TEST(peak(TorchDdp{}, job) == "72 MiB at optimizer");
  job.optimizer.foreach = false;
  BOOST_TEST(peak(TorchDdp{}, job) == "76 MiB at optimizer");
  job.optimizer.foreach = true;  // which a CPU does not do
  job.device = TapeDevice::cpu;
  BOOST_TEST(peak(TorchDdp{}, job) == "76 MiB at optimizer");
}

BOOST_AUTO_TEST_CASE(beside_master_weights_adam_holds_temporaries_of_one_tensor_at_a_time) {
  // 6 of parameters, gradients and buckets each, 24 of states, 12 of master weights and of the
  // gradients' copies; 12 of square roots, or one tensor after the other 2 x 8.
  const Toy model = unlike_units();
  const Cluster cluster = star_cluster(4);
  Job job = job_of(model, cluster);
  job.precision = job.optimizer.of = Precision::bf16_master;
  job.optimizer.fused = false;
  BOOST_TEST(peak(TorchDdp{}, job) == "78 MiB at optimizer");
  job.optimizer.foreach = false;
  BOOST_TEST(peak(TorchDdp{}, job) == "82 MiB at optimizer");
}

BOOST_AUTO_TEST_CASE(a_checkpointed_unit_is_computed_again_and_holds_its_activations_only_then) {
  // 48 and, one after the other, 5 + 8 of u2 and 3 + 8 + 4 of u1.
  const Toy model = unlike_units();
  const Cluster cluster = star_cluster(4);
  Job job = job_of(model, cluster);
  job.checkpointed = {true, true};
  BOOST_TEST(peak(TorchDdp{}, job) == "63 MiB at backward u1");
  const Schedule schedule = build_schedule(TorchDdp{}, job);
  BOOST_TEST(count_of(schedule.programs[0], "recompute") == 2);
  // A forward more: 2 ms; communication ends later by as much.
  const double plain = step_of(TorchDdp{}, model, cluster);
  BOOST_CHECK_CLOSE(play(schedule, cluster).end.value(), plain + kMs, kPercent);
}

BOOST_DATA_TEST_CASE(zero_1_keeps_one_share_of_the_optimizer_state, data::make({1, 2, 4, 8}),
                     ranks) {
  const Cluster cluster = star_cluster(ranks);
  BOOST_TEST(resident(zero_1(), unlike_units(), cluster, MemoryKind::optimizer_state) ==
             24 * kMiB / ranks);
  BOOST_TEST(resident(zero_1(), unlike_units(), cluster, MemoryKind::parameters) == 12 * kMiB);
}

BOOST_DATA_TEST_CASE(full_shard_keeps_one_share_of_everything, data::make({1, 2, 4, 8}), ranks) {
  const Cluster cluster = star_cluster(ranks);
  BOOST_TEST(resident(TorchFsdp1{}, unlike_units(), cluster, MemoryKind::optimizer_state) ==
             24 * kMiB / ranks);
  BOOST_TEST(resident(TorchFsdp1{}, unlike_units(), cluster, MemoryKind::parameters) ==
             12 * kMiB / ranks);
  BOOST_TEST(resident(TorchFsdp1{}, unlike_units(), cluster, MemoryKind::buckets) == 0);
}

BOOST_AUTO_TEST_CASE(hybrid_shard_keeps_a_share_of_its_group) {
  const TorchFsdp1 hybrid{.sharding = TorchFsdp1::Sharding::hybrid_shard};
  BOOST_TEST(resident(hybrid, unlike_units(), star_cluster(4, 2), MemoryKind::parameters) ==
             6 * kMiB);
  BOOST_TEST(resident(hybrid, unlike_units(), star_cluster(4, 2), MemoryKind::optimizer_state) ==
             12 * kMiB);
}

BOOST_AUTO_TEST_CASE(offloaded_shards_are_not_on_the_gpu) {
  const Schedule schedule =
      schedule_of(TorchFsdp1{.cpu_offload = true}, unlike_units(), star_cluster(4));
  BOOST_TEST(schedule.programs[0].setup.empty());
}

BOOST_AUTO_TEST_CASE(full_shard_holds_one_gathered_unit_and_prefetch_one_more) {
  // Shards 2 + 4 = 6. Forward: 6 + 3 + (4 + 3) = 16, leaves 12.
  //   pre         u2 and u1 gathered, gradients of u2: 12 + 4 + 4 + 4 = 24; u2's activations go,
  //   and
  //               its gradients become one flat tensor: 24 - 3 + 4 = 25
  //   post, none  without u1: 21
  const Cluster cluster = star_cluster(4);
  const auto with = [](TorchFsdp1::Prefetch prefetch) {
    return TorchFsdp1{.backward_prefetch = prefetch};
  };
  BOOST_TEST(peak(with(TorchFsdp1::Prefetch::backward_pre), like_units(), cluster) ==
             "25 MiB at backward u2");
  BOOST_TEST(peak(with(TorchFsdp1::Prefetch::backward_post), like_units(), cluster) ==
             "21 MiB at backward u2");
  BOOST_TEST(peak(with(TorchFsdp1::Prefetch::none), like_units(), cluster) ==
             "21 MiB at backward u2");
}

BOOST_AUTO_TEST_CASE(on_cpus_the_copy_of_a_gather_stands_beside_the_unit_that_it_overtakes) {
  // Shards of 7. Before backward u2: what u3 sends and receives (8 + 8), u2 whole (4). The gather
  // of u1 takes 16, and Gloo's thread a copy of it; then u2 makes its gradient: 7 + 16 + 4 + 32
  // + 4.
  const Toy model = toy({{16 * kMiB, kMs, kMs}, {4 * kMiB, kMs, kMs}, {8 * kMiB, kMs, kMs}}, kMs);
  const Cluster cluster = star_cluster(4);
  Job job = job_of(model, cluster);
  job.device = TapeDevice::cpu;
  job.optimizer = {.kind = OptimizerKind::sgd};
  BOOST_TEST(peak(TorchFsdp1{}, job) == "63 MiB at backward u2");
  // Issued when it is needed, it is over before anything else is taken. Then the reduction of u1:
  // shards and two shard gradients (7 + 3), sent, received and u1's own gradient.
  BOOST_TEST(peak(TorchFsdp1{.backward_prefetch = TorchFsdp1::Prefetch::none}, job) ==
             "58 MiB at reduce_scatter u1 (16.0 MiB)");
}

BOOST_AUTO_TEST_CASE(one_gpu_alone_has_no_buckets) {
  const Toy model = like_units();
  BOOST_TEST(resident(TorchDdp{}, model, star_cluster(1), MemoryKind::buckets) == 0);
  BOOST_TEST(resident(TorchDdp{}, model, star_cluster(2), MemoryKind::buckets) == 8 * kMiB);
}

BOOST_AUTO_TEST_CASE(frozen_units_have_no_gradients_states_or_buckets) {
  Toy model = like_units();
  model.model.units[0].traits = {{.trained = false}};
  for (const Strategy& strategy : {Strategy(TorchDdp{}), Strategy(TorchFsdp1{})}) {
    const double share = shards_parameters(strategy) ? 0.25 : 1;
    BOOST_TEST(resident(strategy, model, star_cluster(4), MemoryKind::optimizer_state) ==
               share * 2 * 4 * kMiB);
    BOOST_TEST(resident(strategy, model, star_cluster(4), MemoryKind::parameters) ==
               share * 8 * kMiB);
  }
  BOOST_TEST(resident(TorchDdp{}, model, star_cluster(4), MemoryKind::buckets) == 4 * kMiB);
}

BOOST_AUTO_TEST_CASE(states_of_the_host_or_of_pages_are_none_of_the_allocators) {
  const Toy model = like_units();
  const Cluster cluster = star_cluster(2);
  const auto states = [&](const Optimizer& optimizer) {
    Job job = job_of(model, cluster);
    job.optimizer = optimizer;
    const Schedule schedule = build_schedule(TorchDdp{}, job);
    MemoryReplay replay(schedule.programs[0], kPlain);
    replay.iterate();
    return replay.use().by_kind[static_cast<std::size_t>(MemoryKind::optimizer_state)].value();
  };
  BOOST_TEST(states({.kind = OptimizerKind::adamw}) == 16 * kMiB);
  BOOST_TEST(states({.kind = OptimizerKind::adamw_8bit}) == 4 * kMiB * (1 + 4.0 / 256));
  BOOST_TEST(states({.kind = OptimizerKind::adamw, .paged = true}) == 0);
  BOOST_TEST(states({.kind = OptimizerKind::adamw, .offload = Offload::cpu}) == 0);
}

BOOST_AUTO_TEST_CASE(under_no_sync_whole_gradients_stay_until_the_last_micro_batch) {
  const Toy model = like_units();
  const auto peak_of = [&](bool no_sync) {
    const TorchFsdp1 options{.gradient_accumulation = 2, .no_sync = no_sync};
    return forecast_memory(schedule_of(options, model, star_cluster(4)).programs[0], kPlain)
        .allocated_peak.value();
  };
  BOOST_TEST(peak_of(true) > peak_of(false) + 4 * kMiB);
  const Schedule reduced =
      schedule_of(TorchFsdp1{.gradient_accumulation = 2}, model, star_cluster(4));
  const Schedule kept =
      schedule_of(TorchFsdp1{.gradient_accumulation = 2, .no_sync = true}, model, star_cluster(4));
  BOOST_TEST(count_of(reduced.programs[0], "reduce_scatter") == 4u);
  BOOST_TEST(count_of(kept.programs[0], "reduce_scatter") == 2u);
}

BOOST_AUTO_TEST_CASE(shard_grad_op_holds_every_unit_from_forward_to_backward) {
  // Shards 6, both units gathered 8, activations 6: 20, the gradients of u2: 24, without its
  // activations 21, and its flat gradient: 25.
  const TorchFsdp1 options{.sharding = TorchFsdp1::Sharding::shard_grad_op};
  BOOST_TEST(peak(options, like_units(), star_cluster(4)) == "25 MiB at backward u2");
}

BOOST_AUTO_TEST_CASE(gathering_in_16_bits_halves_what_is_gathered) {
  // As above, 4 instead of 8 gathered (shards stay 6, activations 6), and 2 of gradients: 18.
  const TorchFsdp1 options{.sharding = TorchFsdp1::Sharding::shard_grad_op,
                           .param_dtype = Precision::bf16_pure};
  BOOST_TEST(peak(options, like_units(), star_cluster(4)) == "18 MiB at backward u2");
}

BOOST_AUTO_TEST_CASE(gradients_stay_until_the_last_server_has_its_part_of_them) {
  const Cluster cluster = server_cluster(4, 2);
  const Program worker =
      schedule_of(ParameterServer{.servers = 2}, unlike_units(), cluster).programs[0];
  std::size_t pushes = 0, last_push = 0, given = 0;
  for (std::size_t op = 0; op < worker.ops.size(); ++op)
    if (worker.ops[op].label().starts_with("push")) ++pushes, last_push = op;
  for (std::size_t op = 0; op < worker.ops.size(); ++op)
    for (const TensorEvent& event : worker.ops[op].memory)
      if (event.action == TensorEvent::Action::give &&
          worker.tensors[event.tensor.index()].kind == MemoryKind::gradients) {
        ++given;
        BOOST_TEST(op == last_push);
      }
  BOOST_TEST(pushes == 2U);
  BOOST_TEST(given == 2U);
}

BOOST_AUTO_TEST_CASE(a_worker_of_a_parameter_server_holds_no_optimizer_state) {
  // Parameters 12 and their flat copy 12, activations 8; backward u2 takes 8 (40, leaves 35),
  // backward u1 4 (39), and the push gives them back.
  BOOST_TEST(peak(ParameterServer{}, unlike_units(), server_cluster(4)) == "40 MiB at backward u2");
  // Layer by layer u2's gradients are gone (in the order of issue) when u1's are made; the peak
  // stands before that.
  BOOST_TEST(peak(ParameterServer{.layerwise = true}, unlike_units(), server_cluster(4)) ==
             "40 MiB at backward u2");
}

}  // namespace
/// A rank trains adapters on eight sequences a step; blocks are checkpointed.
Program with_adapters(const TorchFsdp1& fsdp) {
  const Lora lora{.rank = 8, .targets = {"q", "v"}};
  Toy blocks{.model = adapt(transformer_model(llama(), {.sequence = 256}), {.lora = lora}),
             .costs = {}};
  blocks.costs.units.resize(blocks.model.units.size());
  const Cluster cluster = star_cluster(4);
  Job job = job_of(blocks, cluster);
  job.batch_per_gpu = 8;
  job.checkpointed.assign(blocks.model.units.size(), true);
  job.checkpointed.front() = job.checkpointed.back() = false;
  return build_schedule(fsdp, job).programs[0];
}

double peak_of(const Program& program) {
  return forecast_memory(program, kPlain).allocated_peak.value();
}

// Counted on PyTorch 2.13's FSDP and torch.utils.checkpoint around eight blocks: backward's peak is
// 35.6 activations where all but adapters is frozen, and 30.0 where all is trained, gradients
// included. Each block's gradient is one tensor more.
BOOST_AUTO_TEST_CASE(reentrant_checkpoints_keep_inputs_and_gradients_of_frozen_blocks) {
  const Program plain = with_adapters({.flat_gradients = false});
  const Program held = with_adapters({.flat_gradients = false, .reentrant_checkpoints = true});
  BOOST_TEST(held.tensors.size() - plain.tensors.size() >=
             static_cast<std::size_t>(llama().layers));
  const double one = 8.0 * 256 * static_cast<double>(llama().hidden) * 4;
  BOOST_TEST(peak_of(held) >= peak_of(plain) + one);
}

// One flat tensor of adapters and what is frozen needs a gradient.
BOOST_AUTO_TEST_CASE(reentrant_checkpoints_around_flat_adapters_keep_no_more) {
  BOOST_TEST(peak_of(with_adapters({.reentrant_checkpoints = true})) == peak_of(with_adapters({})));
}

// A block's own hook prefetches its adapters; the block before comes behind the last of them.
BOOST_AUTO_TEST_CASE(beside_adapters_backward_holds_one_gathered_block) {
  const auto gathered_ahead = [](const TorchFsdp1& fsdp) {
    const Program program = with_adapters(fsdp);
    std::vector<std::string> labels;
    for (const Op& op : program.ops) labels.push_back(op.title());
    const auto backward = std::ranges::find(labels, "backward layers.1");
    BOOST_REQUIRE(backward != labels.end());
    BOOST_TEST(std::count(labels.begin(), labels.end(), "all_gather layers.0") == 2);
    return std::count(labels.begin(), backward, "all_gather layers.0") == 2;
  };
  BOOST_TEST(gathered_ahead({}));
  BOOST_TEST(!gathered_ahead({.flat_gradients = false}));
}

// CublasHandlePool.cpp: a workspace for each handle, and forward's thread and autograd's have one
// each. Of Hopper 32 MiB, of the generations before it 8320 KiB.
BOOST_AUTO_TEST_CASE(cublas_has_a_workspace_for_each_of_two_threads) {
  Toy blocks{.model = transformer_model(llama(), {.sequence = 256}), .costs = {}};
  blocks.costs.units.resize(blocks.model.units.size());
  const auto held = [&](const char* generation) {
    Cluster cluster = star_cluster(2);
    cluster.groups.front().node.gpu.architecture = gpu_architecture(generation);
    return resident(TorchDdp{}, blocks, cluster, MemoryKind::workspace);
  };
  BOOST_TEST(held("hopper") == 2 * 32 * kMiB);
  BOOST_TEST(held("ampere") == 2 * 8.125 * kMiB);
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
