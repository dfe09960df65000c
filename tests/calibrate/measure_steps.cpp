// What is measured adds up: times of units to those of steps, bytes to those of tensors.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <limits>

#include "measure/compute_calibration.hpp"
#include "measure/counting_allocator.hpp"
#include "measure/precision.hpp"
#include "measure/statistics.hpp"
#include "measure/step_runner.hpp"
#include "models/networks.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(measure_steps_test)
namespace {

namespace data = boost::unit_test::data;
namespace tt = boost::test_tools;

BOOST_AUTO_TEST_CASE(median_and_quartiles_of_five_are_the_third_second_and_fourth) {
  const Spread spread = spread_of({Seconds(5), Seconds(1), Seconds(2), Seconds(3), Seconds(4)});
  BOOST_TEST(spread.median.value() == 3);
  BOOST_TEST(spread.relative == (4.0 - 2.0) / 3.0, tt::tolerance(1e-12));
  BOOST_TEST(spread_of({Seconds(1), Seconds(2)}).median.value() == 1.5);
  BOOST_TEST(spread_of({Seconds(0)}).relative == 0);
}

BOOST_AUTO_TEST_CASE(the_allocator_counts_what_tensors_ask_for) {
  install_counting_allocator();
  const Bytes before = counted_live();
  reset_counted_peak();
  {
    const torch::Tensor kept = torch::zeros({1000});
    { const torch::Tensor passing = torch::zeros({500}); }
    BOOST_TEST((counted_live() - before).value() == 4000);
    BOOST_TEST((counted_peak() - before).value() == 6000);
  }
  BOOST_TEST((counted_live() - before).value() == 0);
  reset_counted_peak();
  BOOST_TEST((counted_peak() - before).value() == 0);
}

/// A small convolutional network on the CPU, ready to run.
struct SmallCnn {
  std::unique_ptr<MeasuredDevice> device = make_cpu_device();
  Chain chain = build_chain("small_cnn", {.image = 16});
  Batch batch = random_batch(chain.input, 8, torch::kCPU);
  StepRunner runner{chain, *device, Precision::fp32};
};

BOOST_FIXTURE_TEST_CASE(saved_bytes_are_the_tensors_that_backward_needs, SmallCnn) {
  runner.make_gradients(batch);
  const UnitBytes bytes = runner.count_bytes(batch);
  // Per sample: conv1's output of 32 x 16 x 16 (ReLU in place, kept by it and by the pooling), the
  // pooled 32 x 8 x 8 (kept by conv2) and the pooling's indices of 8 bytes.
  const double conv1 = 8 * (32 * 16 * 16 * 4 + 32 * 8 * 8 * (4 + 8));
  const double conv2 = 8 * (64 * 8 * 8 * 4 + 64 * 4 * 4 * (4 + 8));
  const double fc1 = 8 * 128 * 4;
  BOOST_TEST(bytes.saved[0].value() == conv1);
  BOOST_TEST(bytes.saved[1].value() == conv2);
  BOOST_TEST(bytes.saved[2].value() == fc1);
  for (const Bytes workspace : bytes.workspace) BOOST_TEST(workspace.value() >= 0);
}

BOOST_FIXTURE_TEST_CASE(timed_units_fit_into_the_step_around_them, SmallCnn) {
  const auto start = std::chrono::steady_clock::now();
  const UnitSamples samples = runner.time_units(batch);
  const std::chrono::duration<double> around = std::chrono::steady_clock::now() - start;
  BOOST_REQUIRE(samples.forward.size() == chain.units.size());
  BOOST_REQUIRE(samples.backward.size() == chain.units.size());
  double sum = 0;
  for (std::size_t i = 0; i < chain.units.size(); ++i) {
    BOOST_TEST(samples.forward[i].value() > 0);
    BOOST_TEST(samples.backward[i].value() > 0);
    sum += samples.forward[i].value() + samples.backward[i].value();
  }
  BOOST_TEST(sum <= around.count());
}

BOOST_FIXTURE_TEST_CASE(timing_units_leaves_gradients_as_they_are, SmallCnn) {
  runner.make_gradients(batch);
  std::vector<torch::Tensor> plain;
  for (const torch::Tensor& tensor : parameters(chain)) plain.push_back(tensor.grad().clone());
  runner.time_units(batch);
  std::size_t i = 0;
  for (const torch::Tensor& tensor : parameters(chain)) {
    BOOST_TEST(torch::allclose(tensor.grad(), plain[i++]));
  }
}

BOOST_FIXTURE_TEST_CASE(the_peak_holds_parameters_gradients_and_what_is_saved, SmallCnn) {
  const auto optimizer = default_optimizer("sgd", parameters(chain));
  const UnitBytes bytes = runner.count_bytes(batch);
  double least = 2 * 4 * static_cast<double>(parameter_count(chain));
  for (const Bytes saved : bytes.saved) least += saved.value() / 2;
  BOOST_TEST(runner.count_peak(batch, *optimizer).allocated.value() > least);
}

BOOST_DATA_TEST_CASE(the_two_implementations_of_an_optimizer_agree, data::make(timed_optimizers()),
                     kind) {
  std::vector<torch::Tensor> ends;
  for (const bool foreach : {false, true}) {
    torch::manual_seed(5);
    torch::Tensor weight = torch::rand({7, 3}, torch::kFloat64).set_requires_grad(true);
    const auto optimizer =
        make_optimizer({.kind = kind, .learning_rate = 0.1, .foreach = foreach}, {weight});
    for (int step = 0; step < 5; ++step) {
      weight.mutable_grad() = torch::Tensor();
      weight.pow(3).sum().backward();
      optimizer->step();
    }
    ends.push_back(weight.detach());
  }
  BOOST_TEST(torch::allclose(ends[0], ends[1], 1e-12, 1e-12));
}

BOOST_AUTO_TEST_CASE(autocast_saves_less_than_fp32) {
  const auto device = make_cpu_device();
  const Chain chain = gpt2_chain("tiny",
                                 {.hidden = 64,
                                  .heads = 4,
                                  .feed_forward = 256,
                                  .vocabulary = 100,
                                  .positions = 32,
                                  .blocks = 1,
                                  .dropout = 0},
                                 {.sequence = 32});
  const Batch batch = random_batch(chain.input, 16, torch::kCPU);
  const Bytes wide = StepRunner(chain, *device, Precision::fp32).count_bytes(batch).saved[1];
  const Bytes narrow = StepRunner(chain, *device, Precision::bf16).count_bytes(batch).saved[1];
  BOOST_TEST(narrow.value() < wide.value());
  BOOST_TEST(unsupported(Precision::tf32, torch::kCPU) == "tf32 needs a GPU");
  BOOST_TEST(unsupported(Precision::bf16, torch::kCPU) == "");
}

BOOST_AUTO_TEST_CASE(fp16_is_refused_without_a_gpu) {
  BOOST_TEST(unsupported(Precision::fp16, torch::kCPU) ==
             "fp16 (autocast with torch.cuda.amp's loss scaling) needs a GPU; measure bf16");
  BOOST_TEST(unsupported(Precision::fp16, torch::Device(torch::kCUDA, 0)) == "");
}

/// Whether this LibTorch has the scaler's operators on the CPU.
bool scales_on_cpu() {
  std::vector<torch::Tensor> gradients = {torch::ones({1})};
  torch::Tensor overflow = torch::zeros({});
  try {
    at::_amp_foreach_non_finite_check_and_unscale_(gradients, overflow, torch::ones({}));
  } catch (const c10::Error&) {
    return false;
  }
  return true;
}

BOOST_AUTO_TEST_CASE(a_scaled_step_is_the_plain_step_unless_a_gradient_overflows) {
  if (!scales_on_cpu()) return;
  torch::Tensor weight = torch::ones({3}).set_requires_grad(true);
  const auto optimizer = make_optimizer({.kind = "sgd", .learning_rate = 0.5}, {weight});
  LossScaler scaler(torch::kCPU);
  scaler.scale(2 * weight.sum()).backward();
  BOOST_TEST(weight.grad()[0].item<double>() == 2 * 65536.0);
  scaler.step(*optimizer, {weight});
  BOOST_TEST(weight[0].item<double>() == 0);  // 1 - 0.5 * 2
  BOOST_TEST(scaler.factor() == 65536);
  weight.mutable_grad() = torch::full({3}, std::numeric_limits<float>::infinity());
  scaler.step(*optimizer, {weight});
  BOOST_TEST(weight[0].item<double>() == 0);
  BOOST_TEST(scaler.factor() == 32768);
}

const ComputePlan kPlan{.model = "small_cnn",
                        .shape = {.image = 16},
                        .batches = {1, 4},
                        .optimizers = {"sgd", "adamw"},
                        .repetitions = 4,
                        .warmup = 1};

ComputeProfile small_profile() {
  ComputeProfile profile;
  profile.origin = {.device = "d", .libtorch = "l", .date = "t", .command = "c"};
  profile.model = "small_cnn";
  profile.image = 16;
  // Known, so not measured again.
  profile.rates = {
      .fp32 = FlopsPerSecond(1e9), .memory_bandwidth = BytesPerSecond(1e9), .memory = Bytes(1)};
  return profile;
}

BOOST_AUTO_TEST_CASE(a_calibration_ends_in_a_profile_that_is_read) {
  const auto device = make_cpu_device();
  ComputeProfile profile = small_profile();
  double last = 0;
  int kept = 0;
  const bool finished = calibrate_compute(kPlan, *device, profile,
                                          {.progress =
                                               [&](double share, const std::string&) {
                                                 BOOST_TEST(share >= last);
                                                 last = share;
                                               },
                                           .keep = [&](const ComputeProfile&) { ++kept; },
                                           .stop = [] { return false; }});
  BOOST_TEST(finished);
  BOOST_TEST(last == 1, tt::tolerance(1e-9));
  BOOST_TEST(kept == 1 + 2 + 2);  // at the start, after repetitions 3 and 4, after each optimizer
  BOOST_REQUIRE(profile.points.size() == 2U);
  BOOST_TEST(profile.points[1].repetitions == 4);
  const auto read_back = [](const ComputeProfile& written) {
    return read_compute_profile(Document::parse(to_yaml(written), "profile.yaml")->root());
  };
  const ComputeProfile read = read_back(profile);  // times now have six digits
  BOOST_TEST((read_back(read) == read));
  const Model model = build_architecture("small_cnn", {.image = 16});
  for (std::size_t i = 0; i < model.units.size(); ++i) {
    BOOST_TEST(read.points[0].units[i].name == model.units[i].name);
    BOOST_TEST(read.units[i].parameters() == model.units[i].parameters());
    BOOST_TEST(read.points[1].units[i].forward_flops.value() ==
               4 * read.points[0].units[i].forward_flops.value());
    BOOST_TEST(read.points[1].units[i].backward_moved.value() >
               read.points[0].units[i].backward_moved.value());
  }
  const ComputePlan left = remaining(kPlan, profile);
  BOOST_TEST(left.batches.empty());
  BOOST_TEST(left.optimizers.empty());
}

BOOST_AUTO_TEST_CASE(a_stopped_calibration_keeps_its_points_and_goes_on_from_there) {
  const auto device = make_cpu_device();
  ComputeProfile profile = small_profile();
  ComputePlan plan = kPlan;
  plan.repetitions = 5;
  int steps = 0;
  // Two warm-ups and counts, then three rounds of two batches.
  const ComputeWatch stops_after_three_rounds{.progress = [](double, const std::string&) {},
                                              .keep = [](const ComputeProfile&) {},
                                              .stop = [&] { return ++steps == 2 * 2 + 3 * 2; }};
  BOOST_TEST(!calibrate_compute(plan, *device, profile, stops_after_three_rounds));
  BOOST_REQUIRE(profile.points.size() == 2U);
  BOOST_TEST(profile.points[0].repetitions == 3);
  BOOST_TEST(remaining(plan, profile).batches.size() == 2U);  // too few repetitions
  plan.repetitions = 3;
  BOOST_TEST(remaining(plan, profile).batches.empty());
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
