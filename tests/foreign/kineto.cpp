// Traces of PyTorch's profiler: made by hand, so that every number can be worked out.
#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>
#include <random>

#include "../scratch.hpp"
#include "base/error.hpp"
#include "foreign/traces/kineto_profile.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(foreign_kineto)
namespace {

struct TraceText {
  std::string events;
  int correlation = 0;

  void add(const std::string& event) { events += (events.empty() ? "" : ",\n") + event; }
  void span(const std::string& category, const std::string& name, double begin, double duration,
            const std::string& args = "", int thread = 1) {
    add(fmt::format(
        R"({{"ph": "X", "cat": "{}", "name": "{}", "pid": 1, "tid": {}, "ts": {}, "dur": {}, "args": {{{}}}}})",
        category, name, thread, begin, duration, args));
  }
  /// A launch of the host at a time, and its kernel.
  void kernel(double launch, double begin, double duration, int thread = 1) {
    span("cuda_runtime", "cudaLaunchKernel", launch, 1,
         fmt::format(R"("correlation": {})", ++correlation), thread);
    span("kernel", "gemm", begin, duration,
         fmt::format(R"("correlation": {}, "stream": 7)", correlation), 7);
  }
  std::string text() const {
    return R"({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H200", "totalGlobalMem": 150}], "traceEvents": [)" +
           events + "]}";
  }
};

/// Two steps of 1000 us: four layers of three operators forward, as many backward on another
/// thread, and an optimizer. Kernels run 200 us behind the host.
TraceText two_steps() {
  TraceText trace;
  for (int step = 0; step < 2; ++step) {
    const double at = 1000 * (step + 1);
    trace.span("user_annotation", fmt::format("ProfilerStep#{}", step), at, 1000);
    for (int op = 0; op < 12; ++op) {
      const double begin = at + 20 * op;
      trace.span("cpu_op", fmt::format("aten::op{}", op % 3), begin, 15,
                 fmt::format(R"("Sequence number": {})", 100 * step + op));
      trace.kernel(begin + 5, begin + 200, 20);
    }
    for (int op = 11; op >= 0; --op) {
      const double begin = at + 300 + 40 * (11 - op);
      trace.span("cpu_op", "autograd::engine::evaluate_function: Op", begin, 30,
                 fmt::format(R"("Sequence number": {}, "Fwd thread id": 1)", 100 * step + op), 2);
      trace.kernel(begin + 5, begin + 200, 40, 2);
      if (op % 3 == 0) {
        trace.span("cpu_op", "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad",
                   begin + 31, 5, "", 2);
        trace.span("cpu_op", "torch::autograd::AccumulateGrad", begin + 32, 3,
                   R"("Input Dims": [[64, 32]])", 2);
      }
    }
    trace.span("user_annotation", "Optimizer.step#AdamW.step", at + 800, 100);
    trace.kernel(at + 810, at + 980, 120);
  }
  return trace;
}

TracedProfile profile(const std::string& text) {
  const Scratch scratch;
  return profile_of({read_kineto(scratch.write("trace.json", text), nullptr)},
                    {.batch = 4, .sequence = 128, .gpu = "H200-SXM", .command = "test"});
}

