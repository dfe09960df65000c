#include <algorithm>
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <filesystem>

#include "base/data_folder.hpp"
#include "base/error.hpp"
#include "fit/segments.hpp"
#include "fixtures.hpp"
#include "profile/comm_profile.hpp"
#include "profile/import.hpp"
#include "profile/points_table.hpp"

BOOST_AUTO_TEST_SUITE(profile_file_test)

using namespace rehearse;
namespace data = boost::unit_test::data;

// --- files

namespace {

const std::string kGood = R"(name: toy
hardware: made up
source: here
curves:
  - collective: all_reduce
    ranks: 8
    nodes: 1
    segments:
      - {latency: 20us, busbw: 50GBps}
      - {latency: 100us, busbw: 200GBps}
    fitted_on: {smallest: 8B, largest: 1GiB}
    residual_median: 0.01
    residual_max: 0.05
    held_out_median: 0.02
    error_p90_small: 0.05
    error_p90_large: 0.03
    held_out_max: 0.06
)";

CommProfile parse(const std::string& text) {
  return read_comm_profile(Document::parse(text, "p.yaml")->root());
}

std::string with(const std::string& old_text, const std::string& new_text) {
  std::string text = kGood;
  const std::size_t at = text.find(old_text);
  BOOST_REQUIRE(at != std::string::npos);
  return text.replace(at, old_text.size(), new_text);
}

/// The first line of the error.
std::string complaint(const std::string& text) {
  try {
    parse(text);
  } catch (const InputError& error) {
    const std::string what = error.what();
    return what.substr(0, what.find('\n'));
  }
  return "no error";
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_profile_file_says_what_it_holds) {
  const CommProfile profile = parse(kGood);
  BOOST_TEST(profile.name == "toy");
  const CommCurve& curve = profile.curves.at(0);
  BOOST_TEST(curve.segments.at(1).latency.value() == 100e-6, kCloseEnough);
  BOOST_TEST(curve.segments.at(1).busbw.value() == 200e9, kCloseEnough);
  BOOST_TEST(curve.largest.value() == 1024 * kMiB);
  BOOST_TEST(curve.error_p90_large == 0.03);
}

BOOST_AUTO_TEST_CASE(what_is_written_reads_back_the_same) {
  CommProfile profile = parse(kGood);
  profile.hardware = "two \"odd\" \\ names: {a}";
  profile.curves.push_back(
      curve_of(CollectiveKind::send_recv, 2, 2, {{Seconds(0), BytesPerSecond(1.25e6)}}));
  profile.curves.back().smallest = Bytes(1000);
  const std::string text = to_yaml(profile);
  const CommProfile again = parse(text);
  BOOST_TEST(to_yaml(again) == text);
  BOOST_TEST(again.hardware == profile.hardware);
  BOOST_TEST(again.curves[1].segments[0].busbw.value() == 1.25e6, kCloseEnough);
  BOOST_TEST(again.curves[1].smallest.value() == 1000);
}

BOOST_AUTO_TEST_CASE(a_profile_says_what_links_it_was_measured_on) {
  BOOST_TEST(!parse(kGood).links.has_value());
  const CommProfile profile =
      parse(kGood +
            "links: {nvlink: 300GBps, nics: 4, nic: 100Gbps, nic_latency: 15us, transport: "
            "{rdma: {efficiency: 0.81, per_message: 13us}}}\n");
  BOOST_REQUIRE(profile.links.has_value());
  BOOST_TEST(profile.links->nvlink.value() == 300e9, kCloseEnough);
  BOOST_TEST(profile.links->nvlink_latency.value() == 0.6e-6, kCloseEnough);
  BOOST_TEST(profile.links->nics == 4);
  BOOST_TEST(profile.links->transport.efficiency == 0.81);
  BOOST_TEST(to_yaml(parse(to_yaml(profile))) == to_yaml(profile));
  const CommLinks tcp = *parse(kGood + "links: {nic: 25Gbps}\n").links;
  BOOST_TEST((tcp.transport.kind == NicTransport::Kind::tcp));
  BOOST_TEST(tcp.nic_latency.value() == 25e-6, kCloseEnough);
  CommLinks other = *profile.links;
  BOOST_TEST(differences(other, *profile.links, true, true) == "");
  other.nic = BytesPerSecond(50e9);
  BOOST_TEST(differences(other, *profile.links, true, true) ==
             "nic 50.0 GB/s, measured at 12.5 GB/s");
  BOOST_TEST(differences(other, *profile.links, true, false) == "");
}

