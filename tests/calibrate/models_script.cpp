// A user's own TorchScript modules: into which units they are split, and what is refused.
#include <fmt/format.h>
#include <torch/script.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>

#include "base/error.hpp"
#include "models/script_model.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(models_script_test)
namespace {

namespace jit = torch::jit;

/// A folder that is gone after the test.
struct Folder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / fmt::format("rehearse_models_script_{}", getpid());
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
};

jit::Module linear(std::int64_t in, std::int64_t out) {
  jit::Module module("Linear");
  module.register_parameter("weight", torch::rand({out, in}).requires_grad_(), false);
  module.register_parameter("bias", torch::rand({out}).requires_grad_(), false);
  module.define("def forward(self, x):\n  return torch.addmm(self.bias, x, self.weight.t())\n");
  return module;
}

jit::Module stateless(const std::string& body) {
  jit::Module module("Stateless");
  module.define("def forward(self, x):\n  return " + body + "\n");
  return module;
}

/// Children "0" to "4": flatten, linear, ReLU in place, dropout, linear.
jit::Module sequential(const std::string& body) {
  jit::Module module("Sequential");
  module.register_module("0", stateless("torch.flatten(x, 1)"));
  module.register_module("1", linear(12, 5));
  module.register_module("2", stateless("torch.relu_(x)"));
  module.register_module("3", stateless("torch.dropout(x, 0.5, False)"));
  module.register_module("4", linear(5, 4));
  module.define("def forward(self, x):\n" + body);
  return module;
}

constexpr const char* kInOrder =
    "  y = getattr(self, \"0\").forward(x)\n"
    "  y = getattr(self, \"1\").forward(y)\n"
    "  y = getattr(self, \"2\").forward(y)\n"
    "  y = getattr(self, \"3\").forward(y)\n"
    "  return getattr(self, \"4\").forward(y)\n";
/// Not what the children do one after another.
constexpr const char* kWithResidual =
    "  y = getattr(self, \"1\").forward(getattr(self, \"0\").forward(x))\n"
    "  return getattr(self, \"4\").forward(y + torch.relu(y))\n";

struct Saved {
  Folder folder;
  std::filesystem::path file = folder.path / "net.pt";
  explicit Saved(const jit::Module& module) { module.save(file.string()); }
  Chain chain(const std::string& input, const std::string& loss = "sum_of_squares") const {
    return script_chain({.file = file, .input = parse_script_input(input), .loss = loss});
  }
};

BOOST_AUTO_TEST_CASE(children_in_a_row_are_units_with_those_that_have_no_parameters) {
  const Saved saved(sequential(kInOrder));
  const Chain chain = saved.chain("3x2x2");
  BOOST_TEST(chain.name == "net");
  BOOST_REQUIRE(chain.units.size() == 2U);
  BOOST_TEST(chain.units[0].name == "1");
  BOOST_TEST(chain.units[1].name == "4");
  BOOST_TEST(parameter_count(chain) == 12 * 5 + 5 + 5 * 4 + 4);
  BOOST_TEST(chain.units[0].module->parameters().size() == 2U);
}

BOOST_AUTO_TEST_CASE(any_other_module_is_one_unit) {
  const Saved saved(sequential(kWithResidual));
  const Chain chain = saved.chain("12");
  BOOST_REQUIRE(chain.units.size() == 1U);
  BOOST_TEST(chain.units[0].name == "net");
  BOOST_TEST(parameter_count(chain) == 12 * 5 + 5 + 5 * 4 + 4);
}

BOOST_AUTO_TEST_CASE(its_gradients_are_those_of_the_module) {
  const Saved saved(sequential(kInOrder));
  const Chain chain = saved.chain("12", "cross_entropy");
  BOOST_TEST(chain.input.classes == 4);
  const Batch batch = random_batch(chain.input, 6, torch::kCPU);
  forward_loss(chain, batch).backward();
  jit::Module whole = jit::load(saved.file.string());
  const torch::Tensor output = whole.forward({batch.input}).toTensor();
  torch::nn::functional::cross_entropy(output, batch.target.flatten()).backward();
  std::size_t i = 0;
  for (const torch::Tensor& expected : whole.parameters()) {
    BOOST_TEST(torch::allclose(parameters(chain)[i++].grad(), expected.grad()));
  }
}

BOOST_AUTO_TEST_CASE(frozen_parameters_are_buffers) {
  jit::Module module = sequential(kInOrder);
  for (const jit::NameModule& child : module.named_children()) {
    if (child.name != "1") continue;
    for (torch::Tensor tensor : child.value.parameters()) tensor.set_requires_grad(false);
  }
  const Saved saved(module);
  const Chain chain = saved.chain("12");
  BOOST_REQUIRE(chain.units.size() == 1U);
  BOOST_TEST(parameter_count(chain) == 5 * 4 + 4);
  BOOST_TEST(buffers(chain).size() == 2U);
}

