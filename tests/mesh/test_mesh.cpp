// Coordinates and groups as Megatron-LM's RankGenerator has them.
#include <boost/test/unit_test.hpp>

#include "mesh/mesh.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(mesh_test)
namespace {

using Groups = std::vector<std::vector<std::size_t>>;

BOOST_AUTO_TEST_CASE(ranks_are_numbered_along_the_order) {
  const Mesh mesh{.pipeline = 2, .data = 2, .tensor = 2};
  BOOST_TEST(mesh.ranks() == 8u);
  // The example of Megatron-LM's initialize_model_parallel, with 8 ranks.
  BOOST_TEST((groups(mesh, {MeshAxis::tensor}) == Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  BOOST_TEST((groups(mesh, {MeshAxis::data}) == Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  BOOST_TEST((groups(mesh, {MeshAxis::pipeline}) == Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  BOOST_TEST(
      (groups(mesh, {MeshAxis::data, MeshAxis::tensor}) == Groups{{0, 1, 2, 3}, {4, 5, 6, 7}}));
}

BOOST_AUTO_TEST_CASE(another_order_numbers_them_otherwise) {
  Mesh mesh{.pipeline = 2, .data = 2, .tensor = 2};
  mesh.order = *parse_order("tp-cp-ep-pp-dp");
  BOOST_TEST((groups(mesh, {MeshAxis::pipeline}) == Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  BOOST_TEST((groups(mesh, {MeshAxis::data}) == Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  BOOST_TEST(to_string(mesh.order) == "tp-cp-ep-pp-dp");
}

BOOST_AUTO_TEST_CASE(every_rank_is_at_its_coordinates_and_in_one_group) {
  const Mesh mesh{.pipeline = 3, .data = 2, .context = 2, .tensor = 4};
  for (std::size_t rank = 0; rank < mesh.ranks(); ++rank)
    BOOST_TEST(rank_at(mesh, coordinates(mesh, rank)) == rank);
  std::vector<int> seen(mesh.ranks(), 0);
  for (const auto& group : groups(mesh, {MeshAxis::data, MeshAxis::context})) {
    BOOST_TEST(group.size() == 4u);
    for (const std::size_t rank : group) ++seen[rank];
  }
  for (const int count : seen) BOOST_TEST(count == 1);
}

BOOST_AUTO_TEST_CASE(experts_split_what_data_and_context_span) {
  const Mesh mesh{.pipeline = 1, .data = 4, .context = 2, .expert = 4, .tensor = 1};
  BOOST_TEST(mesh.ranks() == 8u);
  BOOST_TEST((groups(expert_mesh(mesh), {MeshAxis::expert}) == Groups{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  BOOST_TEST(
      (groups(expert_mesh(mesh), {MeshAxis::data}) == Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
}

BOOST_AUTO_TEST_CASE(experts_lie_across_tensor_ranks_where_these_do_not_share_them) {
  Mesh mesh{.pipeline = 2, .data = 2, .expert = 4, .tensor = 2};
  BOOST_TEST((groups(expert_mesh(mesh), {MeshAxis::expert}) == Groups{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  BOOST_TEST(expert_mesh(mesh).degree(MeshAxis::data) == 1);
  BOOST_TEST((groups(mesh, {MeshAxis::data}).size() == 4u));
  mesh.expert_tensor = 2;
  BOOST_TEST(!experts_fit(mesh));
  mesh.expert = 2;
  BOOST_TEST(experts_fit(mesh));
  BOOST_TEST(
      (groups(expert_mesh(mesh), {MeshAxis::expert}) == Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
}

BOOST_AUTO_TEST_CASE(stages_of_experts_are_other_ranks_where_pipelines_are_not_last) {
  Mesh mesh{.pipeline = 2, .data = 2, .expert = 4, .tensor = 2};
  BOOST_TEST(stages_agree(mesh));
  mesh.order = *parse_order("tp-cp-ep-pp-dp");
  BOOST_TEST(!stages_agree(mesh));
  mesh.expert = 2;
  BOOST_TEST(stages_agree(mesh));
  // As many ranks of experts as of the rest before pp, but not all of them stand there: stage 0 is
  // {0, 1} of the rest, and would be {0, 2} of experts.
  mesh = {.pipeline = 2, .expert = 2, .tensor = 2};
  for (const char* order : {"tp-pp-dp-cp-ep", "tp-pp-ep-cp-dp", "tp-cp-pp-ep-dp"}) {
    mesh.order = *parse_order(order);
    BOOST_TEST(!stages_agree(mesh), order);
  }
  mesh.expert_tensor = 2;
  mesh.expert = 1;
  BOOST_TEST(stages_agree(mesh));
}

BOOST_AUTO_TEST_CASE(an_order_names_each_axis_once) {
  for (const char* wrong :
       {"tp-cp-ep-dp", "tp-cp-ep-dp-dp", "tp-cp-ep-dp-xx", "", "tp-cp-ep-dp-pp-"})
    BOOST_TEST(!parse_order(wrong).has_value());
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
