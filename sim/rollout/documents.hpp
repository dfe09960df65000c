#pragma once

#include <nlohmann/json.hpp>

namespace rehearse::inline rollout {

// JSON Schemas of `rehearse.decode/1`, `rehearse.rollout/1` and `rehearse.rollout_plan/1`, made of
// the lists of fields that write them.
nlohmann::ordered_json decode_schema();
nlohmann::ordered_json rollout_schema();
nlohmann::ordered_json rollout_plan_schema();

}  // namespace rehearse::inline rollout
