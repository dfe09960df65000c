// One walk plays every framework's hooks over every mesh: what holds beside one axis holds beside
// others.
#include <boost/test/unit_test.hpp>

#include <map>
#include <numeric>

#include "memory/replay.hpp"
#include "strategy/layouts.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(one_walk)
namespace {

constexpr double kHidden = 256, kWidth = 128, kExperts = 16;
constexpr double kExpert = 3 * kHidden * kWidth;  // elements of its weights
constexpr int kBlocks = 4;

TransformerShape dense() {
  TransformerShape t = mixture(kBlocks);
  t.experts.reset();
  return t;
}

Layout two_micro_batches(int expert = 1) {
  Layout layout;
  layout.mesh.expert = expert;
  layout.micro_batches = 2;
  return layout;
}

/// Of four ranks that share experts.
Schedule schedule_on(const TorchFsdp2& fsdp, const Cluster& cluster) {
  const Layout layout = two_micro_batches(4);
  return schedule_of({fsdp, layout}, share_on(mixture(kBlocks), layout, cluster), cluster);
}

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

/// Bytes of a rank's collectives of a kind in its group of that name.
std::vector<double> sent(const Schedule& schedule, const std::string& group, CollectiveKind kind) {
  std::vector<double> sizes;
  const RankSpec& rank = schedule.ranks.front();
  for (const Op& op : schedule.program_of(RankId(0)).ops) {
    const auto* collective = std::get_if<Collective>(&op.work);
    if (collective == nullptr || collective->kind != kind) continue;
    if (schedule.groups[rank.groups[collective->group].index()].name == group)
      sizes.push_back(collective->size.value());
  }
  return sizes;
}

std::string operations(const Schedule& schedule) {
  std::string all;
  for (const Op& op : schedule.programs.front().ops) all += op.label() + "\n";
  return all;
}

/// The peak of a program's tensors, which come to the same after each iteration.
double peak_of(const Program& program) {
  MemoryReplay replay(program, {.caching = false});
  double peak = 0;
  const auto see = [&](std::size_t, const TensorEvent&) {
    peak = std::max(peak, replay.use().total().value());
  };
  replay.iterate(see);
  const double after_one = replay.use().total().value();
  replay.iterate(see);
  BOOST_TEST(replay.use().total().value() == after_one);
  return peak;
}

// A mesh of one axis is plain data parallelism, operation by operation.
BOOST_AUTO_TEST_CASE(degrees_of_one_are_as_none) {
  const Cluster cluster = nodes_of(2);
  const DeepspeedZero3 stage3{.gradient_accumulation = 2};
  const TorchDdp ddp{.bucket_cap_mb = 1, .gradient_accumulation = 2};
  const Horovod horovod{.cycle_time = Seconds(kMs), .gradient_accumulation = 2};
  const auto deepspeed = [](bool stage2, bool overlap) {
    return DeepspeedBuckets{.partitions_gradients = stage2,
                            .reduce_bucket_size = 100'000,
                            .overlap_comm = overlap,
                            .gradient_accumulation = 2};
  };
  const std::vector<Strategy> all = {
      deepspeed(false, false),
      deepspeed(true, false),
      deepspeed(true, true),
      ddp,
      zero_1(ddp),
      horovod,
      TorchFsdp1{.gradient_accumulation = 2},
      TorchFsdp2{.gradient_accumulation = 2},
      TorchFsdp1{.sharding = TorchFsdp1::Sharding::hybrid_shard, .gradient_accumulation = 2},
      TorchFsdp2{.post_forward_group = 2, .gradient_accumulation = 2},
      stage3};
  for (const Strategy& strategy : all) {
    BOOST_TEST_CONTEXT(strategy_name(strategy)) {
      const Layout layout = two_micro_batches();
      const Toy toy = share_on(dense(), layout, cluster);
      const Schedule in_mesh = schedule_of({strategy.sync, layout}, toy, cluster);
      const Schedule plain = schedule_of(strategy, toy, cluster);
      BOOST_TEST(operations(in_mesh) == operations(plain));
      BOOST_TEST(in_mesh.samples_per_iteration == plain.samples_per_iteration);
      BOOST_CHECK_CLOSE(play(in_mesh, cluster).end.value(), play(plain, cluster).end.value(),
                        kPercent);
      BOOST_TEST(peak_of(in_mesh.programs.front()) == peak_of(plain.programs.front()));
    }
  }
}

// Beside a pipeline FSDP gathers in front of all and reduces behind all: turns of two micro-batches
// are worth as much as with replicas that Megatron-LM keeps.
BOOST_AUTO_TEST_CASE(micro_batches_of_sharded_parameters_take_turns_in_a_pipeline) {
  const Cluster cluster = nodes_of(2);
  const auto hidden = [&](const Strategy::Kind& sync, PipelineSchedule schedule, double computes) {
    Layout layout = two_micro_batches(4);
    layout.mesh.pipeline = 2;
    layout.schedule = schedule;
    layout.virtual_stages = usual_chunks(schedule);
    layout.micro_batches = 6;
    Toy toy = share_on(mixture(kBlocks), layout, cluster);
    for (UnitCost& unit : toy.costs.units)
      for (PassSegments* parts : {&unit.forward_segments, &unit.backward_segments})
        for (Seconds& duration : parts->durations) duration = Seconds(computes);
    layout.expert_comm_overlap = false;
    const double apart = step_of({sync, layout}, toy, cluster);
    layout.expert_comm_overlap = true;
    const Schedule beside = schedule_of({sync, layout}, toy, cluster);
    for (const Program& program : beside.programs) peak_of(program);
    return apart - play(beside, cluster).end.value();
  };
  const TorchFsdp2 sharded;
  constexpr auto kOrder = PipelineSchedule::one_f_one_b, kDual = PipelineSchedule::dual_pipe_v;
  BOOST_TEST(hidden(sharded, kOrder, 1e-6) > 0);
  BOOST_CHECK_CLOSE(hidden(sharded, kDual, kMs), hidden(kMegatronDdp, kDual, kMs), kPercent);
  // What is gathered shows a little.
  BOOST_CHECK_CLOSE(hidden(sharded, kOrder, kMs), hidden(kMegatronDdp, kOrder, kMs), 1e-4);
}

// 16 ranks, experts on 4, groups of 8: of the four with the same experts two are in a group.
BOOST_AUTO_TEST_CASE(groups_that_shard_have_parts_of_experts) {
  const TorchFsdp2 hybrid{.shard_group = 8};
  const Cluster cluster = nodes_of(4);
  const Schedule schedule = schedule_on(hybrid, cluster);
  const double experts = kBlocks * kExperts / 4 * kExpert * 4;
  const double all =
      4 * static_cast<double>(
              share_on(mixture(kBlocks), two_micro_batches(4), cluster).model.parameters());
  constexpr double kMicroBatches = 2, kPasses = 2;
  const auto bytes = [&](const char* group, CollectiveKind kind) {
    return sum(sent(schedule, group, kind));
  };
  BOOST_CHECK_CLOSE(bytes("experts' shards", CollectiveKind::all_gather),
                    kMicroBatches * kPasses * experts, kPercent);
  BOOST_CHECK_CLOSE(bytes("experts' shards", CollectiveKind::reduce_scatter),
                    kMicroBatches * experts, kPercent);
  BOOST_CHECK_CLOSE(bytes("experts' replicas", CollectiveKind::all_reduce),
                    kMicroBatches * experts / 2, kPercent);
  BOOST_CHECK_CLOSE(bytes("replicas", CollectiveKind::all_reduce),
                    kMicroBatches * (all - experts) / 8, kPercent);
  for (const Program& program : schedule.programs) peak_of(program);
}

BOOST_AUTO_TEST_CASE(experts_lie_within_the_groups_that_shard) {
  const TorchFsdp2 hybrid{.shard_group = 2};
  BOOST_CHECK_EXCEPTION(schedule_on(hybrid, nodes_of(4)), InputError, [](const InputError& error) {
    return std::string(error.what()).find("groups of 2 cut through the ranks that share experts") !=
           std::string::npos;
  });
}

// Of what is gathered each of two ranks keeps half, of experts, too, and backward gathers from two.
BOOST_AUTO_TEST_CASE(a_part_after_forward_is_a_part_of_experts_too) {
  TorchFsdp2 fsdp;
  const Cluster cluster = nodes_of(4);
  const Schedule from_all = schedule_on(fsdp, cluster);
  fsdp.post_forward_group = 2;
  const Schedule schedule = schedule_on(fsdp, cluster);
  constexpr auto kGather = CollectiveKind::all_gather;
  const double experts = kBlocks * kExperts / 4 * kExpert * 4;
  BOOST_CHECK_CLOSE(sum(sent(schedule, "experts' replicas", kGather)), 2 * experts, kPercent);
  BOOST_CHECK_CLOSE(sum(sent(schedule, "experts after forward", kGather)), 2 * experts, kPercent);
  const double half = sum(sent(from_all, "replicas", kGather)) / 2;
  BOOST_CHECK_CLOSE(sum(sent(schedule, "replicas", kGather)), half, kPercent);
  BOOST_CHECK_CLOSE(sum(sent(schedule, "after forward", kGather)), half, kPercent);
  for (const Program& program : schedule.programs) peak_of(program);
  fsdp.post_forward_group = 4;  // all that have the same experts
  BOOST_CHECK_THROW(schedule_on(fsdp, cluster), InputError);
}

// DeepSpeed's ZeRO-3 over tensor ranks: every parameter is gathered once a pass, from those with
// the same part.
BOOST_AUTO_TEST_CASE(zero_3_gathers_among_replicas_of_tensor_ranks) {
  const Cluster cluster = nodes_of(2);
  const DeepspeedZero3 stage3{
      .prefetch_bucket_size = 0, .max_reuse_distance = 0, .param_persistence_threshold = 0};
  Layout layout = two_micro_batches();
  layout.mesh.tensor = 2;
  const Toy toy = share_on(dense(), layout, cluster);
  const Schedule schedule = schedule_of({stage3, layout}, toy, cluster);
  const double own = static_cast<double>(toy.model.parameters()) * 4;
  BOOST_CHECK_CLOSE(sum(sent(schedule, "replicas", CollectiveKind::reduce_scatter)), 2 * own,
                    kPercent);
  BOOST_CHECK_CLOSE(sum(sent(schedule, "replicas", CollectiveKind::all_gather)), 4 * own, kPercent);
  peak_of(schedule.programs.front());
}

// DeepSpeed's ZeRO-2 over tensor and expert ranks: each micro-batch's gradients are summed among
// those that have the same parameters, and these are gathered once.
BOOST_AUTO_TEST_CASE(zero_2_reduces_among_replicas_of_tensor_and_expert_ranks) {
  const Cluster cluster = nodes_of(4);
  const DeepspeedBuckets stage2{.partitions_gradients = true};
  for (const int tensor : {1, 2}) {
    Layout layout = two_micro_batches(4);
    layout.mesh.tensor = tensor;
    const Toy toy = share_on(mixture(kBlocks), layout, cluster);
    const Schedule schedule = schedule_of({stage2, layout}, toy, cluster);
    const double experts = kBlocks * kExperts / 4 * kExpert * 4;
    const double rest = static_cast<double>(toy.model.parameters()) * 4 - experts;
    BOOST_CHECK_CLOSE(sum(sent(schedule, "experts' replicas", CollectiveKind::all_reduce)),
                      2 * experts, kPercent);
    constexpr double kNorm = 4;  // one number of gradients
    BOOST_CHECK_CLOSE(sum(sent(schedule, "replicas", CollectiveKind::all_reduce)), 2 * rest + kNorm,
                      kPercent);
    BOOST_CHECK_CLOSE(sum(sent(schedule, "experts' replicas", CollectiveKind::all_gather)), experts,
                      kPercent);
    BOOST_CHECK_CLOSE(sum(sent(schedule, "replicas", CollectiveKind::all_gather)), rest, kPercent);
    for (const Program& program : schedule.programs) peak_of(program);
  }
}

// Hooks of PyTorch's DDP send halves beside tensor ranks and in a pipeline as they do alone.
BOOST_AUTO_TEST_CASE(hooks_compress_in_every_mesh) {
  const Cluster cluster = nodes_of(2);
  for (const auto& [tensor, pipeline] : {std::pair(2, 1), std::pair(1, 2), std::pair(2, 2)}) {
    const auto reduced = [&, tensor = tensor, pipeline = pipeline](TorchDdp::Compression hook) {
      Layout layout = two_micro_batches();
      layout.mesh.tensor = tensor;
      layout.mesh.pipeline = pipeline;
      layout.lists_receives = true;
      layout.scatter_gather_tensors_in_pipeline = false;
      const Toy toy = share_on(dense(), layout, cluster);
      const TorchDdp hooked{.compression = hook};
      const Schedule schedule = schedule_of({hooked, layout}, toy, cluster);
      for (const Program& program : schedule.programs) peak_of(program);
      return sum(sent(schedule, "replicas", CollectiveKind::all_reduce));
    };
    const double whole = reduced(TorchDdp::Compression::none);
    BOOST_TEST(whole > 0);
    BOOST_CHECK_CLOSE(reduced(TorchDdp::Compression::fp16), whole / 2, kPercent);
    BOOST_CHECK_CLOSE(reduced(TorchDdp::Compression::bf16), whole / 2, kPercent);
  }
}

// HSDP of torchtitan with asynchronous tensor parallelism: what tensor ranks exchange in blocks
// takes no time where products take longer; as PyTorch does it otherwise, each exchange takes its
// own.
BOOST_AUTO_TEST_CASE(asynchronous_tensor_ranks_hide_their_exchanges_under_hsdp) {
  Cluster cluster = nodes_of(4, 2);
  cluster.groups.front().node.nic_latency = Seconds(0);
  cluster.groups.front().node.nvlink->latency = Seconds(0);
  double exchanged = 0;  // of blocks, one after the other
  const auto step = [&](bool exchanges, bool by_pieces) {
    const TorchFsdp2 hybrid{.shard_group = 2};
    Layout layout;
    layout.mesh.tensor = 2;
    layout.sequence_parallel = true;
    layout.tp_comm_overlap = layout.tensor_async = by_pieces;
    layout.micro_batches = 1;
    Toy toy = share_on(dense(), layout, cluster);
    for (std::size_t u = 0; u < toy.model.units.size(); ++u) {
      Unit& unit = toy.model.units[u];
      UnitCost& cost = toy.costs.units[u];
      const bool block = u >= 1 && u <= kBlocks;
      for (Exchange& one : unit.exchanges) {
        if (!block || !exchanges) one.elements = 0;
        if (!by_pieces) exchanged += one.elements * 4 / 2 / kNvlink;
      }
      // A pass takes as long however many exchanges cut it.
      for (const auto& [parts, whole] : {std::pair(&cost.forward_segments, &cost.forward),
                                         std::pair(&cost.backward_segments, &cost.backward)}) {
        *whole = Seconds(20 * kMs);
        for (Seconds& duration : parts->durations)
          duration = *whole / static_cast<double>(parts->durations.size());
      }
    }
    return step_of({hybrid, layout}, toy, cluster);
  };
  const double none = step(false, true);
  BOOST_CHECK_CLOSE(step(true, true), none, kPercent);
  exchanged = 0;
  const double awaited = step(true, false);
  BOOST_TEST(exchanged > 0);
  BOOST_CHECK_CLOSE(awaited, none + exchanged, kPercent);
}

// Inputs of blocks wait in host memory, of tensor ranks as of one that has all.
BOOST_AUTO_TEST_CASE(tensor_ranks_offload_inputs_of_blocks) {
  const Cluster cluster = nodes_of(1);
  Layout layout = two_micro_batches();
  layout.mesh.tensor = 2;
  const Toy toy = share_on(dense(), layout, cluster);
  Job job = job_of(toy, cluster);
  job.checkpointed.assign(toy.model.units.size(), false);
  for (std::size_t unit = 1; unit <= kBlocks; ++unit) job.checkpointed[unit] = true;
  const Schedule on_gpu = build_schedule(layout, job);
  job.offloads_activations = true;
  const Schedule on_host = build_schedule(layout, job);
  const auto moves = [](const Schedule& schedule, const char* where) {
    return count_of(schedule.programs.front(), std::string("copy ") + where);
  };
  BOOST_TEST(moves(on_gpu, "to host") == 0u);
  BOOST_TEST(moves(on_host, "to host") == 2u * kBlocks);  // micro-batches
  BOOST_TEST(peak_of(on_host.programs.front()) <= peak_of(on_gpu.programs.front()));
}

// ---- Products of the three axes ----

const std::vector<Strategy::Kind> kKinds = {
    TorchDdp{},
    Horovod{.cycle_time = Seconds(kMs)},
    kMegatronDdp,
    zero_1(kMegatronDdp),
    DeepspeedAllreduce{},
    DeepspeedBuckets{},
    DeepspeedBuckets{.partitions_gradients = true},
    TorchFsdp1{},
    TorchFsdp2{},
    TorchFsdp1{.sharding = TorchFsdp1::Sharding::hybrid_shard, .shard_group = 2},
    DeepspeedZero3{}};

/// None, and of one or two ranks by each axis.
std::vector<std::optional<Layout>> layouts() {
  std::vector<std::optional<Layout>> all = {std::nullopt};
  for (const auto& [tensor, pipeline] : {std::pair(1, 1), std::pair(2, 1), std::pair(1, 2)}) {
    Layout layout = expert_layout(1, tensor, tensor);
    layout.mesh.pipeline = pipeline;
    all.emplace_back(layout);
  }
  return all;
}

BOOST_AUTO_TEST_CASE(every_product_of_axes_plays) {
  constexpr int kPeriod = 3;
  const Cluster cluster = nodes_of(2);
  for (const auto& layout : layouts())
    for (const Strategy::Kind& sync : kKinds) {
      const Strategy in_step{sync, layout};
      // DeepSpeed refuses ZeRO-3 beside a pipeline (deepspeed/runtime/pipe/engine.py).
      const bool zero3 = sync_in<DeepspeedZero3>(in_step) != nullptr;
      if (zero3 && layout && layout->mesh.pipeline > 1) continue;
      // Megatron-LM's are ranks of a mesh.
      if (sync_in<MegatronDdp>(in_step) != nullptr && !layout) continue;
      const Strategy apart{sync, layout, LocalSgd{.period = kPeriod, .replicas = 2}};
      const Toy toy = share_on(mixture(2), layout.value_or(Layout{}), cluster);
      BOOST_TEST_CONTEXT(strategy_name(in_step)) {
        BOOST_TEST(strategy_name(apart) == "local_sgd 3, " + strategy_name(in_step));
        const Schedule plain = schedule_of(in_step, toy, cluster);
        const Schedule periods = schedule_of(apart, toy, cluster);
        BOOST_TEST(periods.samples_per_iteration == kPeriod * plain.samples_per_iteration);
        BOOST_TEST(periods.replicas == 2u);
        for (const Schedule* schedule : {&plain, &periods}) {
          BOOST_TEST(play(*schedule, cluster).end.value() > 0);
          for (const Program& program : schedule->programs) BOOST_TEST(peak_of(program) > 0);
        }
      }
    }
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
