// Which profile a model's costs come from: the GPU's own, another device's, or none.
#include "cost/cost_source.hpp"

#include <stdlib.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "../scratch.hpp"
#include "base/data_folder.hpp"
#include "base/error.hpp"
#include "config/whole_file.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(cost_source_test)
namespace {

namespace fs = std::filesystem;

/// small_cnn as a profile of a device of so many TFLOP/s and as many TB/s.
ComputeProfile profile_of(const std::string& device, double rate, bool cpu = false) {
  const Model model = build_architecture("small_cnn", {});
  ComputeProfile profile;
  profile.origin = {.device = device, .libtorch = "2.13", .date = "2026-11-20", .command = "none"};
  if (!cpu) profile.origin.cuda = "13.0";
  profile.model = "small_cnn";
  profile.image = 32;
  profile.rates.fp32 = FlopsPerSecond(rate * 1e12);
  profile.rates.memory_bandwidth = BytesPerSecond(rate * 1e12);
  BatchPoint point;
  point.batch = 1024;
  point.whole.step = Seconds(1);
  for (const Unit& unit : model.units) {
    profile.units.push_back({unit.name, unit.tensors, unit.buffer_elements});
    point.units.push_back({.name = unit.name,
                           .forward = Seconds(1e-3),
                           .backward = Seconds(2e-3),
                           .forward_launch = {},
                           .backward_launch = {},
                           .saved = {},
                           .workspace = {},
                           .forward_flops = {},
                           .backward_flops = {},
                           .forward_moved = {},
                           .backward_moved = {}});
    point.whole.forward += Seconds(1e-3);
    point.whole.backward += Seconds(2e-3);
  }
  profile.points = {point};
  return profile;
}

/// A platforms/ folder of our own, with no profile yet.
class Platforms {
 public:
  Platforms() {
    fs::copy(data_folder() / "platforms" / "gpus.yaml", folder_ / "gpus.yaml");
    setenv("REHEARSE_PLATFORMS", folder_.path().c_str(), 1);
  }
  ~Platforms() { unsetenv("REHEARSE_PLATFORMS"); }
  Platforms(const Platforms&) = delete;
  Platforms& operator=(const Platforms&) = delete;

  /// Ships a profile; its folder.
  fs::path ship(const std::string& device, const ComputeProfile& profile,
                const std::string& name = "small_cnn_fp32.yaml") const {
    const fs::path folder = compute_profiles_folder() / device;
    write_whole_file(folder / name, to_yaml(profile));
    return folder;
  }

