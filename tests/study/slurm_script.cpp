#include <boost/test/unit_test.hpp>

#include "base/error.hpp"
#include "study/slurm.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(slurm_script_test)
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
             "exec /bin/rehearse sweep 'it'\\''s.yaml' --shard \"$SLURM_ARRAY_TASK_ID/3\"\n");
}

BOOST_AUTO_TEST_CASE(no_name_puts_a_line_or_an_option_into_the_script) {
  const SlurmJob job{.name = "rehearse-x\ntouch pwned; my study",
                     .tasks = 1,
                     .folder = "/50 % \"off\"",
                     .options = {},
                     .command = {"run", "x\ntouch pwned.yaml"}};
  BOOST_TEST(slurm_script(job) ==
             "#!/bin/bash\n"
             "#SBATCH --job-name=rehearse-x_touch_pwned__my_study\n"
             "#SBATCH --array=1-1\n"
             "#SBATCH --ntasks=1\n"
             "#SBATCH --cpus-per-task=1\n"
             "#SBATCH --output=\"/50 %% \\\"off\\\"/slurm_%a.log\"\n"
             "exec run 'x\ntouch pwned.yaml' --shard \"$SLURM_ARRAY_TASK_ID/1\"\n");
}

BOOST_AUTO_TEST_CASE(an_option_with_a_line_end_is_refused) {
  SlurmJob job{.name = "s", .folder = "/", .options = {"--qos=a\nb"}, .command = {"run"}};
  BOOST_CHECK_THROW(slurm_script(job), InputError);
  job.options.clear();
  job.folder = "/a\nb";
  BOOST_CHECK_THROW(slurm_script(job), InputError);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
