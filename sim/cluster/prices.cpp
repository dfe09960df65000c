#include "cluster/prices.hpp"

#include "base/data_folder.hpp"
#include "base/date.hpp"
#include "base/error.hpp"
#include "cluster/parts.hpp"
#include "config/fields.hpp"

namespace rehearse::inline cluster {
namespace {

/// `reserved: {usd: 61.38, years: 1}`.
struct Reserved {
  double usd = 0;
  int years = 0;
};

Fields<Reserved> reserved_fields() {
  return {required("usd", &Reserved::usd, form::not_negative(), "Per node and hour."),
          required("years", &Reserved::years, form::integer(1, 10), "For so long.")};
}

std::string read_date(const Value& value) {
  const std::string date = value.as_string();
  if (!first_day(date))
    value.fail("\"" + date + "\" is no date", "write the day, 2026-07-20, or the month, 2026-07");
  return date;
}

Fields<NodePrices> price_fields() {
  using P = NodePrices;
  const Form<std::string> date{type::text("date"), read_date};
  return {required("cloud", &P::cloud, "Whose price it is."),
          required("instance", &P::instance, "What the cloud calls the node."),
          required("region", &P::region, "Where it costs that."),
          silent("on_demand", &P::on_demand, form::not_negative(), "Per node and hour."),
          {{},
           [](Map& map, P& prices) {
             const std::optional<Value> value = map.optional("reserved");
             if (!value) return;
             const Reserved reserved = read_fields(*value, reserved_fields());
             prices.reserved = reserved.usd;
             prices.years = reserved.years;
           }},
          silent("spot", &P::spot, form::not_negative(), "Per node and hour."),
          required("date", &P::date, date, "When it cost that."),
          required("source", &P::source, "Who says so.")};
}

}  // namespace

std::string to_string(Market market) {
  switch (market) {
    case Market::on_demand:
      return "on demand";
    case Market::reserved:
      return "reserved";
    case Market::spot:
      return "spot";
  }
  throw InternalError("internal error: a market without a name");
}

const std::optional<double>& NodePrices::in(Market market) const {
  if (market == Market::spot) return spot;
  return market == Market::reserved ? reserved : on_demand;
}

void take_shipped_prices(const std::string& name, Cluster& cluster) {
  const std::optional<NodePrices> prices = shipped_prices(name);
  if (!prices) return;
  for (NodeGroup& group : cluster.groups)
    if (group.node.gpus > 0 && !group.node.prices.any()) group.node.prices = *prices;
}

std::optional<NodePrices> shipped_prices(const std::string& name) {
  const auto document = Document::load(platforms_path("prices.yaml"));
  const std::optional<Value> row = document->root().as_map().optional(name);
  if (!row) return std::nullopt;
  return read_fields(*row, price_fields());
}

}  // namespace rehearse::inline cluster