BOOST_AUTO_TEST_CASE(a_step_is_its_units_and_its_optimizer) {
  const TracedProfile made = profile(two_steps().text());
  BOOST_TEST(made.steps == 2u);
  BOOST_TEST(made.step == 1000e-6, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(made.optimizer == "adamw");
  BOOST_REQUIRE(made.profile.units.size() == 4u);
  const BatchPoint& point = made.profile.points.front();
  // Forward: twelve operators of 20 us, and the gap of 60 us before the first of backward.
  BOOST_TEST(point.units[0].forward.value() == 60e-6, boost::test_tools::tolerance(1e-6));
  BOOST_TEST(point.units[3].forward.value() == 120e-6, boost::test_tools::tolerance(1e-6));
  BOOST_TEST(point.units[3].backward.value() == 120e-6, boost::test_tools::tolerance(1e-6));
  BOOST_TEST(point.whole.step.value() == 1000e-6, boost::test_tools::tolerance(1e-6));
  for (const ProfiledUnit& unit : made.profile.units) {
    BOOST_TEST(unit.parameters() == 64 * 32);
    BOOST_TEST(unit.tensors.size() == 1u);
  }
}

BOOST_AUTO_TEST_CASE(a_profile_can_be_read_back) {
  const TracedProfile made = profile(two_steps().text());
  const auto document = Document::parse(to_yaml(made.profile), "profile.yaml");
  BOOST_TEST(read_compute_profile(document->root()).units.size() == 4u);
}

BOOST_AUTO_TEST_CASE(exposed_collectives_are_no_units_time) {
  TraceText trace = two_steps();
  // Between the last kernel of forward (at 440) and the first of backward (at 500).
  for (const double at : {1000.0, 2000.0})
    trace.span(
        "kernel", "ncclDevKernel_AllGather_RING_LL(x)", at + 440, 50,
        R"("Collective name": "all_gather", "In msg nelems": 10, "Out msg nelems": 80, "Group size": 8, "dtype": "BFloat16", "Process Group Name": "0", "stream": 20)",
        20);
  const TracedProfile made = profile(trace.text());
  BOOST_TEST(made.exposed == 50e-6, boost::test_tools::tolerance(1e-6));
  BOOST_TEST(made.profile.points.front().units[3].forward.value() == 70e-6,
             boost::test_tools::tolerance(1e-6));
  BOOST_REQUIRE(made.collectives.size() == 1u);
  BOOST_TEST(made.collectives[0].what == "all_gather");
  BOOST_TEST(made.collectives[0].elements == 80.0);
  BOOST_TEST(made.collectives[0].ranks == 8);
  BOOST_TEST(made.collectives[0].least == 50e-6, boost::test_tools::tolerance(1e-6));
}

BOOST_AUTO_TEST_CASE(operators_are_the_work_where_there_is_no_gpu) {
  TraceText trace;
  for (int step = 0; step < 2; ++step) {
    const double at = 1000 * (step + 1);
    trace.span("user_annotation", fmt::format("ProfilerStep#{}", step), at, 1000);
    for (int op = 0; op < 9; ++op)
      trace.span("cpu_op", fmt::format("aten::op{}", op % 3), at + 50 * op, 50,
                 fmt::format(R"("Sequence number": {})", op));
    for (int op = 8; op >= 0; --op)
      trace.span("cpu_op", "autograd::engine::evaluate_function: Op", at + 450 + 50 * (8 - op), 50,
                 fmt::format(R"("Sequence number": {})", op));
  }
  const TracedProfile made = profile(trace.text());
  BOOST_TEST(made.step == 1000e-6, boost::test_tools::tolerance(1e-6));
  BOOST_TEST(made.profile.points.front().units[0].forward.value() == 150e-6,
             boost::test_tools::tolerance(1e-6));
}

/// Two ranks of a CPU: Gloo's threads are nobody's step, and waiting for them is no unit's time.
BOOST_AUTO_TEST_CASE(waiting_for_gloo_is_no_operators_time) {
  TraceText trace;
  for (int step = 0; step < 2; ++step) {
    const double at = 1000 * (step + 1);
    trace.span("user_annotation", fmt::format("ProfilerStep#{}", step), at, 1000);
    for (int op = 0; op < 9; ++op)
      trace.span("cpu_op", fmt::format("aten::op{}", op % 3), at + 40 * op, 40,
                 fmt::format(R"("Sequence number": {})", op));
    for (int op = 8; op >= 0; --op) {
      const double begin = at + 360 + 60 * (8 - op);
      trace.span("cpu_op", "autograd::engine::evaluate_function: Op", begin, 60,
                 fmt::format(R"("Sequence number": {})", op));
      trace.span("cpu_op", "OpBackward", begin, 20);
      trace.span("cpu_op", "c10d::allreduce_", begin + 20, 5);
    }
    // In the first backward operator, 30 us beside nothing; after the last, 100 us.
    trace.span("user_annotation", "gloo:all_reduce", at + 390, 30,
               R"("Input type": ["float"], "Input Dims": [[64, 32]])", 9);
    trace.span("user_annotation", "gloo:all_reduce", at + 900, 100,
               R"("Input type": ["float"], "Input Dims": [[64, 32]])", 9);
    trace.span("cpu_op", "aten::copy_", at + 905, 5, "", 9);
  }
  const TracedProfile made = profile(trace.text());
  BOOST_TEST(made.step == 1000e-6, boost::test_tools::tolerance(1e-6));
  BOOST_TEST(made.exposed == 130e-6, boost::test_tools::tolerance(1e-6));
  BOOST_REQUIRE(made.collectives.size() == 1u);
  BOOST_TEST(made.collectives[0].what == "all_reduce");
  BOOST_TEST(made.collectives[0].dtype == "float");
  BOOST_TEST(made.collectives[0].elements == 2048.0);
  BOOST_TEST(made.collectives[0].count == 2.0);
  BOOST_TEST(made.structure == "3 layers of 3 operators each, of 9");
  BOOST_TEST(made.profile.points.front().whole.step.value() == 870e-6,
             boost::test_tools::tolerance(1e-6));
}

/// Behind autograd's last operator DDP copies its buckets back, a norm is taken, and Adam steps.
BOOST_AUTO_TEST_CASE(what_follows_backward_is_its_own_or_the_optimizers) {
  TraceText trace;
  for (int step = 0; step < 2; ++step) {
    const double at = 1000 * (step + 1);
    double now = at;
    const auto run = [&](const std::string& name, double duration, int sequence) {
      trace.span("cpu_op", name, now, duration,
                 sequence < 0 ? "" : fmt::format(R"("Sequence number": {})", sequence));
      now += duration;
    };
    trace.span("user_annotation", fmt::format("ProfilerStep#{}", step), at, 1000);
    for (int micro = 0; micro < 2; ++micro) {
      for (int op = 0; op < 6; ++op) run(fmt::format("aten::op{}", op % 3), 20, 10 * micro + op);
      run("aten::ones_like", 5, -1);
      for (int op = 5; op >= 0; --op)
        run("autograd::engine::evaluate_function: Op", 40, 10 * micro + op);
    }
    run("aten::as_strided", 10, -1);
    run("torch.distributed.ddp.reducer::copy_bucket_to_grad", 30, -1);
    run("aten::linalg_vector_norm", 50, -1);
    trace.span("user_annotation", "Optimizer.step#AdamW.step", now, 100);
    run("aten::_foreach_add_", 100, -1);
  }
  const BatchPoint point = profile(trace.text()).profile.points.front();
  BOOST_TEST(point.whole.forward.value() == 250e-6, boost::test_tools::tolerance(1e-6));
  BOOST_TEST(point.whole.backward.value() == 520e-6, boost::test_tools::tolerance(1e-6));
  // The step ends with the next one's begin: 80 us of the host are the optimizer's.
  BOOST_TEST(point.whole.optimizer.value() == 230e-6, boost::test_tools::tolerance(1e-6));
}

BOOST_AUTO_TEST_CASE(a_second_batch_joins_a_profile) {
  TracedProfile made = profile(two_steps().text());
  ComputeProfile other = made.profile;
  other.points.front().batch = 2;
  join(made.profile, other);
  BOOST_REQUIRE(made.profile.points.size() == 2u);
  BOOST_TEST(made.profile.points[0].batch == 2);
  BOOST_TEST(made.profile.points[1].batch == 4);
  other.units.pop_back();
  BOOST_CHECK_THROW(join(made.profile, other), InputError);
}

/// This reader and nlohmann's agree on what JSON is, wherever a buffer of 256 KiB ends.
BOOST_AUTO_TEST_CASE(a_trace_is_what_is_json_and_nothing_else) {
  const Scratch scratch;
  const std::string base =
      R"({"a": [1, -2.5e3, 0.1E-2, true, false, null], "b\u00e9\n": {"c": "x\"y", "d": [[], {}]}})";
  const std::string alphabet = R"({}[],:"\/-+.eE0123456789truefalsnu bAF)";
  std::mt19937 random(7);
  const auto below = [&](std::size_t size) { return random() % size; };
  const auto is_taken = [&](const std::string& text) {
    try {
      read_kineto(scratch.write("trace.json", text), nullptr);
      return true;
    } catch (const InputError&) {
      return false;
    }
  };
  for (int i = 0; i < 1000; ++i) {
    std::string text = base;
    for (std::size_t change = below(4); change > 0; --change) {
      const std::size_t at = below(text.size());
      if (below(3) == 0)
        text.erase(at, 1 + below(3));
      else if (below(2) == 0)
        text.insert(at, 1, alphabet[below(alphabet.size())]);
      else
        text[at] = alphabet[below(alphabet.size())];
    }
    constexpr std::size_t kBuffer = std::size_t{1} << 18;
    const std::string blanks = i % 10 == 0 ? std::string(kBuffer - below(120), ' ') : "";
    text = R"({"traceEvents": [], "more": )" + blanks + text + "}";
    BOOST_TEST(is_taken(text) == nlohmann::json::accept(text), text);
  }
  BOOST_TEST(!is_taken(std::string("{\"traceEvents\": []}\0{}", 23)));
  BOOST_TEST(!is_taken("{\"traceEvents\": [], \"a\": \"\xff\"}"));
}

