#include <boost/test/unit_test.hpp>

#include "study/slurm.hpp"

namespace rehearse {
namespace {

BOOST_AUTO_TEST_CASE(an_array_job_gives_each_task_its_shard) {
  BOOST_TEST(slurm_script({.name = "rehearse-s",
                           .tasks = 3,
                           .folder = "/out put",
                           .options = {"--partition=cpu"},
                           .command = {"/bin/rehearse", "sweep", "it's.yaml"}}) ==
             "#!/bin/bash\n"
             "#SBATCH --job-name=rehearse-s\n"
             "#SBATCH --array=1-3\n"
             "#SBATCH --ntasks=1\n"
             "#SBATCH --cpus-per-task=1\n"
             "#SBATCH --output=\"/out put/slurm_%a.log\"\n"
             "#SBATCH --partition=cpu\n"
             "exec '/bin/rehearse' 'sweep' 'it'\\''s.yaml' --shard \"$SLURM_ARRAY_TASK_ID/3\"\n");
}

}  // namespace
}  // namespace rehearse
