#include <boost/test/unit_test.hpp>

#include "base/error.hpp"
#include "memory/memory.hpp"

using namespace rehearse;

namespace {

Op op(const std::string& label, std::vector<MemoryEffect> memory) {
  Op result;
  result.label = label;
  result.memory = std::move(memory);
  return result;
}

MemoryEffect effect(MemoryKind kind, double bytes) { return {kind, Bytes(bytes)}; }

double held(const MemoryPeak& peak, MemoryKind kind) {
  return peak.use.by_kind[static_cast<std::size_t>(kind)].value();
}

bool says(const Error& error, const std::string& text) {
  BOOST_TEST(error.what() == text);
  return error.what() == text;
}

constexpr MemoryKind kParameters = MemoryKind::parameters;
constexpr MemoryKind kGradients = MemoryKind::gradients;
constexpr MemoryKind kActivations = MemoryKind::activations;
constexpr MemoryKind kWorkspace = MemoryKind::workspace;

/// Two layers with 10 B of parameters: each keeps 4 B of activations until its backward, which
/// makes 5 B of gradients; the optimizer frees them.
Program two_layers() {
  return {.name = "worker",
          .lanes = {},
          .ops = {op("forward a", {effect(kActivations, 4)}),
                  op("forward b", {effect(kActivations, 4)}),
                  op("backward b", {effect(kActivations, -4), effect(kGradients, 5)}),
                  op("backward a", {effect(kActivations, -4), effect(kGradients, 5)}),
                  op("optimizer", {effect(kGradients, -10)})},
          .resident = {effect(kParameters, 10)}};
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_an_operation_takes_counts_before_what_it_gives_back) {
  // resident 10; forward a 14; forward b 18; backward b takes 5 (23) and gives 4 back (19);
  // backward a 24, then 20.
  const MemoryPeak peak = memory_peak(two_layers());
  BOOST_TEST(peak.use.total().value() == 24);
  BOOST_TEST(peak.op == 3u);
  BOOST_TEST(peak.label == "backward a");
  BOOST_TEST(held(peak, kParameters) == 10);
  BOOST_TEST(held(peak, kActivations) == 4);
  BOOST_TEST(held(peak, kGradients) == 10);
}

BOOST_AUTO_TEST_CASE(gradients_left_for_the_next_iteration_count_in_its_peak) {
  // zero_grad(set_to_none) between forward and backward: forward still holds the 10 B of the
  // iteration before. The first round peaks at 24 in backward a (it has nothing to free), the
  // second at 10 + 10 + 8 = 28 in forward b.
  Program program = two_layers();
  program.ops[4].memory.clear();
  program.ops.insert(program.ops.begin() + 2, op("zero_grad", {effect(kGradients, -10)}));
  const MemoryPeak peak = memory_peak(program);
  BOOST_TEST(peak.use.total().value() == 28);
  BOOST_TEST(peak.label == "forward b");
}

BOOST_AUTO_TEST_CASE(the_resident_memory_alone_has_no_operation) {
  const Program program{
      .name = "idle", .lanes = {}, .ops = {op("join", {})}, .resident = {effect(kParameters, 7)}};
  const MemoryPeak peak = memory_peak(program);
  BOOST_TEST(peak.use.total().value() == 7);
  BOOST_TEST(peak.label == "");
}

BOOST_AUTO_TEST_CASE(the_first_of_equal_peaks_is_named) {
  const Program program{.name = "worker",
                        .lanes = {},
                        .ops = {op("first", {effect(kWorkspace, 3), effect(kWorkspace, -3)}),
                                op("second", {effect(kWorkspace, 3), effect(kWorkspace, -3)})},
                        .resident = {}};
  BOOST_TEST(memory_peak(program).label == "first");
}

BOOST_AUTO_TEST_CASE(fractions_of_a_byte_do_not_count_as_a_leak) {
  // Shares of a tensor over 3 ranks, taken in parts and given back whole.
  const Program program{
      .name = "worker",
      .lanes = {},
      .ops = {op("take", {effect(kWorkspace, 1e9 / 3), effect(kWorkspace, 2e9 / 3)}),
              op("give", {effect(kWorkspace, -1e9)})},
      .resident = {}};
  BOOST_TEST(memory_peak(program).use.total().value() == 1e9, boost::test_tools::tolerance(1e-12));
}

BOOST_AUTO_TEST_CASE(giving_back_more_than_was_taken_is_our_bug) {
  const Program program{.name = "worker",
                        .lanes = {},
                        .ops = {op("backward a", {effect(kActivations, -1)})},
                        .resident = {}};
  BOOST_CHECK_EXCEPTION(memory_peak(program), InternalError, [](const InternalError& error) {
    return says(error, "internal error: activations memory falls below zero at \"backward a\"");
  });
}

BOOST_AUTO_TEST_CASE(keeping_what_was_taken_is_our_bug) {
  Program program = two_layers();
  program.ops[4].memory = {effect(kGradients, -9)};
  BOOST_CHECK_EXCEPTION(memory_peak(program), InternalError, [](const InternalError& error) {
    return says(error, "internal error: an iteration of \"worker\" keeps 1 B of gradients memory");
  });
}

BOOST_AUTO_TEST_CASE(the_cuda_context_is_500_mebibytes) {
  BOOST_TEST(cuda_context().value() == 524288000);
}
