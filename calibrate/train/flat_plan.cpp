#include "train/flat_plan.hpp"

#include <map>
#include <string>

#include "base/error.hpp"

namespace rehearse::inline calibrate {

FlatPlan plan_flats(const Chain& chain) {
  FlatPlan plan;
  std::map<std::string, std::size_t> flat_of_name;
  for (std::size_t u = 0; u < chain.units.size(); ++u) {
    const ChainUnit& unit = chain.units[u];
    if (!unit.shares_with.empty()) {
      const auto found = flat_of_name.find(unit.shares_with);
      check(found != flat_of_name.end(), "a unit shares the weight of one before it");
      plan.flats[found->second].push_back(u);
      plan.flat_of.emplace_back(found->second);
    } else if (unit.module->parameters().empty()) {
      plan.flat_of.emplace_back();
    } else {
      flat_of_name[unit.name] = plan.flats.size();
      plan.flat_of.emplace_back(plan.flats.size());
      plan.flats.push_back({u});
    }
  }
  return plan;
}

}  // namespace rehearse::inline calibrate
