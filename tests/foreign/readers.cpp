// These read what files say, whatever it means: spellings, scripts, TOML, YAML.
#include <boost/test/unit_test.hpp>
#include <map>

#include "../scratch.hpp"
#include "base/error.hpp"
#include "foreign/entry.hpp"
#include "foreign/traces/kineto_work.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(foreign_readers)
namespace {

std::map<std::string, std::string> options_of(const std::string& script) {
  std::map<std::string, std::string> options;
  for (const Entry& entry : shell_entries(script, "run.sh"))
    options[entry.key] = entry.value + (entry.unless.empty() ? "" : " ?");
  return options;
}

BOOST_AUTO_TEST_CASE(one_value_has_one_spelling) {
  BOOST_TEST(canonical("5e8") == "500000000");
  BOOST_TEST(canonical("1_000") == "1000");
  BOOST_TEST(canonical("0.10") == "0.1");
  BOOST_TEST(canonical("Yes") == "true");
  BOOST_TEST(canonical("no") == "false");
  BOOST_TEST(canonical("None") == "null");
  BOOST_TEST(canonical("-1") == "-1");
  BOOST_TEST(canonical("8B") == "8B");
  BOOST_TEST(canonical("1F1B") == "1F1B");
}

BOOST_AUTO_TEST_CASE(a_scripts_own_variables_are_put_in) {
  const auto options = options_of(
      "A=4\nB=${B:-2}\nARGS=(--x $A --y \"$((A * B + 1))\")\nARGS+=(--w)\nMORE=\" --z=1e3 --u 'a "
      "b'\"\n"
      "torchrun --nnodes 2 train.py \"${ARGS[@]}\" $MORE \\\n  --v -1  # --no\n");
  BOOST_TEST(options.at("launcher.nnodes") == "2");
  BOOST_TEST(options.at("x") == "4");
  BOOST_TEST(options.at("y") == "9");
  BOOST_TEST(options.at("w") == "true");
  BOOST_TEST(options.at("z") == "1000");
  BOOST_TEST(options.at("v") == "-1");
  BOOST_TEST(options.count("no") == 0u);
}

/// A shell splits an array's items at their spaces, but between quotes; an option is meant so.
BOOST_AUTO_TEST_CASE(an_arrays_items_are_split_where_a_shell_splits_them) {
  const std::string array = "A=(\"--fp8-format hybrid\" --bf16)\n";
  const auto split = shell_entries(array + "torchrun pretrain_gpt.py ${A[@]}\n", "x.sh");
  BOOST_REQUIRE(split.size() == 3u);
  BOOST_TEST(split[0].key == "launcher.script");
  BOOST_TEST(split[0].value == "pretrain_gpt.py");
  BOOST_TEST(split[1].key == "fp8_format");
  BOOST_TEST(split[1].value == "hybrid");
  const auto whole = shell_entries(array + "torchrun pretrain_gpt.py \"${A[@]}\"\n", "x.sh");
  BOOST_REQUIRE(whole.size() == 3u);
  BOOST_TEST(whole[1].key == "fp8_format");
  BOOST_TEST(whole[1].value == "hybrid");
}

BOOST_AUTO_TEST_CASE(tests_that_the_file_decides_are_decided) {
  const auto options = options_of(
      "D=\"fp8\"\nF=${F:-1}\nA=(--a)\n"
      "if [ \"${F}\" = 1 ]; then\n  A=(\"${A[@]}\" --b)\nelse\n  A+=(--no)\nfi\n"
      "if [[ \"$D\" == \"bf16\" ]]; then\n  A+=(--no)\nelif [[ $D = fp8 ]]; then\n  A+=(--c)\nfi\n"
      "if [ $# -gt 1 ]; then\n  A+=(--d)\nfi\n"
      "if [ -n \"$D\" ] && [ -f x ]; then\n  A+=(--e)\nfi\n"
      "[ $F -eq 2 ] && A+=(--no)\n[ $F -eq 1 ] && A+=(--f)\n"
      "cat <<EOF > x.json\n{\"it's\": 1}\nEOF\n"
      "torchrun train.py \"${A[@]}\" --g $(expr 16 / 8)\n");
  for (const char* name : {"a", "b", "c", "f"}) BOOST_TEST(options.at(name) == "true");
  for (const char* name : {"d", "e"}) BOOST_TEST(options.at(name) == "true ?");
  BOOST_TEST(options.at("g") == "2");
  BOOST_TEST(options.count("no") == 0u);
}

BOOST_AUTO_TEST_CASE(launchers_words_and_modules_are_told_from_the_scripts) {
  const auto options = options_of(
      "accelerate launch --num_processes 8 -m my.train --per_device_train_batch_size 4 lr=1\n");
  BOOST_TEST(options.at("launcher.num_processes") == "8");
  BOOST_TEST(options.at("launcher.script") == "my.train");
  BOOST_TEST(options.at("per_device_train_batch_size") == "[4, lr=1]");
  const auto swift = options_of("NPROC_PER_NODE=2 swift sft --model a/b --max_length=2048\n");
  BOOST_TEST(swift.at("launcher.script") == "swift");
  BOOST_TEST(swift.at("model") == "a/b");
  BOOST_TEST(swift.at("max_length") == "2048");
}

BOOST_AUTO_TEST_CASE(what_is_nested_too_deep_is_refused) {
  std::string sum = "torchrun t.py --a ", keys = "a";
  for (int i = 0; i < 4000; ++i) sum += "$((";
  BOOST_CHECK_THROW(shell_entries(sum + "1", "run.sh"), InputError);
  for (int i = 0; i < 20000; ++i) keys += ".a";
  BOOST_CHECK_THROW(toml_entries("[" + keys + "]\nb = 1\n", "t.toml"), InputError);
  BOOST_CHECK_NO_THROW(toml_entries("[a.b]\nc = \"" + keys + "\"\n", "t.toml"));
}

const std::string kRegistry =
    "from x import y\n\n\n"
    "def small() -> Trainer.Config:\n"
    "    spec = model_registry(\"8B\", attn_backend=\"varlen\")\n"
    "    return Trainer.Config(\n"
    "        model_spec=spec,  # a comment, with a (\n"
    "        optimizer=default_adamw(lr=8e-4),\n"
    "        training=TrainingConfig(tokens=8 * 2048, steps=10),\n"
    "        activation_checkpoint=FullAC.Config(),\n"
    "        filters=(lambda s: s is not None,),\n"
    "    )\n\n\n"
    "def large() -> Trainer.Config:\n"
    "    \"\"\"Changes it.\"\"\"\n"
    "    config = small()\n"
    "    config.training.steps = 20\n"
    "    config.parallelism.tensor_parallel_degree = 2\n"
    "    return config\n";

BOOST_AUTO_TEST_CASE(a_registry_in_python_is_read_as_text) {
  std::map<std::string, std::string> settings;
  for (const Entry& entry : python_entries(kRegistry, "r.py", "large"))
    settings[entry.key] = entry.value;
  BOOST_TEST(settings.at("model_spec") == "8B");
  BOOST_TEST(settings.at("model_spec.attn_backend") == "varlen");
  BOOST_TEST(settings.at("training.tokens") == "16384");
  BOOST_TEST(settings.at("training.steps") == "20");
  BOOST_TEST(settings.at("parallelism.tensor_parallel_degree") == "2");
  BOOST_TEST(settings.at("activation_checkpoint") == "FullAC.Config");
  BOOST_CHECK_THROW(python_entries(kRegistry, "r.py", ""), InputError);
}

BOOST_AUTO_TEST_CASE(what_the_file_does_not_say_is_not_guessed) {
  const auto options = options_of(
      "if [ $X = 1 ]; then\n  E=\"--a 1\"\nfi\nB=\"--b 2\"\npython t.py $E $B --c $UNSET --d "
      "$(hostname)\n");
  BOOST_TEST(options.at("a") == "1 ?");
  BOOST_TEST(options.at("b") == "2");
  BOOST_TEST(options.at("c") == "$UNSET ?");
  BOOST_TEST(options.at("d").ends_with(" ?"));
}

BOOST_AUTO_TEST_CASE(variables_that_grow_without_end_are_an_error) {
  std::string script = "A=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n";
  for (int i = 0; i < 40; ++i) script += "A=$A$A\n";
  BOOST_CHECK_THROW(shell_entries(script + "python t.py --a $A\n", "run.sh"), InputError);
}

BOOST_AUTO_TEST_CASE(toml_and_yaml_give_the_same_settings) {
  const auto toml = toml_entries("[a]\nb = 1_000\nc = [\"x\", \"y\"]\n[a.d]\ne = true\n", "t.toml");
  const auto yaml = yaml_entries("a:\n  b: 1000\n  c: [x, y]\n  d: {e: true}\n", "t.yaml");
  BOOST_REQUIRE(toml.size() == yaml.size());
  for (std::size_t i = 0; i < toml.size(); ++i) {
    BOOST_TEST(toml[i].key == yaml[i].key);
    BOOST_TEST(toml[i].value == yaml[i].value);
  }
  BOOST_TEST(toml[0].place.line == 1u);
}

/// Another program's YAML: anchors, merge keys that a map's own keys overrule, and keys that stand
/// twice; a JSON says a thing once.
BOOST_AUTO_TEST_CASE(anchors_merges_and_doubled_keys_of_yaml_are_read) {
  std::map<std::string, std::string> said;
  for (const Entry& entry : yaml_entries("base: &base {a: 1, b: 2}\nown:\n  b: 3\n  <<: *base\n"
                                         "list: [&one 5, *one]\nc: 1\nc: 4\n",
                                         "a.yaml"))
    said[entry.key] = entry.value;
  BOOST_TEST(said.at("own.a") == "1");
  BOOST_TEST(said.at("own.b") == "3");
  BOOST_TEST(said.at("list") == "[5, 5]");
  BOOST_TEST(said.at("c") == "4");
  BOOST_CHECK_THROW(yaml_entries("{\"c\": 1, \"c\": 4}", "a.json"), InputError);
  BOOST_CHECK_THROW(yaml_entries("a: *b\n", "a.yaml"), InputError);
  // Aliases of aliases grow without end.
  std::string text = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n";
  for (int i = 1; i < 9; ++i) {
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int j = 0; j < 10; ++j) text += (j > 0 ? ", *a" : "*a") + std::to_string(i - 1);
    text += "]\n";
  }
  BOOST_CHECK_EXCEPTION(yaml_entries(text, "a.yaml"), InputError, [](const InputError& wrong) {
    return std::string(wrong.what()).find("more than 1000000 values") != std::string::npos;
  });
}

BOOST_AUTO_TEST_CASE(what_repeats_is_found_with_its_smallest_period) {
  const std::vector<std::uint32_t> list = {9, 8, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 7};
  const Repeats repeats = repeats_of(list);
  BOOST_TEST(repeats.first == 2u);
  BOOST_TEST(repeats.period == 3u);
  BOOST_TEST(repeats.count == 4u);
  BOOST_TEST(repeats_of({1, 2, 3, 4, 5, 6}).count == 0u);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
