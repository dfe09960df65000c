#include "measure/allocator_trace.hpp"

#include <nlohmann/json.hpp>
#include <utility>

namespace rehearse::inline calibrate {

std::string to_json(const AllocatorTrace& trace) {
  std::string text = "{\n  \"schema\": \"rehearse.allocations/1\",\n  \"allocator\": " +
                     nlohmann::json(trace.allocator).dump() +
                     ",\n  \"columns\": [\"action\",\"address\",\"size_bytes\",\"stream\"],\n"
                     "  \"events\": [";
  std::string separator = "\n    ";
  for (const AllocatorEvent& event : trace.events) {
    text += std::exchange(separator, ",\n    ") +
            nlohmann::json{event.action, event.address, event.size, event.stream}.dump();
  }
  return text + "\n  ]\n}\n";
}

}  // namespace rehearse::inline calibrate