BOOST_AUTO_TEST_CASE(a_bad_profile_is_refused_where_it_is_bad) {
  BOOST_TEST(complaint(with("nodes: 1", "nodes: 2") + "links: {nvlink: 300GBps}\n") ==
             "p.yaml:18:8: error: links: a curve crosses nodes, and the links name no NIC");
  BOOST_TEST(complaint(kGood + "links: {nics: 4}\n") ==
             "p.yaml:18:9: error: links.nics: describes a NIC without its rate");
  BOOST_TEST(complaint(kGood + "links: {nic: 25Gbps, transport: ib}\n")
                 .find("p.yaml:18:33: error: links.transport: ") == 0);

  BOOST_TEST(complaint(with("name: toy\n", "")).find("name") != std::string::npos);
  BOOST_TEST(complaint(with("latency: 20us", "latency: 20"))
                 .find("p.yaml:9:19: error: curves.0.segments.0.latency") == 0);
  BOOST_TEST(complaint(with("busbw: 50GBps", "busbw: 50"))
                 .find("p.yaml:9:32: error: curves.0.segments.0.busbw") == 0);
  BOOST_TEST(complaint(with("100us", "10us")) ==
             "p.yaml:10:9: error: curves.0.segments.1: expected a higher latency and a higher "
             "busbw than the segment "
             "before");
  BOOST_TEST(complaint(with("nodes: 1", "nodes: 9")).find("p.yaml:7:12: error: curves.0.nodes") ==
             0);
  BOOST_TEST(complaint(with("largest: 1GiB", "largest: 4B")) ==
             "p.yaml:11:40: error: curves.0.fitted_on.largest: expected no less than smallest");
  BOOST_TEST(complaint(with("residual_max: 0.05", "residual_mx: 0.05")).find("residual_max") !=
             std::string::npos);
  BOOST_TEST(complaint(with("residual_max: 0.05", "residual_max: -1"))
                 .find("p.yaml:13:19: error: curves.0.residual_max") == 0);
  const std::string curve = kGood.substr(kGood.find("  - collective"));
  BOOST_TEST(
      complaint(kGood + curve) ==
      "p.yaml:18:5: error: curves.1: a second curve of the same collective, ranks and nodes");
  BOOST_TEST(complaint("name: a\nhardware: b\nsource: c\ncurves: []\n") ==
             "p.yaml:4:9: error: curves: expected at least one curve");
}

// --- what is shipped

namespace {

const std::filesystem::path kShipped = data_folder() / "platforms/profiles/comm";

std::vector<std::string> shipped_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kShipped / "points")) {
    if (entry.path().extension() == ".csv") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

void check_same(double shipped, double fitted) {
  BOOST_TEST(std::abs(shipped - fitted) <= 1e-4 * std::max(std::abs(shipped), 1.0));
}

}  // namespace

// Compilers may differ in the last digits of a fit, not in its fourth.
BOOST_DATA_TEST_CASE(shipped_profiles_are_what_their_points_fit_to, data::make(shipped_names()),
                     name) {
  const CommProfile shipped =
      read_comm_profile(Document::load(kShipped / (name + ".yaml"))->root());
  const CommProfile fitted = parse(import_points({kShipped / "points" / (name + ".csv")}).text);
  BOOST_TEST(shipped.name == name);
  BOOST_TEST(shipped.hardware == fitted.hardware);
  BOOST_TEST(shipped.source == fitted.source);
  BOOST_REQUIRE_EQUAL(shipped.curves.size(), fitted.curves.size());
  for (std::size_t i = 0; i < shipped.curves.size(); ++i) {
    const CommCurve &a = shipped.curves[i], &b = fitted.curves[i];
    BOOST_REQUIRE_EQUAL(a.segments.size(), b.segments.size());
    for (std::size_t k = 0; k < a.segments.size(); ++k) {
      check_same(a.segments[k].latency.value() * 1e6, b.segments[k].latency.value() * 1e6);
      check_same(a.segments[k].busbw.value() / 1e9, b.segments[k].busbw.value() / 1e9);
    }
    check_same(a.residual_max, b.residual_max);
    check_same(a.error_p90_small, b.error_p90_small);
    check_same(a.error_p90_large, b.error_p90_large);
    check_same(a.held_out_max, b.held_out_max);
  }
}

BOOST_AUTO_TEST_CASE(every_shipped_profile_has_its_points) {
  std::size_t profiles = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kShipped)) {
    profiles += entry.path().extension() == ".yaml";
  }
  BOOST_TEST(profiles == shipped_names().size());
  BOOST_TEST(profiles >= 8u);
}

