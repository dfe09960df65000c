// What a profile says of units, whatever the batch, is what the simulator knows of the same
// networks.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "base/error.hpp"
#include "measure/compute_calibration.hpp"
#include "measure/step_runner.hpp"
#include "model/memory_tape.hpp"
#include "models/networks.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(measure_units_test)
namespace {

namespace data = boost::unit_test::data;
namespace tt = boost::test_tools;

struct Network {
  std::string name;
  ModelShape shape;
};
std::ostream& operator<<(std::ostream& out, const Network& network) { return out << network.name; }

/// The built-in networks that a small machine can hold, on inputs as small as their strides allow.
const std::vector<Network> kNetworks = {{"vgg16", {.image = 32}},
                                        {"resnet50", {.image = 32}},
                                        {"densenet121", {.image = 32}},
                                        {"efficientnet_v2_l", {.image = 32}},
                                        {"convnext_large", {.image = 32}},
                                        {"gpt2", {.sequence = 8}},
                                        {"gpt2", {.sequence = 8, .flash_attention = false}},
                                        {"bert_large", {.sequence = 8}},
                                        {"small_cnn", {}},
                                        {"small_mlp", {}}};

void check_same_units(const std::vector<ProfiledUnit>& units, const Model& model) {
  BOOST_REQUIRE(units.size() == model.units.size());
  for (std::size_t i = 0; i < units.size(); ++i) {
    BOOST_TEST_CONTEXT(model.units[i].name) {
      BOOST_TEST(units[i].name == model.units[i].name);
      BOOST_TEST(units[i].tensors == model.units[i].tensors, tt::per_element());
      BOOST_TEST(units[i].buffer_elements == model.units[i].buffer_elements);
    }
  }
}

void check_same_flops(const UnitOperators& counted, const Model& model, double batch) {
  for (std::size_t i = 0; i < model.units.size(); ++i) {
    double forward = 0, backward = 0;
    for (const Operator& op : model.units[i].operators) {
      forward += batch * op.forward_flops;
      backward += batch * op.backward_flops;
    }
    BOOST_TEST_CONTEXT(model.units[i].name) {
      BOOST_TEST(counted.forward[i].flops.value() == forward, tt::tolerance(1e-6));
      BOOST_TEST(counted.backward[i].flops.value() == backward, tt::tolerance(1e-6));
    }
  }
}

/// On CPUs dropout keeps more than a GPU's, and attention other tensors: networks without.
bool keeps_what_gpus_keep(const std::string& name) {
  return name == "resnet50" || name == "densenet121" || name == "small_cnn" || name == "small_mlp";
}

/// The whole network: what lives on a GPU's tape when forward is over.
void check_same_saved(const UnitBytes& counted, const Model& model, std::int64_t batch) {
  double real = 0, simulated = 0;
  for (const Bytes saved : counted.saved) real += saved.value();
  const MemoryTape tape = memory_tape(model, {.precision = Precision::fp32, .batch = batch});
  for (const UnitTape& unit : tape.units) {
    for (const TapeEvent& event : unit.forward) {
      simulated += (event.takes ? 1 : -1) * tape.tensors.at(event.tensor).size.value();
    }
  }
  BOOST_TEST(std::abs(real - simulated) <= 16, real << " is not " << simulated);  // the targets
}

BOOST_DATA_TEST_CASE(units_flops_and_saved_bytes_are_the_simulators, data::make(kNetworks),
                     network) {
  constexpr std::int64_t kBatch = 2;
  const auto device = make_cpu_device();
  const Chain chain = build_chain(network.name, network.shape);
  const Model model = build_architecture(network.name, network.shape);
  check_same_units(profiled_units(chain), model);
  StepRunner runner(chain, *device, Precision::fp32);
  const Batch batch = random_batch(chain.input, kBatch, torch::kCPU);
  check_same_flops(runner.count_operators(batch), model, kBatch);
  if (keeps_what_gpus_keep(network.name)) {
    check_same_saved(runner.count_bytes(batch), model, kBatch);
  }
}

const TransformerSize kTiny{.hidden = 32,
                            .heads = 4,
                            .kv_heads = 4,
                            .feed_forward = 64,
                            .vocabulary = 50,
                            .positions = 16,
                            .blocks = 2,
                            .dropout = 0};

BOOST_AUTO_TEST_CASE(a_tied_weight_is_stated_once) {
  const Chain chain = gpt2_chain("tiny", kTiny, {.sequence = 8});
  const std::vector<ProfiledUnit> units = profiled_units(chain);
  const std::vector<std::int64_t> embeddings = {50 * 32, 16 * 32}, head = {32, 32};
  BOOST_TEST(units.front().tensors == embeddings, tt::per_element());
  BOOST_TEST(units.back().tensors == head, tt::per_element());
  std::int64_t sum = 0;
  for (const ProfiledUnit& unit : units) sum += unit.parameters();
  BOOST_TEST(sum == parameter_count(chain));
}

BOOST_AUTO_TEST_CASE(points_of_other_units_are_not_added_to) {
  const auto device = make_cpu_device();
  const ComputePlan plan{.model = "small_mlp",
                         .shape = {.image = 8},
                         .batches = {1},
                         .optimizers = {},
                         .repetitions = kLeastRepetitions,
                         .warmup = 0};
  const ComputeWatch watch{.progress = [](double, const std::string&) {},
                           .keep = [](const ComputeProfile&) {},
                           .stop = [] { return false; }};
  ComputeProfile profile;
  profile.rates.memory = Bytes(1);  // known: not measured again
  BOOST_TEST(calibrate_compute(plan, *device, profile, watch));
  BOOST_TEST(calibrate_compute(plan, *device, profile, watch));
  profile.units.front().tensors.front() += 1;
  BOOST_CHECK_THROW(calibrate_compute(plan, *device, profile, watch), InputError);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