/// A table of 10 rows and a product with the same table.
jit::Module tied_language_model() {
  const torch::Tensor table = torch::rand({10, 6}).requires_grad_();
  jit::Module words("Words"), logits("Logits"), module("Tied");
  words.register_parameter("weight", table, false);
  words.define("def forward(self, x):\n  return torch.embedding(self.weight, x)\n");
  logits.register_parameter("weight", table, false);
  logits.define("def forward(self, x):\n  return torch.matmul(x, self.weight.t())\n");
  module.register_module("words", words);
  module.register_module("logits", logits);
  module.define("def forward(self, x):\n  return self.logits.forward(self.words.forward(x))\n");
  return module;
}

BOOST_AUTO_TEST_CASE(a_tied_weight_belongs_to_its_first_unit) {
  const Saved saved(tied_language_model());
  const Chain chain = saved.chain("7:long:10", "cross_entropy");
  BOOST_REQUIRE(chain.units.size() == 2U);
  BOOST_TEST(chain.units[1].shares_with == "words");
  BOOST_TEST(parameter_count(chain) == 60);
  BOOST_TEST(chain.input.classes == 10);
  BOOST_TEST(chain.input.targets_per_sample == 7);
  const Batch batch = random_batch(chain.input, 3, torch::kCPU);
  BOOST_TEST(batch.input.max().item<std::int64_t>() < 10);
  forward_loss(chain, batch).backward();
}

BOOST_AUTO_TEST_CASE(inputs_are_read) {
  const ScriptInput image = parse_script_input("3x224x200:float");
  BOOST_TEST(image.sizes == (std::vector<std::int64_t>{3, 224, 200}),
             boost::test_tools::per_element());
  BOOST_TEST(!image.tokens);
  BOOST_TEST(parse_script_input("128:long").tokens);
  BOOST_TEST(parse_script_input("128:long:30522").vocabulary == 30522);
  for (const char* wrong :
       {"", "x3", "3x", "3x0", "-1", "3:int", "3:float:9", "3:long:x", "3:long:9:9"}) {
    BOOST_CHECK_THROW(parse_script_input(wrong), std::invalid_argument);
  }
}

template <class Wrong, class Call>
void fails(Call call, const std::string& expected) {
  try {
    call();
    BOOST_ERROR("no error");
  } catch (const Wrong& error) {
    const std::string text = error.what();
    BOOST_TEST(text.find(expected) != std::string::npos, text << " has no " << expected);
    BOOST_TEST(text.find("\nremedy: ") != std::string::npos);
  }
}

/// As PyTorch's batch norm in training, which needs two values of each channel.
constexpr const char* kNormalised =
    "  assert x.size(0) > 1, \"Expected more than 1 value per channel when training\"\n"
    "  return getattr(self, \"1\").forward(x)\n";

BOOST_AUTO_TEST_CASE(a_batch_norm_of_one_value_is_refused_in_words) {
  const Chain chain = Saved(sequential(kNormalised)).chain("12");
  BOOST_CHECK_NO_THROW(check_script_batch(chain, 2));
  try {
    check_script_batch(chain, 1);
    BOOST_ERROR("no error");
  } catch (const InputError& error) {
    const std::string text = error.what();
    BOOST_TEST(text.find("error: --batches: net does not train with 1 sample at a time: ") == 0U);
    BOOST_TEST(text.find("Expected more than 1 value per channel when training\nremedy: "
                         "--batches 2 or more, or a larger --input") != std::string::npos,
               text);
  }
}

BOOST_AUTO_TEST_CASE(what_cannot_be_trained_is_refused) {
  const Saved saved(sequential(kInOrder));
  fails<MissingError>([] { script_chain({.file = "/nowhere/net.pt", .input = {}}); },
                      "/nowhere/net.pt: error: no such file");
  fails<InputError>([&] { saved.chain("13"); }, "does not turn a batch of 13 (float) into one");
  fails<InputError>([&] { saved.chain("12:long"); }, "does not turn a batch of 12 (long) into one");
  std::ofstream(saved.file) << "no zip file";
  fails<InputError>([&] { saved.chain("12"); }, "net.pt: error: not a TorchScript module");
  stateless("x * 2").save(saved.file.string());
  fails<InputError>([&] { saved.chain("12"); }, "has no parameters that are trained");
  jit::Module sum("Sum");
  sum.register_module("layer", linear(12, 5));
  sum.define("def forward(self, x):\n  return self.layer.forward(x).sum()\n");
  sum.save(saved.file.string());
  fails<InputError>([&] { saved.chain("12", "cross_entropy"); },
                    "cross_entropy needs an output of samples x classes");
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
