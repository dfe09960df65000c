#include "strategy/server/server_parts.hpp"

#include <cmath>

#include "strategy/program_builder.hpp"

namespace rehearse::inline strategy {

std::vector<Part> layer_parts(const ParameterServer& options, const Job& job) {
  std::vector<Part> parts;
  const auto servers = static_cast<std::size_t>(options.servers);
  std::size_t turn = 0;
  for (std::size_t unit = 0; unit < job.model.units.size(); ++unit) {
    const Bytes size = parameter_bytes(job.model.units[unit], job.precision);
    if (size.value() <= 0) continue;
    const std::string& name = job.model.units[unit].name;
    if (options.slice) {
      const auto slices = static_cast<std::size_t>(std::ceil(size / *options.slice));
      for (std::size_t i = 0; i < slices; ++i)
        parts.push_back({turn++ % servers, unit, unit, size / static_cast<double>(slices), name});
      continue;
    }
    if (options.partition == ParameterServer::Partition::unit) {
      parts.push_back({turn++ % servers, unit, unit, size, name});
      continue;
    }
    for (std::size_t s = 0; s < servers; ++s)
      parts.push_back({s, unit, unit, size / static_cast<double>(servers), name});
  }
  return parts;
}

std::vector<Part> server_parts(const ParameterServer& options, const Job& job) {
  std::vector<Part> parts(static_cast<std::size_t>(options.servers));
  for (std::size_t s = 0; s < parts.size(); ++s)
    parts[s] = {s, 0, job.model.units.size() - 1, Bytes(0), "parameters"};
  for (const Part& layer : layer_parts(options, job)) parts[layer.server].size += layer.size;
  std::erase_if(parts, [](const Part& part) { return part.size.value() <= 0; });
  return parts;
}

}  // namespace rehearse::inline strategy
