// Buckets against c10d's compute_bucket_assignment_by_size, worked out by hand.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "strategy/buckets.hpp"
#include "strategy/jobs.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(buckets_test)
namespace {

namespace data = boost::unit_test::data;

/// A model of fp32 tensors, their sizes in MiB, unit by unit.
Model model_of(const std::vector<std::vector<double>>& units) {
  Model model;
  for (const auto& tensors : units) {
    Unit unit;
    for (const double size : tensors)
      unit.tensors.push_back(static_cast<std::int64_t>(size * kMiB / 4));
    model.units.push_back(unit);
  }
  return model;
}

std::vector<Bucket> buckets_of(const Model& model, double first_cap, double cap) {
  return assign_buckets(model, Bytes(4), Bytes(first_cap * kMiB), Bytes(cap * kMiB));
}

/// "size@unit", sizes in MiB.
std::string shown(const std::vector<Bucket>& buckets) {
  std::string text;
  for (const Bucket& bucket : buckets)
    text +=
        (text.empty() ? "" : " ") + format(bucket.size) + "@" + std::to_string(bucket.first_unit);
  return text;
}

BOOST_AUTO_TEST_CASE(tensors_fill_buckets_from_the_last_one_back) {
  // Reversed: 3 | 2 2 | 1 with the cap 4: [3 2] closes at 5, [2 1] is left over.
  BOOST_TEST(shown(buckets_of(model_of({{1}, {2, 2}, {3}}), 4, 4)) == "5.00 MiB@1 3.00 MiB@0");
}

BOOST_AUTO_TEST_CASE(a_bucket_closes_when_it_holds_exactly_its_cap) {
  BOOST_TEST(shown(buckets_of(model_of({{2}, {2}, {2}, {2}}), 4, 4)) == "4.00 MiB@2 4.00 MiB@0");
}

BOOST_AUTO_TEST_CASE(a_byte_less_than_the_cap_takes_one_more_tensor) {
  BOOST_TEST(shown(buckets_of(model_of({{2}, {2}, {2}, {2 - 4 / kMiB}}), 4, 4)) ==
             "6.00 MiB@1 2.00 MiB@0");
}

BOOST_AUTO_TEST_CASE(only_the_first_bucket_has_the_first_cap) {
  // 1 closes at once, then 1+...: 25 of them for the second, the rest is the third.
  const Model model = model_of({std::vector<double>(30, 1)});
  BOOST_TEST(shown(buckets_of(model, 1, 25)) == "1.00 MiB@0 25.0 MiB@0 4.00 MiB@0");
}

BOOST_AUTO_TEST_CASE(a_tensor_larger_than_the_cap_is_a_bucket_of_its_own_only_if_it_comes_first) {
  BOOST_TEST(shown(buckets_of(model_of({{100}, {1}, {0.5}}), 1, 25)) == "1.50 MiB@1 100 MiB@0");
  BOOST_TEST(shown(buckets_of(model_of({{100}, {1}, {1}}), 1, 25)) == "1.00 MiB@2 101 MiB@0");
}

BOOST_AUTO_TEST_CASE(a_bucket_may_hold_parts_of_several_units_and_a_unit_may_fill_several_buckets) {
  // Reversed: 1 2 3 | 4 5: [1 2] [3 4] [5].
  BOOST_TEST(shown(buckets_of(model_of({{5, 4}, {3, 2, 1}}), 3, 5)) ==
             "3.00 MiB@1 7.00 MiB@0 5.00 MiB@0");
}

BOOST_AUTO_TEST_CASE(units_without_parameters_have_no_part_in_a_bucket) {
  BOOST_TEST(shown(buckets_of(model_of({{}, {2}, {}, {2}, {}}), 3, 3)) == "4.00 MiB@1");
  BOOST_TEST(buckets_of(model_of({{}, {}}), 1, 25).empty());
}

BOOST_AUTO_TEST_CASE(the_head_of_vgg16_is_its_first_buckets) {
  // classifier.6: bias 4,000 B, then weight 16,384,000 B: the first bucket closes there, above 1
  // MiB. classifier.3: bias 16,384 B and weight 67,108,864 B close the second. classifier.0: bias
  // 16,384 B and weight 411,041,792 B the third. The 13 convolutions have 14,714,688 parameters,
  // 58,858,752 B. From the back, biases 512 x 4 B and weights 2,359,296 x 4 B: two of them
  // 18,878,464, three 28,317,696 B: the fourth bucket closes, 26,214,400 B are passed.
  const auto buckets = buckets_of(build_architecture("vgg16", {}), 1, 25);
  BOOST_REQUIRE_GE(buckets.size(), 4U);
  BOOST_TEST(buckets[0].size.value() == 4000 + 16384000);
  BOOST_TEST(buckets[1].size.value() == 16384 + 67108864);
  BOOST_TEST(buckets[2].size.value() == 16384 + 411041792);
  BOOST_TEST(buckets[3].size.value() == 3 * (2048 + 9437184));
}

BOOST_AUTO_TEST_CASE(the_first_bucket_of_resnet50_is_its_classifier) {
  // fc: bias 1,000 x 4 B is less than 1 MiB, so its weight, 2,048,000 x 4 B, joins it.
  const auto buckets = buckets_of(build_architecture("resnet50", {}), 1, 25);
  BOOST_TEST(buckets[0].size.value() == 8196000);
}

BOOST_DATA_TEST_CASE(every_gradient_of_a_real_network_is_in_one_bucket,
                     data::make(architecture_names()), name) {
  const Model model = build_architecture(name, {});
  const auto buckets = buckets_of(model, 1, 25);
  Bytes sum;
  std::size_t earliest = model.units.size();
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    sum += buckets[i].size;
    BOOST_TEST(buckets[i].first_unit <= earliest);
    earliest = buckets[i].first_unit;
    if (i + 1 < buckets.size()) BOOST_TEST(buckets[i].size.value() >= (i == 0 ? 1 : 25) * kMiB);
  }
  BOOST_TEST(sum.value() == 4.0 * static_cast<double>(model.parameters()));
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
