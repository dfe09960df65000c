#include "cluster/prices.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <set>

#include "base/data_folder.hpp"
#include "base/date.hpp"
#include "base/error.hpp"
#include "cluster/parts.hpp"

using namespace rehearse;

BOOST_AUTO_TEST_SUITE(prices_test)
namespace {

std::vector<std::string> rows() {
  return Document::load(platforms_path("prices.yaml"))->root().as_map().keys();
}

Cluster cluster_of(const std::string& yaml) {
  return read_cluster(Document::parse(yaml, "cluster")->root());
}

const NodePrices& prices_of(const Cluster& cluster) { return cluster.groups.front().node.prices; }

}  // namespace

BOOST_AUTO_TEST_CASE(every_row_prices_a_shipped_cluster_above_zero_with_date_and_source) {
  unsetenv("SOURCE_DATE_EPOCH");  // that of expected reports may be older than a new row
  const std::vector<std::string> clusters = cluster_names();
  for (const std::string& name : rows()) {
    BOOST_TEST_CONTEXT(name) {
      BOOST_TEST((std::ranges::find(clusters, name) != clusters.end()));
      const NodePrices row = shipped_prices(name).value();
      BOOST_TEST(row.on_demand.value() > 0);
      // A commitment and a node that can be taken away are worth less than one on demand.
      for (const auto& other : {row.reserved, row.spot})
        BOOST_TEST((!other || (*other > 0 && *other < *row.on_demand)));
      BOOST_TEST(row.reserved.has_value() == (row.years > 0));
      BOOST_TEST(row.date.size() >= std::string("2026-08").size());
      BOOST_TEST((first_day(row.date).value() <= today()));
      for (const std::string& text : {row.cloud, row.instance, row.region, row.source})
        BOOST_TEST(!text.empty());
    }
  }
}

BOOST_AUTO_TEST_CASE(eight_clouds_are_priced_and_each_market_of_some) {
  std::set<std::string> clouds, reserved, spot;
  for (const std::string& name : rows()) {
    const NodePrices row = shipped_prices(name).value();
    clouds.insert(row.cloud);
    if (row.reserved) reserved.insert(row.cloud);
    if (row.spot) spot.insert(row.cloud);
  }
  BOOST_TEST(clouds.size() >= 8);
  BOOST_TEST(!reserved.empty());
  BOOST_TEST(spot.size() >= 4);
}

BOOST_AUTO_TEST_CASE(no_cluster_file_has_a_price_of_its_own) {
  for (const std::string& name : cluster_names())
    BOOST_TEST(!prices_of(read_cluster(shipped_cluster(name).value())).any(), name);
}

BOOST_AUTO_TEST_CASE(a_used_cluster_has_its_row_and_a_price_of_ones_own_takes_its_place) {
  const NodePrices shipped = prices_of(cluster_of("use: gcp_a3_high"));
  BOOST_TEST(shipped.on_demand.value() == 88.49);
  BOOST_TEST(shipped.reserved.value() == 61.38367);
  BOOST_TEST(shipped.years == 1);
  BOOST_TEST(shipped.region == "us-central1");
  BOOST_TEST(!prices_of(cluster_of("use: dgx_h100")).any());

  const NodePrices own = prices_of(cluster_of("{use: gcp_a3_high, usd_per_hour: 31.2}"));
  BOOST_TEST(own.on_demand.value() == 31.2);
  BOOST_TEST((!own.reserved && !own.spot && own.date.empty()));
}

BOOST_AUTO_TEST_CASE(a_price_beside_an_inline_clusters_nodes_is_that_of_its_nodes_with_gpus) {
  const Cluster cluster = cluster_of(
      "usd_per_hour: {on_demand: 3, reserved: 2, spot: 1}\n"
      "groups:\n"
      "  - {name: workers, nodes: 2, node: {gpus: 1, nic: 1Gbps, usd_per_hour: 9}}\n"
      "  - {name: servers, nodes: 1, node: {gpus: 0, nic: 1Gbps, usd_per_hour: 4}}\n");
  BOOST_TEST(cluster.groups[0].node.prices.on_demand.value() == 3);
  BOOST_TEST(cluster.groups[0].node.prices.reserved.value() == 2);
  BOOST_TEST(cluster.groups[0].node.prices.spot.value() == 1);
  BOOST_TEST(cluster.groups[1].node.prices.on_demand.value() == 4);
}

BOOST_AUTO_TEST_SUITE_END()
