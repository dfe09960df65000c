// A step's kernels beside a trace's: both made by hand, so that every number can be worked out.
#include "foreign/traces/kernel_comparison.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "base/error.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(kernel_comparison_test)
namespace {

/// A trace's events, by names and sizes.
struct Written {
  Written() {
    trace.file = "made.json";
    trace.device = "NVIDIA H200";
  }
  KinetoTrace trace;
  std::int64_t correlation = 0;

  std::uint32_t name(const std::string& text) {
    trace.names.push_back(text);
    return static_cast<std::uint32_t>(trace.names.size() - 1);
  }
  void note(const std::string& text, double begin, float duration) {
    trace.notes.push_back({begin, duration, name(text), 1});
  }
  /// An operator that launches one kernel.
  void call(const std::string& op, const std::string& sizes, double begin, float kernel) {
    trace.operators.push_back({begin, 10, name(op), 1});
    trace.shapes.push_back(name(sizes));
    trace.launches.push_back({begin + 5, 1, name("cudaLaunchKernel"), 1, ++correlation});
    trace.kernels.push_back({begin + 100, kernel, name("kernel"), 7, correlation});
  }
};

KernelRow row(const std::string& op, std::vector<std::string> reads, double calls,
              double microseconds) {
  KernelRow one{.op = op, .reads = std::move(reads), .calls = calls};
  one.cost.time = Seconds(microseconds * 1e-6);
  return one;
}

KernelTable table_of(std::vector<KernelRow> rows) {
  KernelTable table;
  table.rows = std::move(rows);
  for (const KernelRow& one : table.rows) table.time += one.cost.time;
  return table;
}

/// Two products, a sum whose sizes the trace has otherwise, and a norm that it lacks.
KernelTable expected() {
  return table_of({row("mm", {"bf16[8, 4]", "bf16[4, 2]"}, 2, 60),
                   row("add_", {"bf16[8, 2]", "bf16[8, 2]", "bf16[]"}, 1, 7),
                   row("native_layer_norm", {"bf16[8, 4]"}, 1, 5)});
}

/// Each of two steps has the products, their sides in any order, a sum of other sizes, an operator
/// that nobody expects, an optimizer, and a copy of FSDP's; what stands before the steps counts
/// nowhere.
KinetoTrace two_steps() {
  Written made;
  made.call("aten::mm", "[8, 4] [4, 2]", 10, 1000);
  for (int step = 0; step < 2; ++step) {
    const double at = 1000 * (step + 1);
    made.note("ProfilerStep#" + std::to_string(step), at, 1000);
    made.call("aten::mm", "[8, 4] [4, 2]", at + 100, 30);
    made.call("aten::mm", "[4, 2] [8, 4]", at + 200, 40);
    made.call("aten::add_", "[8, 3] [8, 3]", at + 300, 9);
    made.call("aten::cumsum", "[8]", at + 400, 3);
    made.note("Optimizer.step#AdamW.step", at + 500, 100);
    made.call("aten::_foreach_add_", "[4, 2]", at + 510, 20);
    made.note("FSDP::all_gather (layers.0)", at + 700, 100);
    made.note("FSDP::nested", at + 705, 5);
    made.call("aten::copy_", "[4] [4]", at + 740, 11);
  }
  return made.trace;
}

const ComparedKernel& of(const KernelComparison& both, KernelMatch match) {
  const auto is = [match](const ComparedKernel& one) { return one.match == match; };
  BOOST_TEST_REQUIRE(std::ranges::count_if(both.rows, is) == 1, to_string(match));
  return *std::ranges::find_if(both.rows, is);
}

double microseconds(Seconds time) { return time.value() * 1e6; }

BOOST_AUTO_TEST_CASE(calls_are_matched_missing_or_surplus) {
  const KernelComparison both = compare_kernels(expected(), two_steps());
  BOOST_TEST(both.steps == 2U);
  BOOST_TEST_REQUIRE(both.rows.size() == 4U);
  const ComparedKernel& product = of(both, KernelMatch::matched);
  BOOST_TEST((product.op == "mm" && product.calls == 2 && product.traced_calls == 2));
  BOOST_TEST(microseconds(product.traced) == 70, boost::test_tools::tolerance(1e-6));
  const ComparedKernel& sum = of(both, KernelMatch::other_sizes);
  BOOST_TEST((sum.op == "add" && sum.shapes == "[8, 3] [8, 3]" && sum.calls == 1));
  BOOST_TEST(of(both, KernelMatch::missing).op == "native_layer_norm");
  BOOST_TEST(of(both, KernelMatch::surplus).op == "cumsum");
}

BOOST_AUTO_TEST_CASE(times_are_of_a_step_and_the_optimizers_and_fsdps_stand_apart) {
  const KernelComparison both = compare_kernels(expected(), two_steps());
  const auto near = boost::test_tools::tolerance(1e-6);
  BOOST_TEST(microseconds(both.traced) == 30 + 40 + 9 + 3, near);
  BOOST_TEST(microseconds(both.optimizer) == 20, near);
  BOOST_TEST(microseconds(both.sharding) == 11, near);
  BOOST_TEST(microseconds(both.matched_shapes) == 70, near);
  BOOST_TEST(microseconds(both.matched) == 79, near);
}

BOOST_AUTO_TEST_CASE(what_costs_most_in_either_comes_first) {
  const KernelComparison both = compare_kernels(expected(), two_steps());
  const auto cost = [](const ComparedKernel& one) { return std::max(one.time, one.traced); };
  BOOST_TEST(std::ranges::is_sorted(both.rows, std::ranges::greater{}, cost));
}

/// What autocast converts inside of a product is a call of its own; a copy inside of a conversion
/// is that conversion.
BOOST_AUTO_TEST_CASE(an_operators_parts_are_its_own) {
  Written made;
  made.trace.operators.push_back({0, 100, made.name("aten::_to_copy"), 1});
  made.trace.shapes.push_back(made.name("[8, 4]"));
  made.call("aten::copy_", "[8, 4] [8, 4]", 10, 6);
  const KernelTable table =
      table_of({row("_to_copy", {"fp32[8, 4]"}, 1, 6), row("copy_", {"fp32[2]", "fp32[2]"}, 1, 1)});
  const KernelComparison both = compare_kernels(table, made.trace);
  BOOST_TEST(of(both, KernelMatch::matched).op == "_to_copy");
}

BOOST_AUTO_TEST_CASE(a_trace_of_another_network_says_which_products_it_has) {
  KernelTable table = expected();
  BOOST_TEST(compare_kernels(table, two_steps()).other_products.empty());
  table.rows.front().reads.front() = "bf16[16, 4]";
  const std::vector<std::string> products = compare_kernels(table, two_steps()).other_products;
  BOOST_TEST_REQUIRE(products.size() == 1U);
  BOOST_TEST(products.front() == "[4, 2] [8, 4]");
}

std::string refusal(const KinetoTrace& trace) {
  try {
    compare_kernels(expected(), trace);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

BOOST_AUTO_TEST_CASE(a_trace_without_sizes_is_refused) {
  KinetoTrace trace = two_steps();
  trace.shapes.clear();
  BOOST_TEST(refusal(trace) ==
             "made.json: error: no sizes of tensors (Input Dims): record with record_shapes=True");
  trace.operators.clear();
  BOOST_TEST(refusal(trace) ==
             "made.json: error: no operators (cpu_op): record with ProfilerActivity.CPU, too");
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
