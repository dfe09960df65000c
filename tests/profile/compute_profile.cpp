// The file of a measured compute profile: what is written is read, what is wrong is told, and what
// lies between measured batches is on the line between them.
#include "profile/compute_profile.hpp"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <functional>

#include "../scratch.hpp"
#include "base/error.hpp"
#include "config/whole_file.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(compute_profile_test)
namespace {

namespace data = boost::unit_test::data;
namespace tt = boost::test_tools;

UnitTimes unit(const std::string& name, double forward_ms, double backward_ms, double saved) {
  return {.name = name,
          .forward = Seconds(forward_ms * 1e-3),
          .backward = Seconds(backward_ms * 1e-3),
          .forward_spread = 0.02,
          .backward_spread = 0.03,
          .forward_launch = Seconds(forward_ms * 1e-6),
          .backward_launch = Seconds(forward_ms * 1e-6),
          .saved = Bytes(saved),
          .workspace = Bytes(saved / 2),
          .forward_flops = Flops(forward_ms * 1e6),
          .backward_flops = Flops(backward_ms * 1e6),
          .forward_moved = Bytes(forward_ms * 1e3),
          .backward_moved = Bytes(backward_ms * 1e3)};
}

BatchPoint point(std::int64_t batch, std::vector<UnitTimes> units) {
  BatchPoint result{.batch = batch,
                    .repetitions = 20,
                    .allocated_peak = Bytes(1e6 * static_cast<double>(batch)),
                    .reserved_peak = Bytes(2e6 * static_cast<double>(batch)),
                    .whole = {.forward = Seconds(3e-3),
                              .backward = Seconds(7e-3),
                              .optimizer = Seconds(1e-3),
                              .step = Seconds(12e-3)},
                    .units = std::move(units)};
  return result;
}

/// Batch 2: 1 + 2 and 2 + 4 ms; batch 6: 3 + 6 and 4 + 10 ms.
ComputeProfile two_points() {
  ComputeProfile profile;
  profile.origin = {.device = "A \"quoted\" device",
                    .libtorch = "1.13.1",
                    .date = "2026-11-20T15:00:00Z",
                    .command = "rehearse-calibrate compute --model toy",
                    .host_threads = 2};
  profile.model = "toy";
  profile.image = 32;
  profile.rates = {.fp32 = FlopsPerSecond(19.5e12),
                   .bf16 = FlopsPerSecond(312e12),
                   .memory_bandwidth = BytesPerSecond(1.5e12),
                   .memory = Bytes(1024)};
  profile.units = {{"stem", {900, 100}, 20}, {"head", {1000}}};
  profile.optimizers = {{"sgd", Seconds(1.25e-3), 0.05, 20}, {"adam", Seconds(0.5), 0.01, 20}};
  profile.points = {point(2, {unit("stem", 1, 2, 1024), unit("head", 2, 4, 4096)}),
                    point(6, {unit("stem", 3, 6, 3072), unit("head", 4, 10, 4096)})};
  return profile;
}

ComputeProfile read(const std::string& text) {
  return read_compute_profile(Document::parse(text, "profile.yaml")->root());
}

BOOST_AUTO_TEST_CASE(what_is_written_is_read) {
  const ComputeProfile profile = two_points();
  BOOST_TEST((read(to_yaml(profile)) == profile));
  BOOST_TEST(to_yaml(read(to_yaml(profile))) == to_yaml(profile));
}

BOOST_AUTO_TEST_CASE(a_profile_without_points_yet_is_read) {
  ComputeProfile profile = two_points();
  profile.points.clear();
  profile.optimizers.clear();
  BOOST_TEST((read(to_yaml(profile)) == profile));
}

BOOST_AUTO_TEST_CASE(the_file_states_what_the_units_add_up_to) {
  // Batch 2: 9 ms of units in 10 ms of forward and backward.
  const std::string text = to_yaml(two_points());
  BOOST_TEST(two_points().points[0].sum_difference() == -0.1, tt::tolerance(1e-12));
  BOOST_TEST(text.find("sum_check: {units: 9.00000ms, whole: 10.0000ms, difference: -0.1000}") !=
             std::string::npos);
}

/// The message for a text in which `from` became `to`.
std::string message_of(const std::string& from, const std::string& to) {
  std::string text = to_yaml(two_points());
  const std::size_t at = text.find(from);
  BOOST_REQUIRE(at != std::string::npos);
  text.replace(at, from.size(), to);
  try {
    read(text);
  } catch (const InputError& error) {
    const std::string what = error.what();
    return what.substr(0, what.find('\n'));
  }
  return "no error";
}

BOOST_AUTO_TEST_CASE(a_wrong_file_is_told_where_it_is_wrong) {
  const auto ends = [](const std::string& text, const std::string& end) {
    BOOST_TEST_CONTEXT(text) { BOOST_TEST(text.ends_with(end)); }
  };
  ends(message_of("rehearse.profile/1", "rehearse.profile/2"),
       "schema: expected one of rehearse.profile/1; got \"rehearse.profile/2\"");
  ends(message_of("kind: compute", "kind: comm"), "kind: expected one of compute; got \"comm\"");
  ends(message_of("precision: fp32", "precision: fp4"), "got \"fp4\"");
  ends(message_of("batch: 6", "batch: 2"), "points.1: expected a batch above 2, the one before");
  ends(message_of("{name: head, tensors", "{name: stem, tensors"),
       "units.1: a second unit named \"stem\"");
  ends(message_of("{name: head, forward", "{name: tail, forward"),
       "points.0.units: expected the profile's units, in their order");
  ends(message_of("sample: {image: 32}", "sample: {}"),
       "sample: expected an image size, a sequence length or an input");
  ends(message_of("forward: 1.00000ms", "forward: 1.5ms"), "is not the sum of the units' times");
  ends(message_of("difference: -0.1000", "difference: 0.01"),
       "is not what the units' sum differs from the whole by");
  BOOST_TEST(message_of("saved: 1KiB", "saved: 1024").find("expected a size with its unit") !=
             std::string::npos);
  BOOST_TEST(message_of("repetitions: 20\n", "repetition: 20\n") != "no error");
  BOOST_TEST(message_of("host_threads", "host_thread") != "no error");
}

BOOST_AUTO_TEST_CASE(names_that_yaml_would_read_otherwise_are_quoted) {
  ComputeProfile profile = two_points();
  for (BatchPoint& point : profile.points) point.units[0].name = "0";
  profile.units[0].name = "0";
  BOOST_TEST(to_yaml(profile).find("{name: \"0\", tensors: [900, 100], buffer_elements: 20}") !=
             std::string::npos);
  BOOST_TEST((read(to_yaml(profile)) == profile));
}

BOOST_AUTO_TEST_CASE(a_users_own_module_has_its_own_name_and_input) {
  ComputeProfile profile = two_points();
  profile.model = "2024-11 model";
  profile.image = 0;
  profile.input = "784:float";
  BOOST_TEST((read(to_yaml(profile)) == profile));
  const std::string text = to_yaml(profile);
  profile.sequence = 128;  // one sample is one thing
  BOOST_TEST(to_yaml(profile) != text);
  BOOST_TEST(message_of("sample: {image: 32}", "sample: {image: 32, input: \"784:float\"}") !=
             "no error");
}

BOOST_AUTO_TEST_CASE(a_truncated_file_is_an_error_unless_cut_between_points) {
  const std::string text = to_yaml(two_points());
  const std::size_t second = text.find("  - batch: 6");
  for (std::size_t length = 0; length + 1 < text.size(); ++length) {
    if (length + 1 >= second && length <= second + 2) continue;  // one whole point, "  " behind it
    BOOST_CHECK_THROW(read(text.substr(0, length)), InputError);
  }
  BOOST_TEST((read(text.substr(0, second)).points[0] == two_points().points[0]));
}

BOOST_DATA_TEST_CASE(measured_batches_are_given_as_measured, data::make({0, 1}), index) {
  const ComputeProfile profile = two_points();
  const BatchPoint& measured = profile.points[static_cast<std::size_t>(index)];
  const BatchCosts costs = profile.at(measured.batch);
  BOOST_TEST((costs.units == measured.units));
  BOOST_TEST(costs.allocated_peak.value() == measured.allocated_peak.value());
  BOOST_TEST(costs.outside == "");
}

BOOST_AUTO_TEST_CASE(between_measured_batches_costs_are_on_the_line) {
  // Batch 3 is a quarter of the way from 2 to 6.
  const BatchCosts costs = two_points().at(3);
  BOOST_TEST(costs.units[0].forward.value() == 1.5e-3, tt::tolerance(1e-12));
  BOOST_TEST(costs.units[0].backward.value() == 3e-3, tt::tolerance(1e-12));
  BOOST_TEST(costs.units[1].backward.value() == 5.5e-3, tt::tolerance(1e-12));
  BOOST_TEST(costs.units[0].saved.value() == 1536, tt::tolerance(1e-12));
  BOOST_TEST(costs.allocated_peak.value() == 3e6, tt::tolerance(1e-12));
  BOOST_TEST(costs.outside == "");
}

BOOST_AUTO_TEST_CASE(outside_of_measured_batches_the_line_goes_on_and_says_so) {
  const BatchCosts above = two_points().at(8);  // half a segment above 6
  BOOST_TEST(above.units[0].forward.value() == 4e-3, tt::tolerance(1e-12));
  BOOST_TEST(above.outside == "batch 8 from batches 2 to 6");
  const BatchCosts below = two_points().at(1);
  BOOST_TEST(below.units[1].backward.value() == 2.5e-3, tt::tolerance(1e-12));
  BOOST_TEST(below.outside == "batch 1 from batches 2 to 6");
}

BOOST_AUTO_TEST_CASE(an_extended_line_ends_at_zero) {
  ComputeProfile profile = two_points();
  profile.points[0].units[0].forward = Seconds(0.1e-3);  // 0.1 ms at 2, 3 ms at 6
  BOOST_TEST(profile.at(1).units[0].forward.value() == 0);
}

BOOST_AUTO_TEST_CASE(one_batch_alone_is_scaled_in_proportion) {
  ComputeProfile profile = two_points();
  profile.points.pop_back();
  BOOST_TEST(profile.at(4).units[1].forward.value() == 4e-3, tt::tolerance(1e-12));
  BOOST_TEST(profile.at(4).outside == "batch 4 from batch 2");
  BOOST_TEST(profile.at(2).outside == "");
}

BOOST_AUTO_TEST_CASE(a_file_is_replaced_as_a_whole) {
  const Scratch scratch;
  const auto file = scratch / "cpu" / "toy.yaml";
  write_whole_file(file, "old");
  write_whole_file(file, to_yaml(two_points()));
  BOOST_TEST((read(read_whole_file(file)) == two_points()));
  const auto beside = std::filesystem::directory_iterator(file.parent_path());
  BOOST_TEST(std::distance(begin(beside), end(beside)) == 1);  // no temporary file stays
  BOOST_CHECK_THROW(write_whole_file("/dev/full/toy.yaml", "text"), MissingError);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