 private:
  Scratch folder_;
};

Gpu target(double rate, const fs::path& profiles = {}) {
  Gpu gpu;
  gpu.name = "target";
  gpu.fp32 = FlopsPerSecond(rate * 1e12);
  gpu.memory_bandwidth = BytesPerSecond(rate * 1e12);
  gpu.profiles = profiles.string();
  return gpu;
}

std::optional<CostSource> source_for(const Gpu& gpu, const ModelShape& shape = {},
                                     const CostChoice& choice = {},
                                     Precision precision = Precision::fp32) {
  const Model model = build_architecture("small_cnn", shape);
  const AnalyticEfficiency efficiency;
  ProfileLibrary library;
  return cost_source({model, precision, 1024, efficiency}, gpu, choice, library);
}

std::string file_for(const Gpu& gpu, const ModelShape& shape = {}, const CostChoice& choice = {}) {
  const auto source = source_for(gpu, shape, choice);
  return source ? source->file : "none";
}

/// The first line of the error.
template <class Work>
std::string error_of(Work work) {
  try {
    work();
  } catch (const InputError& error) {
    const std::string text = error.what();
    return text.substr(0, text.find('\n'));
  }
  return "no error";
}

BOOST_AUTO_TEST_CASE(without_profiles_costs_are_computed) {
  const Platforms platforms;
  BOOST_TEST(file_for(target(10)) == "none");
}

BOOST_AUTO_TEST_CASE(a_gpus_own_profile_is_taken_unscaled) {
  const Platforms platforms;
  platforms.ship("other", profile_of("other", 10));
  const Gpu gpu = target(10, platforms.ship("own", profile_of("own", 5)));
  const auto source = source_for(gpu);
  BOOST_REQUIRE(source.has_value());
  BOOST_TEST(source->file == "own/small_cnn_fp32.yaml");
  BOOST_TEST(!source->device.has_value());
}

BOOST_AUTO_TEST_CASE(a_profile_of_another_sample_precision_or_option_does_not_speak) {
  const Platforms platforms;
  const Gpu gpu = target(10, platforms.ship("own", profile_of("own", 10)));
  BOOST_TEST(file_for(gpu, {.image = 64}) == "none");
  BOOST_TEST(file_for(gpu, {.channels_last = true}) == "none");
  BOOST_TEST(!source_for(gpu, {}, {}, Precision::tf32).has_value());
  BOOST_TEST(file_for(gpu, {}, {.analytic = true, .transfer_from = {}, .profile = {}}) == "none");
  BOOST_TEST(file_for(gpu) == "own/small_cnn_fp32.yaml");
}

BOOST_AUTO_TEST_CASE(another_device_speaks_that_needs_the_least_scaling) {
  const Platforms platforms;
  platforms.ship("a_slow", profile_of("slow", 1));
  platforms.ship("b_near", profile_of("near", 8));
  platforms.ship("c_fast", profile_of("fast", 100));
  const auto source = source_for(target(10));
  BOOST_REQUIRE(source.has_value());
  BOOST_TEST(source->file == "b_near/small_cnn_fp32.yaml");
  BOOST_TEST(source->device->fp32.value() == 8e12);
  BOOST_TEST(source->device->source == "rates of its profile");
  BOOST_TEST(file_for(target(2)) == "a_slow/small_cnn_fp32.yaml");
}

BOOST_AUTO_TEST_CASE(a_device_of_gpus_yaml_has_its_datasheets_rates) {
  const Platforms platforms;
  platforms.ship("A100-SXM-80", profile_of("NVIDIA A100", 10));
  const auto source = source_for(target(10));
  BOOST_REQUIRE(source.has_value());
  BOOST_TEST(source->device->name == "A100-SXM-80");
  BOOST_TEST(source->device->memory_bandwidth.value() == 2039e9);
  // And for the A100 itself it is no transfer.
  BOOST_TEST(!source_for(known_gpu("A100-SXM-80"))->device.has_value());
}

BOOST_AUTO_TEST_CASE(cpus_do_not_speak_for_gpus_nor_gpus_for_cpus) {
  const Platforms platforms;
  const fs::path cpu = platforms.ship("cpu", profile_of("cpu", 10, true));
  BOOST_TEST(file_for(target(10)) == "none");
  // A CPU is known by a profile of its own, of whatever model.
  ComputeProfile other = profile_of("mine", 9, true);
  other.model = "something";
  const Gpu mine = target(10, platforms.ship("mine", other, "something.yaml"));
  platforms.ship("gpu", profile_of("gpu", 10));
  BOOST_TEST(file_for(mine) == "cpu/small_cnn_fp32.yaml");
  BOOST_TEST(error_of([&] {
               file_for(target(10), {}, {false, cpu, {}});
             }) ==
             "cpu/small_cnn_fp32.yaml: error: measured on a CPU, which does not tell what a GPU "
             "takes");
}

BOOST_AUTO_TEST_CASE(a_source_that_is_named_wins_over_a_profile_of_the_gpu) {
  const Platforms platforms;
  const fs::path other = platforms.ship("other", profile_of("other", 1));
  const Gpu gpu = target(10, platforms.ship("own", profile_of("own", 10)));
  const auto source = source_for(gpu, {}, {false, other, {}});
  BOOST_TEST(source->file == "other/small_cnn_fp32.yaml");
  BOOST_TEST(source->device.has_value());
  BOOST_TEST(!source_for(gpu, {}, {false, gpu.profiles, {}})->device.has_value());
}

BOOST_AUTO_TEST_CASE(profiles_that_contradict_are_refused) {
  const Platforms platforms;
  const Gpu gpu = target(10, platforms.ship("own", profile_of("own", 10)));
  BOOST_TEST(error_of([&] { file_for(gpu, {.classes = 100}); }) ==
             "own/small_cnn_fp32.yaml: error: unit \"fc2\" has 1290 parameters; the model's has "
             "12900");
  // One that would be carried over is passed by.
  BOOST_TEST(file_for(target(10), {.classes = 100}) == "none");
  platforms.ship("own", profile_of("own", 10), "twice.yaml");
  BOOST_TEST(error_of([&] { file_for(gpu); }) ==
             "own/twice.yaml: error: a second profile of small_cnn, 3x32x32 image, fp32; the first "
             "is own/small_cnn_fp32.yaml");
}

BOOST_AUTO_TEST_CASE(files_of_other_models_are_not_read) {
  const Platforms platforms;
  const fs::path own = platforms.ship("own", profile_of("own", 10));
  write_whole_file(own / "broken.yaml", "model: resnet50\nbroken\n");
  BOOST_TEST(file_for(target(10, own)) == "own/small_cnn_fp32.yaml");
  write_whole_file(own / "broken.yaml", "model: small_cnn\nbroken: 1\n");
  BOOST_CHECK_THROW(file_for(target(10, own)), InputError);
}

BOOST_AUTO_TEST_CASE(a_profile_is_a_model) {
  const Platforms platforms;
  ProfileLibrary library;
  const StoredProfile stored =
      library.read(platforms.ship("own", profile_of("own", 10)) / "small_cnn_fp32.yaml");
  const Model model = model_of(stored);
  const Model built = build_architecture("small_cnn", {});
  BOOST_TEST(model.parameters() == built.parameters());
  BOOST_TEST(model.sample == built.sample);
  BOOST_TEST(model.input_elements == built.input_elements);
  const AnalyticEfficiency efficiency;
  const CostSubject subject{model, Precision::fp32, 1024, efficiency};
  const CostChoice choice{.transfer_from = {}, .profile = stored};
  // On its own device, by name or by folder, it is measured; elsewhere carried over.
  Gpu own = target(10);
  own.name = "own";
  BOOST_TEST(!cost_source(subject, own, choice, library)->device.has_value());
  const Gpu by_folder = target(10, compute_profiles_folder() / "own");
  BOOST_TEST(!cost_source(subject, by_folder, choice, library)->device.has_value());
  BOOST_TEST(cost_source(subject, target(10), choice, library)->device->name == "own");
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
