#include <boost/test/unit_test.hpp>
#include <map>
#include <string>

#include "base/error.hpp"
#include "launch/rank_environment.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(launch_environment_test)
namespace {

using Variables = std::map<std::string, std::string>;

std::optional<RankEnvironment> read(const Variables& variables) {
  return rank_environment_of_launcher([&variables](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

std::string error_of(const Variables& variables) {
  try {
    read(variables);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

BOOST_AUTO_TEST_CASE(without_a_launcher_there_is_no_rank) {
  BOOST_TEST(!read({}).has_value());
  // A batch script of Slurm is not a rank: srun starts those.
  BOOST_TEST(!read({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}).has_value());
}

BOOST_AUTO_TEST_CASE(torchrun_tells_rank_size_and_master) {
  const auto ranks = read({{"RANK", "5"},
                           {"WORLD_SIZE", "8"},
                           {"LOCAL_RANK", "1"},
                           {"LOCAL_WORLD_SIZE", "4"},
                           {"MASTER_ADDR", "gpu01"},
                           {"MASTER_PORT", "29400"}});
  BOOST_REQUIRE(ranks.has_value());
  BOOST_TEST(ranks->rank == 5);
  BOOST_TEST(ranks->world_size == 8);
  BOOST_TEST(ranks->local_rank == 1);
  BOOST_TEST(ranks->local_world_size == 4);
  BOOST_TEST(ranks->master_address == "gpu01");
  BOOST_TEST(ranks->master_port == 29400);
  BOOST_TEST(ranks->store_file.empty());
}

BOOST_AUTO_TEST_CASE(srun_tells_ranks_nodes_and_a_port_of_the_job) {
  const auto ranks = read({{"SLURM_PROCID", "9"},
                           {"SLURM_STEP_NUM_TASKS", "11"},
                           {"SLURM_LOCALID", "1"},
                           {"SLURM_NODEID", "2"},
                           {"SLURM_STEP_TASKS_PER_NODE", "4(x2),3"},
                           {"SLURM_STEP_NODELIST", "gpu[003-005]"},
                           {"SLURM_JOB_ID", "40017"}});
  BOOST_REQUIRE(ranks.has_value());
  BOOST_TEST(ranks->rank == 9);
  BOOST_TEST(ranks->world_size == 11);
  BOOST_TEST(ranks->local_world_size == 3);
  BOOST_TEST(ranks->master_address == "gpu003");
  BOOST_TEST(ranks->master_port == 20017);
}

BOOST_AUTO_TEST_CASE(mpirun_inside_of_a_slurm_job_is_mpirun) {
  const auto ranks = read({{"OMPI_COMM_WORLD_RANK", "1"},
                           {"OMPI_COMM_WORLD_SIZE", "2"},
                           {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                           {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                           {"SLURM_PROCID", "0"},
                           {"SLURM_STEP_NUM_TASKS", "1"}});
  BOOST_REQUIRE(ranks.has_value());
  BOOST_TEST(ranks->rank == 1);
  BOOST_TEST(ranks->world_size == 2);
  BOOST_TEST(ranks->master_address == "127.0.0.1");
}

BOOST_AUTO_TEST_CASE(incomplete_or_wrong_variables_are_input_errors) {
  BOOST_TEST(error_of({{"RANK", "1"}}) ==
             "error: torchrun started this process, but WORLD_SIZE is not set");
  BOOST_TEST(error_of({{"RANK", "one"}, {"WORLD_SIZE", "2"}}) ==
             "error: RANK: expected a number from 0; got \"one\"");
  BOOST_TEST(error_of({{"RANK", "2"}, {"WORLD_SIZE", "2"}}) ==
             "error: torchrun says rank 2 of 2, 2 of 2 on this node");
  BOOST_TEST(error_of({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "99999"}}) ==
             "error: MASTER_PORT: expected 1 to 65535; got 99999");
  const auto text = error_of({{"OMPI_COMM_WORLD_RANK", "0"},
                              {"OMPI_COMM_WORLD_SIZE", "4"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  BOOST_TEST(text.find("MASTER_ADDR is not set") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(lists_of_nodes_have_a_first_host) {
  BOOST_TEST(first_host("node7") == "node7");
  BOOST_TEST(first_host("node7,node9") == "node7");
  BOOST_TEST(first_host("gpu[003-007,9],cpu1") == "gpu003");
  BOOST_TEST(first_host("gpu[12]") == "gpu12");
  BOOST_TEST(first_host("a,gpu[1-2]") == "a");
  BOOST_TEST(first_host("rack[1-2]-ib,x") == "rack1-ib");
}

BOOST_AUTO_TEST_CASE(tasks_per_node_are_counted_out) {
  BOOST_TEST(tasks_on_node("4(x2),3", 0) == 4);
  BOOST_TEST(tasks_on_node("4(x2),3", 1) == 4);
  BOOST_TEST(tasks_on_node("4(x2),3", 2) == 3);
  BOOST_TEST(tasks_on_node("4(x2),3", 3) == 0);
  BOOST_TEST(tasks_on_node("", 0) == 0);
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
