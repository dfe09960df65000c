// Tables of one's own runs.
#include "validation/runs_file.hpp"

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "base/error.hpp"
#include "fixtures.hpp"

using namespace fixtures;
namespace data = boost::unit_test::data;

BOOST_AUTO_TEST_SUITE(runs_file_test)
namespace {

const std::string kColumns =
    "row_id,model,layers,hidden,heads,ffn,vocab,gpu,gpus,framework,precision,seq_len,micro_batch,"
    "global_batch,tp,pp,shard,recompute,step_time_s,peak_mem,peak_mem_unit,peak_mem_kind,outcome\n";
const std::string kRun =
    "a,GPT 3.6B,30,3072,32,12288,51200,A100-80,64,Megatron-LM,BF16,2048,2,512,4,2,ZeRO-1,full,13.5,"
    "31.5,GiB,allocated (max rank),ok\n";

CaseFile read(const std::string& text) {
  const Scratch folder;
  return read_runs_file(folder.write("runs.csv", text));
}

std::string error_of(const std::string& text) {
  try {
    read(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

bool sets(const ValidationCase& one, const std::string& assignment) {
  return std::ranges::find(one.overrides, assignment) != one.overrides.end();
}

BOOST_AUTO_TEST_CASE(a_row_makes_a_scenario_of_its_columns) {
  const CaseFile file = read("# mine\n" + kColumns + kRun);
  BOOST_TEST(file.name == "runs");
  BOOST_REQUIRE(file.cases.size() == 1u);
  const ValidationCase& one = file.cases[0];
  BOOST_TEST(one.name == "a");
  BOOST_TEST(one.scenario.filename() == "hybrid_parallel_gpt.yaml");
  for (const char* assignment :
       {"model.transformer.layers=30", "model.transformer.intermediate_size=12288",
        "model.sequence=2048", "model.batch_per_gpu=2", "train.global_batch.sequences=512",
        "cluster.use=dgx_a100", "cluster.nodes=8", "framework=megatron",
        "model.precision=bf16_master",
        "strategy={zero: {stage: 1}, tensor_parallel: 4, pipeline_parallel: 2}",
        "model.activation_checkpointing={units: [layers.*]}"})
    BOOST_TEST(sets(one, assignment), assignment);
}

BOOST_AUTO_TEST_CASE(what_was_measured_has_the_reports_keys_and_units) {
  const ValidationCase one = read(kColumns + kRun).cases[0];
  BOOST_REQUIRE(one.measured.size() == 3u);
  BOOST_TEST(one.measured[0].metric == "step_time_s");
  BOOST_TEST(one.measured[0].value == 13.5);
  BOOST_TEST(one.measured[1].metric == "memory.allocated_peak_bytes");
  BOOST_TEST(one.measured[1].value == 31.5 * 1073741824);
  BOOST_TEST(one.measured[2].metric == kFits);
  BOOST_TEST(one.measured[2].value == 1);
}

BOOST_AUTO_TEST_CASE(tokens_per_second_are_a_step) {
  const CaseFile file = read(
      "scenario,gpus,seq_len,global_batch,tokens_per_s_per_gpu\n"
      "mine.yaml,8,1000,16,500\n");
  BOOST_TEST(file.cases[0].measured[0].metric == "step_time_s");
  BOOST_TEST(file.cases[0].measured[0].value == 4);
  BOOST_TEST(file.cases[0].name == "run 1");
}

BOOST_AUTO_TEST_CASE(a_scenario_of_ones_own_keeps_what_no_column_says) {
  const CaseFile file = read("scenario,step_time_s\nmine.yaml,4\n");
  BOOST_TEST(file.cases[0].scenario.filename() == "mine.yaml");
  BOOST_TEST(file.cases[0].overrides.empty());
}

BOOST_AUTO_TEST_CASE(runs_of_one_model_batch_and_size_are_rivals) {
  std::string other = kRun;
  other[0] = 'b';
  const CaseFile file = read(kColumns + kRun + other);
  BOOST_TEST(file.cases[0].rivals == "GPT 3.6B, 64 A100-80, batch 512, 2048 tokens");
  BOOST_TEST(file.cases[1].rivals == file.cases[0].rivals);
}

BOOST_AUTO_TEST_CASE(quoted_cells_hold_commas_and_quotes) {
  const CaseFile file = read("scenario,step_time_s,notes\nmine.yaml,4,\"a \"\"b\"\", c\"\n");
  BOOST_TEST(file.cases[0].note == "a \"b\", c");
}

struct Wrong {
  const char *text, *said;
};
std::ostream& operator<<(std::ostream& stream, const Wrong& wrong) { return stream << wrong.said; }

const std::vector<Wrong> kWrong = {
    {"scenario,step_time\nm.yaml,4\n", "runs.csv:1:10: error: no column \"step_time\""},
    {"scenario,step_time_s\nm.yaml,fast\n", "runs.csv:2:8: error: step_time_s: expected a number"},
    {"scenario,step_time_s\nm.yaml,-4\n", "expected a number above 0, not \"-4\""},
    {"scenario,step_time_s\nm.yaml\n", "runs.csv:2:1: error: 1 cells under 2 columns"},
    {"scenario,step_time_s\nm.yaml,\n", "nothing was measured of this run"},
    {"scenario,outcome\nm.yaml,fine\n", "outcome: expected ok or oom"},
    {"scenario,step_time_s,step_time_s\nm.yaml,4,4\n", "a second column \"step_time_s\""},
    {"step_time_s\n4\n", "the model's dimensions are not stated"},
    {"layers,hidden,gpu,step_time_s\n8,64,Z80,4\n", "no cluster is known for \"Z80\""},
    {"scenario,step_time_s,shard\nm.yaml,4,half\n", "shard: \"half\" is not known"},
    {"scenario,step_time_s,gpus\nm.yaml,4,12\n", "12 are no whole nodes of 8"},
    {"scenario,step_time_s,notes\nm.yaml,4,\"open\n", "a quote that nothing closes"},
    {"row_id,scenario,step_time_s\na,m.yaml,4\na,m.yaml,4\n", "two runs are called \"a\""},
    {"scenario,peak_mem,peak_mem_unit\nm.yaml,4,GiB\n", "which peak this is"},
    {"# nothing\n", "no runs"},
};

BOOST_DATA_TEST_CASE(a_table_that_is_wrong_is_told_where, data::make(kWrong), wrong) {
  const std::string error = error_of(wrong.text);
  BOOST_TEST(error.find(wrong.said) != std::string::npos, error);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