BOOST_DATA_TEST_CASE(nine_of_ten_published_points_lie_in_the_interval_of_their_profile,
                     data::make(shipped_names()), name) {
  const CommProfile profile =
      read_comm_profile(Document::load(kShipped / (name + ".yaml"))->root());
  const CommPoints points = read_points(kShipped / "points" / (name + ".csv"));
  std::size_t inside = 0;
  for (const CommPoint& p : points.points) {
    const CommCost cost = cost_of(profile, p.kind, p.size.value(), p.ranks, p.nodes);
    const double interval = profile.nearest(p.kind, p.ranks, p.nodes)->uncertainty(p.size);
    inside += std::abs((cost.latency + cost.transfer) / p.time - 1) <= interval;
  }
  BOOST_TEST(static_cast<double>(inside) >=
             std::floor(0.9 * static_cast<double>(points.points.size())));
}

namespace {

const std::string kOverlap = R"(overlap:
  - {collective: all_reduce, size: 1MiB, compute_slowdown: 1.5, comm_slowdown: 1.25}
  - {collective: all_reduce, size: 16MiB, compute_slowdown: 1.2, comm_slowdown: 1.1}
  - {collective: all_gather, size: 4MiB, compute_slowdown: 1.1, comm_slowdown: 1}
)";

}  // namespace

BOOST_AUTO_TEST_CASE(the_overlap_nearest_in_ratio_speaks) {
  const CommProfile profile = parse(kGood + kOverlap);
  const auto compute_slowdown = [&](CollectiveKind kind, double mib) {
    return profile.overlap_of(kind, Bytes(mib * kMiB))->compute_slowdown;
  };
  // Between 1 and 16 MiB the middle, in ratio, is 4 MiB; there the smaller speaks.
  BOOST_TEST(compute_slowdown(CollectiveKind::all_reduce, 0.001) == 1.5);
  BOOST_TEST(compute_slowdown(CollectiveKind::all_reduce, 4) == 1.5);
  BOOST_TEST(compute_slowdown(CollectiveKind::all_reduce, 4.1) == 1.2);
  BOOST_TEST(compute_slowdown(CollectiveKind::all_reduce, 1000) == 1.2);
  BOOST_TEST(compute_slowdown(CollectiveKind::all_gather, 1) == 1.1);
  // Reduce-scatter was not measured.
  BOOST_TEST(compute_slowdown(CollectiveKind::reduce_scatter, 4) == 1.1);
  BOOST_TEST(profile.overlap_of(CollectiveKind::all_reduce, Bytes(kMiB))->comm_slowdown == 1.25);
  BOOST_TEST(!parse(kGood).overlap_of(CollectiveKind::all_reduce, Bytes(kMiB)));
}

BOOST_AUTO_TEST_CASE(overlap_is_read_as_it_is_written) {
  const CommProfile profile = parse(kGood + kOverlap);
  BOOST_TEST((parse(to_yaml(profile)).overlap == profile.overlap));
  BOOST_TEST(to_yaml(parse(kGood)).find("overlap") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(overlap_that_cannot_be_is_refused) {
  const auto with_overlap = [](const std::string& entry) {
    return complaint(kGood + "overlap:\n  - {collective: all_reduce, " + entry + "}\n");
  };
  BOOST_TEST(with_overlap("size: 0B, compute_slowdown: 1, comm_slowdown: 1") ==
             "p.yaml:19:36: error: overlap.0.size: expected a size above zero; got 0B");
  BOOST_TEST(with_overlap("size: 1MiB, compute_slowdown: 0, comm_slowdown: 1") ==
             "p.yaml:19:60: error: overlap.0.compute_slowdown: expected a positive number; got "
             "\"0\"");
  BOOST_TEST(with_overlap("size: 1MiB, compute_slowdown: 1, comm_slowdown: 1}\n  - {collective: "
                          "all_reduce, size: 1024KiB, compute_slowdown: 2, comm_slowdown: 1") ==
             "p.yaml:20:5: error: overlap.1: a second overlap of the same collective and size");
}

BOOST_AUTO_TEST_CASE(a_compute_profile_is_no_profile_of_collectives) {
  BOOST_TEST(complaint("schema: rehearse.profile/1\nkind: compute\n") ==
             "p.yaml:2:1: error: kind: expected a profile of collectives, which states no kind");
}

BOOST_AUTO_TEST_SUITE_END()
