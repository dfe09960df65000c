#include "mesh/mesh.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace rehearse::inline mesh {
namespace {

constexpr std::array<const char*, kAxes> kNames = {"tensor", "context", "expert", "data",
                                                   "pipeline"};
constexpr std::array<const char*, kAxes> kShortNames = {"tp", "cp", "ep", "dp", "pp"};

std::size_t index(MeshAxis axis) { return static_cast<std::size_t>(axis); }

/// Ranks between two neighbours along each axis.
std::array<std::size_t, kAxes> strides(const Mesh& mesh) {
  std::array<std::size_t, kAxes> all{};
  std::size_t stride = 1;
  for (const MeshAxis axis : mesh.order) {
    all[index(axis)] = stride;
    stride *= static_cast<std::size_t>(mesh.degree(axis));
  }
  return all;
}

}  // namespace

std::string to_string(MeshAxis axis) { return kNames[index(axis)]; }
std::string short_name(MeshAxis axis) { return kShortNames[index(axis)]; }

int Mesh::degree(MeshAxis axis) const {
  switch (axis) {
    case MeshAxis::tensor:
      return of_experts ? expert_tensor : tensor;
    case MeshAxis::context:
      return of_experts ? 1 : context;
    case MeshAxis::expert:
      return of_experts ? expert : 1;
    case MeshAxis::data:
      return of_experts ? tensor * context * data / (expert_tensor * expert) : data;
    case MeshAxis::pipeline:
      return pipeline;
  }
  throw InternalError("internal error: an axis that no mesh has");
}

std::size_t Mesh::ranks() const {
  return static_cast<std::size_t>(pipeline) * static_cast<std::size_t>(data) *
         static_cast<std::size_t>(context) * static_cast<std::size_t>(tensor);
}

Coordinates coordinates(const Mesh& mesh, std::size_t rank) {
  check(rank < mesh.ranks(), "a rank beyond its mesh");
  const auto stride = strides(mesh);
  Coordinates at{};
  for (const MeshAxis axis : mesh.order)
    at[index(axis)] = static_cast<int>(rank / stride[index(axis)]) % mesh.degree(axis);
  return at;
}

std::size_t rank_at(const Mesh& mesh, const Coordinates& at) {
  const auto stride = strides(mesh);
  std::size_t rank = 0;
  for (const MeshAxis axis : mesh.order)
    rank += stride[index(axis)] * static_cast<std::size_t>(at[index(axis)]);
  return rank;
}

std::vector<std::vector<std::size_t>> groups(const Mesh& mesh, const std::vector<MeshAxis>& along) {
  const auto stride = strides(mesh);
  std::vector<std::size_t> first = {0}, members = {0};
  for (const MeshAxis axis : mesh.order) {
    auto& ranks = std::ranges::count(along, axis) > 0 ? members : first;
    const std::size_t before = ranks.size();
    for (int i = 1; i < mesh.degree(axis); ++i)
      for (std::size_t k = 0; k < before; ++k)
        ranks.push_back(ranks[k] + static_cast<std::size_t>(i) * stride[index(axis)]);
  }
  std::vector<std::vector<std::size_t>> all;
  for (const std::size_t begin : first) {
    all.emplace_back();
    for (const std::size_t member : members) all.back().push_back(begin + member);
  }
  return all;
}

Mesh expert_mesh(const Mesh& mesh) {
  Mesh experts = mesh;
  experts.of_experts = true;
  return experts;
}

bool experts_fit(const Mesh& mesh) {
  return mesh.tensor * mesh.context * mesh.data % (mesh.expert_tensor * mesh.expert) == 0;
}

bool stages_agree(const Mesh& mesh) {
  const std::size_t axis = index(MeshAxis::pipeline);
  return mesh.pipeline == 1 || strides(mesh)[axis] == strides(expert_mesh(mesh))[axis];
}

std::optional<std::array<MeshAxis, kAxes>> parse_order(const std::string& text) {
  std::array<MeshAxis, kAxes> order{};
  std::array<bool, kAxes> seen{};
  std::size_t begin = 0, count = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find('-', begin), text.size());
    const auto name = std::ranges::find(kShortNames, text.substr(begin, end - begin));
    const auto axis = static_cast<std::size_t>(name - kShortNames.begin());
    if (count == kAxes || axis == kAxes || seen[axis]) return std::nullopt;
    seen[axis] = true;
    order[count++] = static_cast<MeshAxis>(axis);
    begin = end + 1;
  }
  return count == kAxes ? std::optional(order) : std::nullopt;
}

std::string to_string(const std::array<MeshAxis, kAxes>& order) {
  std::string text;
  for (const MeshAxis axis : order) text += (text.empty() ? "" : "-") + short_name(axis);
  return text;
}

}  // namespace rehearse::inline mesh
