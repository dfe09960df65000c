#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "config/document.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(nearest_test)
namespace {

struct Guess {
  std::string word;
  std::vector<std::string> candidates;
  std::string nearest;
};
std::ostream& operator<<(std::ostream& out, const Guess& guess) { return out << guess.word; }

const std::vector<Guess> kGuesses = {
    {"nodse", {"nic", "nodes"}, "nodes"},                // a swap costs 1
    {"bucket_cap", {"bucket_cap_mb"}, "bucket_cap_mb"},  // 3 letters of 10
    {"ddp", {"fsdp", "ps"}, ""},                         // distance 2 of 3 letters
    {"dpd", {"ddp"}, "ddp"},
    {"fsp", {"ps", "fsdp"}, "fsdp"},
    {"nice", {"nics", "nic"}, "nics"},  // equally near: the first
    {"seed", {"speed", "seed"}, "seed"},
    {"a", {"b"}, ""},  // no letter in common
    {"ab", {"a"}, "a"},
    {"steps", {"stop"}, "stop"},                                     // 2 allowed from 4 letters on
    {"L40", {"L4", "L40S-48", "L40S-96"}, "L40S-48"},                // begun and not ended
    {"A100", {"A10", "A100-SXM-40", "A100-SXM-80"}, "A100-SXM-80"},  // the usual one
    {"p5.48xlarge", {"aws_p4d", "aws_p5"}, "aws_p5"},                // of a price list
    {"a10g", {"A10", "A10G", "A100-SXM-40"}, "A10G"},                // but for the case
    {"RESNET50", {"resnet101", "resnet50"}, "resnet50"},
    {"ddp", {"DDQ", "DDP", "ddq"}, "DDP"},
    {"bucket", {"algorithm", "bucket_cap_mb"}, "bucket_cap_mb"},
    {"node", {"node_group", "nodes"}, "nodes"},
    {"no", {"nodes"}, ""},  // any number of words begin so
    {"zebra", {"nodes", "fabric"}, ""},
    {"p4d", {"aws_p4d", "aws_p4de", "aws_p5"}, "aws_p4d"},  // a part of the name
    {"4d", {"aws_p4d"}, ""},
    {"price", {"pcie", "usd_per_hour"}, "usd_per_hour"},  // what it is called elsewhere
    {"price", {"pcie", "nic"}, ""},                       // and is none of these
    {"n_kv_heads", {"heads", "kv_heads", "layers"}, "kv_heads"},
    {"sliding_window", {"attention", "activation"}, "attention"},
    {"meta-llama/Llama-3.1-8B", {"llama_7b", "llama_3_8b", "qwen3_8b"}, "llama_3_8b"},
    {"llama3_70b", {"llama_70b", "llama_3_70b"}, "llama_3_70b"},  // but for what separates parts
    {"bf16-mixed", {"fp32", "bf16", "bf16_master"}, "bf16"},
    {"bfloat16", {"fp32", "tf32", "bf16", "bf16_pure"}, "bf16"},
    {"Float32", {"fp32", "fp16"}, "fp32"},
    {"NVIDIA A100-SXM4-80GB", {"A100-PCIe-80", "A100-SXM-40", "A100-SXM-80"}, "A100-SXM-80"},
    {"h100_80gb", {"H100-NVL", "H100-PCIe", "H100-SXM"}, "H100-SXM"},  // the usual one
    {"NVIDIA H200 141GB", {"H100-SXM", "H200-SXM"}, "H200-SXM"},
    {"NVIDIA GeForce RTX 4090", {"L4", "RTX-3090", "RTX-4090"}, "RTX-4090"},
    {"my_own_gpu", {"own_gpu_2"}, ""},  // no device's name
    {"", {"a"}, ""},
    {"a", {}, ""},
    {std::string(300, 'a'), {std::string(299, 'a')}, ""}};

BOOST_DATA_TEST_CASE(the_nearest_word_is_suggested_only_where_it_is_near,
                     boost::unit_test::data::make(kGuesses)) {
  BOOST_TEST(nearest(sample.word, sample.candidates) == sample.nearest);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
