// Activations that wait in host memory, gradients that go as soon as they are used, and Muon's
// temporaries.
#include <boost/test/unit_test.hpp>
#include <utility>

#include "memory/memory.hpp"
#include "strategy/jobs.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(host_memory_test)
namespace {

/// Sizes as they are asked for, so that they can be added up.
constexpr MemoryDevice kPlain{.caching = false};

/// GPT-2 on one GPU, with times of nothing but copies to the host.
struct Gpt2 {
  Toy toy;
  Cluster cluster = star_cluster(1);
  Job job;

  explicit Gpt2(Optimizer optimizer = {}) : toy(made()), job(job_of(toy, cluster)) {
    job.optimizer = optimizer;
    job.batch_per_gpu = 4;
  }
  static Toy made() {
    Toy toy{.model = build_architecture("gpt2", {.sequence = 1024}), .costs = {}};
    UnitCost unit;
    unit.forward = unit.backward = Seconds(kMs);
    toy.costs.units.resize(toy.model.units.size(), unit);
    toy.costs.host_rate = BytesPerSecond(1e9);
    return toy;
  }
  void checkpoint_blocks() {
    for (const Unit& unit : job.model.units)
      job.checkpointed.push_back(unit.name.starts_with("h."));
  }
  Schedule schedule() const {
    Schedule made = build_schedule(TorchDdp{}, job);
    made.iterations = 2;
    validate(made);
    return made;
  }
  double peak() const {
    return forecast_memory(schedule().programs[0], kPlain).allocated_peak.value();
  }
};

constexpr double kInput = 4.0 * 1024 * 768 * 4;  ///< of a block, fp32

BOOST_AUTO_TEST_CASE(inputs_of_checkpointed_blocks_leave_but_for_the_last_five) {
  Gpt2 gpt2;
  gpt2.checkpoint_blocks();
  const auto activations = [&] {
    const Schedule schedule = gpt2.schedule();
    const Program& program = schedule.programs[0];
    MemoryReplay replay(program, kPlain);
    replay.iterate();
    replay.iterate();
    return std::pair(
        replay.use().by_kind[static_cast<std::size_t>(MemoryKind::activations)].value(),
        count_of(program, "copy to"));
  };
  const double without = gpt2.peak();
  const auto [batch, no_copies] = activations();
  gpt2.job.offloads_activations = true;
  const auto [left, copies] = activations();
  BOOST_TEST(left == batch);  // nothing stays behind
  BOOST_TEST(no_copies == 0u);
  BOOST_TEST(copies == 12u + 11u);  // the last block's input is still there
  BOOST_TEST(without - gpt2.peak() == (12 - 5) * kInput);
}

BOOST_AUTO_TEST_CASE(an_input_comes_back_while_the_block_behind_computes) {
  Gpt2 gpt2;
  gpt2.checkpoint_blocks();
  gpt2.job.offloads_activations = true;
  const Schedule schedule = gpt2.schedule();
  const Trace trace = play(schedule, gpt2.cluster);
  const auto start = [&](const char* label) {
    return span_of(schedule, trace, 0, label).start.value();
  };
  const auto end = [&](const char* label) {
    return span_of(schedule, trace, 0, label).end.value();
  };
  const char* const back = "copy to GPU, input of h.8 ";
  BOOST_CHECK_CLOSE(end(back) - start(back), kInput / 1e9, kPercent * 100);
  BOOST_TEST(start(back) >= end("backward h.10"));
  BOOST_TEST(start("recompute h.8") >= end(back));
  BOOST_TEST(start("copy to host, input of h.3 ") >= end("forward h.2"));
}

BOOST_AUTO_TEST_CASE(a_step_in_backward_holds_one_gradient) {
  const Optimizer adamw{.kind = OptimizerKind::adamw, .fused = true};
  Gpt2 gpt2(adamw);
  const auto all = static_cast<double>(4 * gpt2.job.model.parameters());
  const auto gradients = [&] {
    const Schedule schedule = gpt2.schedule();
    MemoryReplay replay(schedule.programs[0], kPlain);
    replay.iterate();
    double most = 0, states = 0;
    for (const Op& op : schedule.programs[0].ops) {
      double live = 0;
      for (const TensorEvent& event : op.memory) {
        const Tensor& one = schedule.programs[0].tensors[event.tensor.index()];
        if (one.kind == MemoryKind::optimizer_state && event.once) states += one.size.value();
        if (one.kind != MemoryKind::gradients) continue;
        live += (event.action == TensorEvent::Action::take ? 1 : -1) * one.size.value();
        most = std::max(most, live);
      }
    }
    BOOST_TEST(states == 2 * all);
    return most;
  };
  gpt2.job.optimizer.in_backward = true;
  BOOST_TEST(gradients() == 50257.0 * 768 * 4);  // of the embeddings
  BOOST_TEST(count_of(gpt2.schedule().programs[0], "optimizer") == 14u);
}

BOOST_AUTO_TEST_CASE(muon_takes_what_pytorch_takes_one_matrix_after_the_other) {
  // Measured with torch 2.13: fp32 8 m n + 4 k^2 bytes, bf16 6 m n + 4 k^2, k the smaller of both.
  for (const auto& [precision, elements] :
       {std::pair(Precision::fp32, 8.0), std::pair(Precision::bf16_pure, 6.0)}) {
    Gpt2 gpt2({.kind = OptimizerKind::muon, .of = precision});
    gpt2.job.precision = precision;
    const Schedule schedule = gpt2.schedule();
    const Program& program = schedule.programs[0];
    double live = 0, most = 0;
    for (const TensorEvent& event : program.ops.back().memory) {
      const Tensor& one = program.tensors[event.tensor.index()];
      if (one.kind != MemoryKind::workspace || program.owners[one.owner] != "h.3") continue;
      live += (event.action == TensorEvent::Action::take ? 1 : -1) * one.size.value();
      most = std::max(most, live);
    }
    BOOST_TEST(live == 0);
    BOOST_TEST(most == elements * 768 * 3072 + 4.0 * 768 * 768);
  }
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