BOOST_AUTO_TEST_CASE(what_is_no_trace_is_refused_with_its_place) {
  const Scratch scratch;
  const auto says = [&](const std::string& text, const std::string& words) {
    BOOST_CHECK_EXCEPTION(read_kineto(scratch.write("bad.json", text), nullptr), InputError,
                          [&](const InputError& wrong) {
                            return std::string(wrong.what()).find(words) != std::string::npos;
                          });
  };
  says("", "this is no JSON");
  says("{}", "no list traceEvents");
  says(R"({"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k"}]})",
       "event 1 (k): a span without ts");
  says(R"({"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, )", "event 0");
  says(R"({"traceEvents": [{"a": )" + std::string(300, '[') + std::string(300, ']') + "}]}",
       "nested deeper");
  says(std::string("\x1f\x8b\x08\x00zzzzzzzzzzzz", 16), "error:");
}

/// A thread of autograd alone is no step: what is written must run.
BOOST_AUTO_TEST_CASE(a_trace_without_a_forward_pass_is_refused) {
  const Scratch scratch;
  TraceText trace;
  trace.span("user_annotation", "ProfilerStep#0", 1000, 1000);
  trace.span("cpu_op", "autograd::engine::evaluate_function: Op", 1100, 30, "", 2);
  trace.kernel(1105, 1200, 40, 2);
  BOOST_CHECK_EXCEPTION(
      profile_of({read_kineto(scratch.write("trace.json", trace.text()), nullptr)},
                 {.batch = 4, .sequence = 128, .gpu = "H200-SXM", .command = "test"}),
      InputError, [](const InputError& wrong) {
        return std::string(wrong.what()).find("the trace has no forward pass") != std::string::npos;
      });
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
