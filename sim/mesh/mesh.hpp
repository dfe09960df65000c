#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace rehearse::inline mesh {

/// Axes that ranks are split by.
enum class MeshAxis { tensor, context, expert, data, pipeline };
inline constexpr std::size_t kAxes = 5;
std::string to_string(MeshAxis axis);   ///< "tensor"
std::string short_name(MeshAxis axis);  ///< "tp"

/// A layout's degrees, and how ranks are numbered: of `order` the first axis varies fastest, as in
/// Megatron-LM's RankGenerator. Experts split the ranks of a stage once more (expert_mesh) and so
/// multiply nothing.
struct Mesh {
  int pipeline = 1, data = 1, context = 1, expert = 1, tensor = 1;
  std::array<MeshAxis, kAxes> order = {MeshAxis::tensor, MeshAxis::context, MeshAxis::expert,
                                       MeshAxis::data, MeshAxis::pipeline};
  int expert_tensor = 1;    ///< ranks that share one expert's products
  bool of_experts = false;  ///< as experts see the ranks

  /// How many there are along an axis. As experts see them `tensor` is expert_tensor, there is no
  /// context, and `data` is what is left: the ranks with the same experts.
  int degree(MeshAxis axis) const;
  /// pipeline x data x context x tensor.
  std::size_t ranks() const;
  bool operator==(const Mesh&) const = default;
};

/// Coordinates of a rank, by MeshAxis; that of experts is 0 but in an expert_mesh.
using Coordinates = std::array<int, kAxes>;
Coordinates coordinates(const Mesh& mesh, std::size_t rank);
std::size_t rank_at(const Mesh& mesh, const Coordinates& at);

/// The ranks of every group along some axes (data and context: who reduces gradients), each
/// ascending along `order`, the groups by the coordinates that they do not span. Megatron-LM's
/// get_ranks("dp-cp").
std::vector<std::vector<std::size_t>> groups(const Mesh& mesh, const std::vector<MeshAxis>& along);

/// The same ranks as experts see them (Megatron-LM's second RankGenerator): expert_tensor x expert
/// x data is what tensor x context x data is. Stages have the same ranks where stages_agree().
Mesh expert_mesh(const Mesh& mesh);
/// Whether expert_tensor x expert divides a stage's ranks.
bool experts_fit(const Mesh& mesh);
/// Whether pipelines are the same ranks in both: they are last in the order, there are none, or
/// experts' data parallelism is that of all.
bool stages_agree(const Mesh& mesh);

/// "tp-cp-ep-dp-pp", each axis once; nothing otherwise.
std::optional<std::array<MeshAxis, kAxes>> parse_order(const std::string& text);
std::string to_string(const std::array<MeshAxis, kAxes>& order);

}  // namespace rehearse::inline mesh
