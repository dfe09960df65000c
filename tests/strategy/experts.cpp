// Ranks that share experts: their groups, what they send, and who reduces which gradients.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "memory/replay.hpp"
#include "model/token_histogram.hpp"
#include "strategy/layouts.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(experts_test)
namespace {

constexpr double kTokens = 64, kHidden = 256, kWidth = 128, kExperts = 16, kActive = 2;
constexpr double kExpert = 3 * kHidden * kWidth;  // elements of its weights

Toy share_on(const Layout& layout, const Cluster& cluster, int layers = 2) {
  return share_on(mixture(layers), layout, cluster);
}

Schedule schedule_on(const Layout& layout, const Cluster& cluster, int layers = 2,
                     const Strategy::Kind& sync = kRingMegatron) {
  return schedule_of({sync, layout}, share_on(layout, cluster, layers), cluster);
}

/// Bytes of a rank's collectives, by the name of their group and their kind.
std::map<std::pair<std::string, CollectiveKind>, std::vector<double>> sent(
    const Schedule& schedule) {
  std::map<std::pair<std::string, CollectiveKind>, std::vector<double>> all;
  const RankSpec& rank = schedule.ranks.front();
  for (const Op& op : schedule.program_of(RankId(0)).ops)
    if (const auto* collective = std::get_if<Collective>(&op.work))
      all[{schedule.groups[rank.groups[collective->group].index()].name, collective->kind}]
          .push_back(collective->size.value());
  return all;
}

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

std::vector<std::size_t> members(const Schedule& schedule, const std::string& name) {
  for (const GroupId id : schedule.ranks.front().groups) {
    const Group& group = schedule.groups[id.index()];
    if (group.name != name) continue;
    std::vector<std::size_t> all;
    for (const RankId member : group.members) all.push_back(member.index());
    return all;
  }
  return {};
}

using Ranks = std::vector<std::size_t>;

BOOST_AUTO_TEST_CASE(groups_are_megatrons) {
  // RankGenerator(tp=etp, ep=4, dp=2, cp=1) of 16 ranks, tensor 2: experts split 16 by 2 x 4 x 2.
  const Schedule both = schedule_on(expert_layout(4, 2, 2), nodes_of(4));
  BOOST_TEST(members(both, "experts") == (Ranks{0, 2, 4, 6}));
  BOOST_TEST(members(both, "expert tensor") == (Ranks{0, 1}));
  BOOST_TEST(members(both, "experts' replicas") == (Ranks{0, 8}));
  BOOST_TEST(members(both, "replicas") == (Ranks{0, 2, 4, 6, 8, 10, 12, 14}));
  // With expert_tensor 1 they lie across tensor ranks, too.
  const Schedule across = schedule_on(expert_layout(8, 2, 1), nodes_of(4));
  BOOST_TEST(members(across, "experts") == (Ranks{0, 1, 2, 3, 4, 5, 6, 7}));
  BOOST_TEST(members(across, "experts' replicas") == (Ranks{0, 8}));
  BOOST_TEST(members(across, "expert tensor").empty());
}

BOOST_AUTO_TEST_CASE(each_block_sends_its_tokens_there_and_back_in_both_passes) {
  const auto bytes = sent(schedule_on(expert_layout(8), nodes_of(4)));
  const auto& tokens = bytes.at({"experts", CollectiveKind::all_to_all});
  BOOST_TEST(tokens.size() == 2u * 2 * 4);  // blocks, micro-batches, two each way
  for (const double size : tokens) BOOST_TEST(size == kTokens * kActive * kHidden * 4);
}

BOOST_AUTO_TEST_CASE(the_fullest_rank_gets_as_much_more) {
  Layout layout = expert_layout(8);
  layout.imbalance = 1.5;
  const auto bytes = sent(schedule_on(layout, nodes_of(4)));
  for (const double size : bytes.at({"experts", CollectiveKind::all_to_all}))
    BOOST_TEST(size == 1.5 * kTokens * kActive * kHidden * 4);
  BOOST_TEST(share_on(layout, nodes_of(4)).model.forward_flops() >
             share_on(expert_layout(8), nodes_of(4)).model.forward_flops());
}

BOOST_AUTO_TEST_CASE(measured_tokens_say_it_layer_by_layer) {
  // Of 8 ranks with 2 experts each: the third has 3 of 18 tokens, then the last 9 of 24.
  Layout layout = expert_layout(8);
  layout.histogram = std::make_shared<const TokenHistogram>(
      TokenHistogram{.file = "tokens.csv",
                     .rows = {{1, 1, 1, 1, 1, 2, 1, 1, 1, 1, 1, 1, 1, 1, 2, 1},
                              {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 5}}});
  const double first = 3.0 / 18 * 8, second = 9.0 / 24 * 8;
  const auto bytes = sent(schedule_on(layout, nodes_of(4)));
  const auto& tokens = bytes.at({"experts", CollectiveKind::all_to_all});
  const auto of_layer = [&](double imbalance) {
    return std::ranges::count_if(tokens, [&](double size) {
      return std::abs(size - imbalance * kTokens * kActive * kHidden * 4) < 1e-6;
    });
  };
  BOOST_TEST(of_layer(first) == 2 * 4);  // micro-batches, two each way
  BOOST_TEST(of_layer(second) == 2 * 4);
  // Products of the experts grow as much; nothing else does.
  const auto flops = [&](const std::vector<double>& imbalance) {
    Layout other = expert_layout(8);
    other.imbalance = imbalance.front();
    return share_on(other, nodes_of(4)).model.forward_flops();
  };
  const double even = flops({1}), double_load = flops({2});
  BOOST_TEST(share_on(layout, nodes_of(4)).model.forward_flops() ==
                 even + (double_load - even) * ((first - 1) + (second - 1)) / 2,
             boost::test_tools::tolerance(1e-12));
}

BOOST_AUTO_TEST_CASE(even_tokens_are_an_imbalance_of_one) {
  Layout layout = expert_layout(8);
  layout.histogram = std::make_shared<const TokenHistogram>(
      TokenHistogram{.file = "tokens.csv", .rows = {std::vector<double>(16, 0.0625)}});
  BOOST_TEST(sent(schedule_on(layout, nodes_of(4))) ==
             sent(schedule_on(expert_layout(8), nodes_of(4))));
}

BOOST_AUTO_TEST_CASE(experts_gradients_are_reduced_among_those_that_have_them) {
  const Layout layout = expert_layout(8);
  const Cluster cluster = nodes_of(4);
  const auto bytes = sent(schedule_on(layout, cluster));
  const double of_experts = 2 * kExperts / 8 * kExpert * 4;  // blocks
  BOOST_TEST(sum(bytes.at({"experts' replicas", CollectiveKind::all_reduce})) == of_experts);
  const double all = static_cast<double>(share_on(layout, cluster).model.parameters()) * 4;
  BOOST_TEST(sum(bytes.at({"replicas", CollectiveKind::all_reduce})) == all - of_experts);
}

/// Bytes that a rank holds from before its first iteration, of a kind.
double held(const Schedule& schedule, MemoryKind kind) {
  const Program& program = schedule.program_of(RankId(0));
  double sum = 0;
  for (const TensorEvent& event : program.setup)
    if (event.action == TensorEvent::Action::take &&
        program.tensors[event.tensor.index()].kind == kind)
      sum += program.tensors[event.tensor.index()].size.value();
  return sum;
}

// PyTorch's: one reducer over what all replicas have, one over experts, each with buckets beside
// the gradients (torch/csrc/distributed/c10d/reducer.cpp).
BOOST_AUTO_TEST_CASE(torchs_ddp_has_a_reducer_for_experts) {
  const Layout layout = expert_layout(8);
  const Cluster cluster = nodes_of(4);
  const TorchDdp ddp{.algorithm = CollectiveAlgorithm::ring};
  const Schedule schedule = schedule_on(layout, cluster, 2, ddp);
  const auto bytes = sent(schedule);
  const double of_experts = 2 * kExperts / 8 * kExpert * 4;
  const double all = static_cast<double>(share_on(layout, cluster).model.parameters()) * 4;
  BOOST_TEST(sum(bytes.at({"experts' replicas", CollectiveKind::all_reduce})) == of_experts);
  BOOST_TEST(sum(bytes.at({"replicas", CollectiveKind::all_reduce})) == all - of_experts);
  BOOST_TEST(held(schedule, MemoryKind::buckets) == all);
}

// Of experts that no other rank has there is nothing to reduce, and no bucket.
BOOST_AUTO_TEST_CASE(torchs_ddp_leaves_single_experts_out) {
  const Layout layout = expert_layout(16);
  const Cluster cluster = nodes_of(4);
  TorchDdp ddp{.algorithm = CollectiveAlgorithm::ring};
  const double of_experts = 2 * kExpert * 4;
  const double all = static_cast<double>(share_on(layout, cluster).model.parameters()) * 4;
  const Schedule schedule = schedule_on(layout, cluster, 2, ddp);
  BOOST_TEST(sent(schedule).count({"experts' replicas", CollectiveKind::all_reduce}) == 0u);
  BOOST_TEST(held(schedule, MemoryKind::buckets) == all - of_experts);
  ddp.gradient_as_bucket_view = true;
  BOOST_TEST(held(schedule_on(layout, cluster, 2, ddp), MemoryKind::gradients) == of_experts);
}

BOOST_AUTO_TEST_CASE(a_distributed_optimizer_scatters_and_gathers_both) {
  const auto bytes = sent(schedule_on(expert_layout(8), nodes_of(4), 2, zero_1(kMegatronDdp)));
  const double of_experts = 2 * kExperts / 8 * kExpert * 4;
  for (const auto kind : {CollectiveKind::reduce_scatter, CollectiveKind::all_gather})
    BOOST_TEST(sum(bytes.at({"experts' replicas", kind})) == of_experts);
}

BOOST_AUTO_TEST_CASE(fsdp_gathers_experts_among_those_that_share_them) {
  Layout layout = expert_layout(8);
  layout.micro_batches = 1;
  const auto bytes = sent(schedule_on(layout, nodes_of(4), 2, TorchFsdp2{}));
  const double block = kExperts / 8 * kExpert * 4;
  const auto& gathers = bytes.at({"experts' replicas", CollectiveKind::all_gather});
  BOOST_TEST(gathers.size() == 4u);  // two blocks, each way
  for (const double size : gathers) BOOST_TEST(size == block);
  BOOST_TEST(sum(bytes.at({"experts' replicas", CollectiveKind::reduce_scatter})) == 2 * block);
}

// Megatron-LM's own FSDP: a block's parameters are gathered each way, or once in a step; gradients
// are scattered in each micro-batch, and a rank keeps its shares of them.
BOOST_AUTO_TEST_CASE(megatrons_fsdp_gathers_each_way_or_once_a_step) {
  Layout layout = expert_layout(8);
  layout.micro_batches = 2;
  const double block = kExperts / 8 * kExpert * 4;
  for (const auto sharding :
       {MegatronFsdp::Sharding::optim_grads_params, MegatronFsdp::Sharding::optim_grads}) {
    const bool params = sharding == MegatronFsdp::Sharding::optim_grads_params;
    const Schedule schedule =
        schedule_on(layout, nodes_of(4), 2, MegatronFsdp{.sharding = sharding});
    const auto bytes = sent(schedule);
    const auto& gathers = bytes.at({"experts' replicas", CollectiveKind::all_gather});
    BOOST_TEST(gathers.size() == (params ? 8u : 2u));
    for (const double size : gathers) BOOST_TEST(size == block);
    BOOST_TEST(sum(bytes.at({"experts' replicas", CollectiveKind::reduce_scatter})) == 4 * block);
  }
}

BOOST_AUTO_TEST_CASE(experts_of_one_rank_are_reduced_by_nobody) {
  const auto bytes = sent(schedule_on(expert_layout(16), nodes_of(4)));
  BOOST_TEST(!bytes.contains({"experts' replicas", CollectiveKind::all_reduce}));
  BOOST_TEST(bytes.contains({"replicas", CollectiveKind::all_reduce}));
}

BOOST_AUTO_TEST_CASE(deepep_sends_a_token_once_to_each_node_that_it_needs) {
  Layout layout = expert_layout(16);
  layout.dispatch = ExpertDispatch::deepep;
  const Schedule schedule = schedule_on(layout, nodes_of(4));
  BOOST_TEST(members(schedule, "experts, across") == (Ranks{0, 4, 8, 12}));
  BOOST_TEST(members(schedule, "experts, inside") == (Ranks{0, 1, 2, 3}));
  // Of four nodes with four experts each, two choices miss one by 12/16 x 11/15.
  const double nodes = 4 * (1 - 12.0 / 16 * 11 / 15), ranks = 16 * (1 - 15.0 / 16 * 14 / 15);
  const auto bytes = sent(schedule);
  for (const double size : bytes.at({"experts, across", CollectiveKind::all_to_all}))
    BOOST_CHECK_CLOSE(size, kTokens * kHidden * 4 * nodes, kPercent);
  for (const double size : bytes.at({"experts, inside", CollectiveKind::all_to_all}))
    BOOST_CHECK_CLOSE(size, kTokens * kHidden * 4 * ranks, kPercent);
}

BOOST_AUTO_TEST_CASE(tokens_that_go_to_two_nodes_at_most_are_sent_less_between_nodes) {
  Layout layout = expert_layout(16);
  layout.dispatch = ExpertDispatch::deepep;
  layout.node_limit = 2;
  const auto bytes = sent(schedule_on(layout, nodes_of(4)));
  // Of the 8 experts on two nodes with four each, two choices miss one node by 4/8 x 3/7.
  const double nodes = 2 * (1 - 4.0 / 8 * 3 / 7), ranks = 8 * (1 - 7.0 / 8 * 6 / 7);
  for (const double size : bytes.at({"experts, across", CollectiveKind::all_to_all}))
    BOOST_CHECK_CLOSE(size, kTokens * kHidden * 4 * nodes, kPercent);
  for (const double size : bytes.at({"experts, inside", CollectiveKind::all_to_all}))
    BOOST_CHECK_CLOSE(size, kTokens * kHidden * 4 * ranks, kPercent);
}

BOOST_AUTO_TEST_CASE(experts_that_follow_one_another_are_on_few_ranks) {
  Layout layout = expert_layout(8);
  layout.dispatch = ExpertDispatch::deepep;
  layout.fake_balanced_gate = true;
  const auto bytes = sent(schedule_on(layout, nodes_of(2)));
  // Two of 16 experts: 0 and 1, 2 and 3 and so on, which are one rank's.
  for (const char* step : {"experts, inside", "experts, across"})
    for (const double size : bytes.at({step, CollectiveKind::all_to_all}))
      BOOST_TEST(size == kTokens * kHidden * 4);
}

BOOST_AUTO_TEST_CASE(two_steps_send_all_inside_nodes_and_all_between_them) {
  Layout layout = expert_layout(16);
  layout.dispatch = ExpertDispatch::hierarchical;
  const auto bytes = sent(schedule_on(layout, nodes_of(4)));
  for (const char* step : {"experts, inside", "experts, across"})
    for (const double size : bytes.at({step, CollectiveKind::all_to_all}))
      BOOST_TEST(size == kTokens * kActive * kHidden * 4);
}

BOOST_AUTO_TEST_CASE(all_gather_sends_every_token_to_every_rank) {
  Layout layout = expert_layout(8);
  layout.dispatch = ExpertDispatch::all_gather;
  const auto bytes = sent(schedule_on(layout, nodes_of(4)));
  for (const double size : bytes.at({"experts", CollectiveKind::reduce_scatter}))
    BOOST_TEST(size == kTokens * kHidden * 8 * 4);
}

/// A rank computes, waits and reduces in turn: its step is the sum.
BOOST_AUTO_TEST_CASE(a_step_is_its_computations_and_balanced_exchanges) {
  const Layout layout = expert_layout(4);
  const Cluster cluster = nodes_of(4, 1);
  const Toy toy = share_on(layout, cluster);
  const Schedule schedule = schedule_of({kRingMegatron, layout}, toy, cluster);
  double computed = 0, waited = 0, reduced = 0;
  for (const Op& op : schedule.program_of(RankId(0)).ops) {
    if (const auto* compute = std::get_if<Compute>(&op.work)) computed += compute->duration.value();
    const auto* collective = std::get_if<Collective>(&op.work);
    if (!collective) continue;
    const double size = collective->size.value();
    // All sends of an exchange begin at once and share the port.
    const double exchange = kNicLatency + 0.75 * size / kNic;
    if (collective->kind == CollectiveKind::all_to_all) waited += exchange;
    if (collective->kind == CollectiveKind::all_gather) waited += all_gather_time(4, size);
    if (collective->kind == CollectiveKind::all_reduce) reduced += all_reduce_time(4, size);
  }
  const double end = play(schedule, cluster).end.value();
  BOOST_CHECK_CLOSE(end, computed + waited + reduced, kPercent);
}

BOOST_AUTO_TEST_CASE(shared_experts_hide_behind_dispatch_and_combine) {
  Layout layout = expert_layout(8);
  const Cluster cluster = nodes_of(2);
  const double apart = step_of({kRingMegatron, layout}, share_on(layout, cluster), cluster);
  layout.expert_overlap = true;
  const Toy beside = share_on(layout, cluster);
  layout.expert_overlap = false;
  const Toy plain = share_on(layout, cluster);
  BOOST_CHECK_CLOSE(beside.model.forward_flops(), plain.model.forward_flops(), kPercent);
  BOOST_CHECK_CLOSE(beside.costs.units[1].backward.value(), plain.costs.units[1].backward.value(),
                    kPercent);
  BOOST_CHECK_LT(step_of({kRingMegatron, layout}, beside, cluster), apart);
}

/// The labels of what a rank computes and exchanges with others that have experts, in order.
std::string turns(const Schedule& schedule) {
  std::string all;
  for (const Op& op : schedule.program_of(RankId(0)).ops) {
    const auto* collective = std::get_if<Collective>(&op.work);
    if (collective && collective->kind == CollectiveKind::all_to_all) all += '|';
    if (op.phase == Phase::forward) all += 'f';
    if (op.phase == Phase::backward && std::holds_alternative<Compute>(op.work)) all += 'b';
  }
  return all;
}

BOOST_AUTO_TEST_CASE(an_exchange_says_the_pass_that_it_is_part_of) {
  std::size_t forward = 0, backward = 0;
  for (const Op& op : schedule_on(expert_layout(8), nodes_of(2)).program_of(RankId(0)).ops) {
    if (op.verb != Verb::all_to_all) continue;
    forward += op.pass == Verb::forward ? 1 : 0;
    backward += op.pass == Verb::backward ? 1 : 0;
  }
  BOOST_TEST(forward > 0u);
  BOOST_TEST(forward == backward);
}

// The backward of the first micro-batch and the forward of the second, between their exchanges.
BOOST_AUTO_TEST_CASE(two_micro_batches_take_turns) {
  Layout layout = expert_layout(8);
  const std::string apart = turns(schedule_on(layout, nodes_of(2)));
  layout.expert_comm_overlap = true;
  const std::string beside = turns(schedule_on(layout, nodes_of(2)));
  const auto sorted = [](std::string text) {
    std::ranges::sort(text);
    return text;
  };
  BOOST_TEST(sorted(beside) == sorted(apart));
  BOOST_TEST(apart.find("b|f") == std::string::npos);
  BOOST_TEST(beside.find("b|f") != std::string::npos);
  BOOST_TEST(beside.find("f|b") != std::string::npos);
}

// Compute is the longer of the two: of five micro-batches, tokens of the first forward and of the
// last backward are all that shows.
BOOST_AUTO_TEST_CASE(exchanges_hide_behind_another_micro_batch) {
  Layout layout = expert_layout(8);
  const Cluster cluster = nodes_of(2);
  Toy toy = share_on(layout, cluster);
  for (UnitCost& unit : toy.costs.units)
    for (PassSegments* parts : {&unit.forward_segments, &unit.backward_segments})
      for (Seconds& duration : parts->durations) duration = Seconds(1);
  const auto step = [&](int micro_batches, bool overlap) {
    layout.micro_batches = micro_batches;
    layout.expert_comm_overlap = overlap;
    const Schedule schedule = schedule_of({kRingMegatron, layout}, toy, cluster);
    validate(schedule);
    double computed = 0;
    for (const Op& op : schedule.program_of(RankId(0)).ops)
      if (const auto* compute = std::get_if<Compute>(&op.work))
        computed += compute->duration.value();
    return play(schedule, cluster).end.value() - computed;
  };
  const double shown_by_each = step(5, false) - step(4, false);
  BOOST_TEST(shown_by_each > 0);
  const double hidden = step(5, false) - step(5, true);
  BOOST_CHECK_LT(hidden, 4 * shown_by_each);  // how many tokens come is told in front of them
  BOOST_CHECK_GT(hidden, 0.95 * 4 * shown_by_each);
}

BOOST_AUTO_TEST_CASE(memory_of_micro_batches_beside_each_other_replays) {
  Layout layout = expert_layout(4);
  layout.mesh.pipeline = 2;
  layout.micro_batches = 6;
  for (const auto schedule : {PipelineSchedule::one_f_one_b, PipelineSchedule::dual_pipe_v}) {
    layout.schedule = schedule;
    layout.virtual_stages = usual_chunks(schedule);
    layout.expert_comm_overlap = true;
    for (const Program& program : schedule_on(layout, nodes_of(2), 4).programs) {
      MemoryReplay replay(program, {.caching = false});
      replay.iterate([](std::size_t, const TensorEvent&) {});
      const Bytes after_one = replay.use().total();
      replay.iterate([](std::size_t, const TensorEvent&) {});
      BOOST_TEST(replay.use().total().value() == after_one.value());
    }
  }
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
