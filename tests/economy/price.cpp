#include "economy/price.hpp"

#include <boost/test/unit_test.hpp>
#include <cstdlib>

#include "base/date.hpp"

using namespace rehearse;

BOOST_AUTO_TEST_SUITE(price_test)
namespace {

Node node_of(NodePrices prices) {
  Node node;
  node.prices = std::move(prices);
  return node;
}

NodePrices shipped(const std::string& date) {
  return {.on_demand = 55.04,
          .reserved = 30,
          .years = 1,
          .cloud = "AWS",
          .instance = "p5.48xlarge",
          .region = "us-east-1",
          .date = date,
          .source = "K"};
}

/// Today is that day, while it lives.
struct Today {
  explicit Today(const char* date) {
    const auto days = first_day(date).value().time_since_epoch().count();
    setenv("SOURCE_DATE_EPOCH", std::to_string(days * 86400).c_str(), 1);
  }
  ~Today() { unsetenv("SOURCE_DATE_EPOCH"); }
  Today(const Today&) = delete;
  Today& operator=(const Today&) = delete;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_price_says_its_market_place_and_date) {
  const Today day("2026-08-01");
  const Node node = node_of(shipped("2026-07-20"));
  BOOST_TEST(price_words(node, Market::on_demand) ==
             "55.04 USD a node and hour, on demand, p5.48xlarge in us-east-1, 2026-07-20");
  BOOST_TEST(price_words(node, Market::reserved) ==
             "30.00 USD a node and hour, reserved for 1 year, p5.48xlarge in us-east-1, "
             "2026-07-20");
  BOOST_TEST(price_words(node_of({.on_demand = 31.2}), Market::on_demand) ==
             "31.20 USD a node and hour, on demand, as given");
  BOOST_TEST(price_words(Node{}, Market::on_demand).empty());
}

BOOST_AUTO_TEST_CASE(a_market_without_a_price_is_on_demand_and_says_so) {
  const Node node = node_of({.on_demand = 31.2});
  BOOST_TEST(*usd_per_hour(node, Market::spot) == 31.2);
  BOOST_TEST(price_words(node, Market::spot) == "31.20 USD a node and hour, on demand, as given");
}

BOOST_AUTO_TEST_CASE(a_price_older_than_180_days_says_its_age) {
  const std::string text = "55.04 USD a node and hour, on demand, p5.48xlarge in us-east-1, ";
  const auto words = [](const char* date) {
    return price_words(node_of(shipped(date)), Market::on_demand);
  };
  {
    const Today day("2027-01-16");
    BOOST_TEST(words("2026-07-20") == text + "2026-07-20");  // 180 days
    BOOST_TEST(words("2026-07") == text + "2026-07, up to 199 days ago");
  }
  const Today day("2027-01-17");
  BOOST_TEST(words("2026-07-20") == text + "2026-07-20, 181 days ago");
}

BOOST_AUTO_TEST_CASE(like_groups_of_nodes_say_their_price_once) {
  Cluster cluster;
  const Node cheap = node_of({.on_demand = 1}), dear = node_of({.on_demand = 2});
  cluster.groups = {{.name = "a", .nodes = 3, .node = cheap},
                    {.name = "b", .nodes = 2, .node = dear},
                    {.name = "c", .nodes = 1, .node = cheap}};
  BOOST_TEST(price_words(cluster, Market::on_demand).size() == 2);
  BOOST_TEST(*usd_per_hour(cluster, Market::on_demand) == 3 + 4 + 1);
  cluster.groups.push_back({.name = "d", .nodes = 1, .node = Node{}});
  BOOST_TEST(!usd_per_hour(cluster, Market::on_demand).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
