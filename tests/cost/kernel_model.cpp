// The closed forms of kernels: what the fit says of them, what they say of the tables, what must
// hold of any.
#include "cost/kernel_model.hpp"
#include "base/data_folder.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <fstream>
#include <sstream>

namespace rehearse {
BOOST_AUTO_TEST_SUITE(kernel_model_test)
namespace {

using Row = std::vector<std::string>;

std::vector<Row> rows_of(const std::string& name) {
  std::ifstream file(platforms_folder() / "kernels" / name);
  std::vector<Row> rows;
  std::string line;
  std::getline(file, line);  // the columns' names
  while (std::getline(file, line)) {
    Row row;
    std::istringstream cells(line);
    for (std::string cell; std::getline(cells, cell, ',');) row.push_back(cell);
    rows.push_back(row);
  }
  BOOST_TEST_REQUIRE(!rows.empty());
  return rows;
}

KernelDevice device_of(const Gpu& gpu) {
  return {gpu.bf16.value(), gpu.memory_bandwidth.value(), gpu.curves->sms};
}

Bytes operands(const ProductSize& size) {
  return Bytes(2 * size.batch *
               (size.rows * size.inner + size.inner * size.columns + size.rows * size.columns));
}

Seconds product_of(const Gpu& gpu, const ProductSize& size) {
  const Seconds time =
      product_time(gpu.curves->products.at("tensor"), device_of(gpu), size, operands(size));
  return time * std::exp(residual(*gpu.curves, size));
}

double number(const Row& row, std::size_t column) { return std::stod(row.at(column)); }

BOOST_AUTO_TEST_CASE(predictions_are_those_of_the_fit) {
  int products = 0, attentions = 0;
  for (const Row& row : rows_of("samples.csv")) {
    const Gpu gpu = known_gpu(row.at(0));
    Seconds time;
    if (row.at(1) == "gemm") {
      time = product_of(gpu, {number(row, 2), number(row, 3), number(row, 4)});
      ++products;
    } else {
      const double width = std::stod(row.at(1).substr(std::string("attention ").size()));
      const std::vector<AttentionCurve>& curves = gpu.curves->attention;
      const auto curve = std::find_if(curves.begin(), curves.end(), [&](const AttentionCurve& one) {
        return one.width == width;
      });
      BOOST_TEST_REQUIRE((curve != curves.end()));
      time = attention_time(curve->forward, device_of(gpu),
                            {number(row, 3), number(row, 4), number(row, 5), number(row, 6), width,
                             number(row, 2) > 0},
                            false);
      ++attentions;
    }
    BOOST_TEST(std::abs(time.value() / number(row, 8) - 1) < 1e-6,
               row.at(0) << " " << row.at(1) << ": " << time.value() << ", not " << row.at(8));
  }
  BOOST_TEST(products >= 200);
  BOOST_TEST(attentions >= 100);
}

BOOST_AUTO_TEST_CASE(products_of_the_tables_are_within_the_stated_errors) {
  std::map<std::string, std::vector<double>> errors;
  std::map<std::string, Gpu> gpus;
  for (const Row& row : rows_of("data/gemm_bf16.csv")) {
    const ProductSize size{number(row, 1), number(row, 2), number(row, 3)};
    if (size.rows < 1024 || size.columns < 512 || size.inner < 512) continue;
    if (!gpus.contains(row.at(0))) gpus.emplace(row.at(0), known_gpu(row.at(0)));
    const Gpu& gpu = gpus.at(row.at(0));
    errors[row.at(0)].push_back(
        std::abs(product_of(gpu, size).value() / (number(row, 4) * 1e-6) - 1));
  }
  BOOST_TEST(errors.size() == 5);
  for (const auto& [name, all] : errors) {
    double sum = 0;
    for (const double error : all) sum += error;
    const auto& stated = gpus.at(name).curves->errors;
    const auto unseen = std::find_if(stated.begin(), stated.end(), [](const KernelError& error) {
      return error.family == "gemm tensor" && error.unseen == "shape, training-size";
    });
    BOOST_TEST_REQUIRE((unseen != stated.end()));
    const double mean = sum / static_cast<double>(all.size());
    BOOST_TEST(mean <= unseen->mean, name << ": " << mean << " over " << unseen->mean);
    BOOST_TEST(unseen->mean <= 0.075, name);
  }
}

BOOST_AUTO_TEST_CASE(a_large_product_takes_its_share_of_the_peak) {
  // 4 waves of 256 x 128 tiles on 2 multiprocessors, no prologue: FLOPs over the share's rate.
  const ProductCurve curve{
      .launch = Seconds(1e-6), .share = 0.5, .traffic = 1, .sharpness = 8, .split = Seconds(1)};
  const KernelDevice device{1e12, 1e15, 2};
  const ProductSize size{1024, 256, 4096};
  const double expected = 1e-6 + 2.0 * 1024 * 256 * 4096 / 0.5e12;
  BOOST_TEST(std::abs(product_time(curve, device, size, Bytes(1)).value() / expected - 1) < 1e-9);
  // One row more takes more waves: of 64 x 32 tiles 68 for 64.
  BOOST_TEST(product_time(curve, device, {1025, 256, 4096}, Bytes(1)).value() >
             1.05 * (expected - 1e-6));
}

BOOST_AUTO_TEST_CASE(nothing_gets_faster_by_being_larger) {
  for (const char* name : {"A100-SXM-80", "H100-SXM", "B200", "V100-SXM2-16", "T4"}) {
    const Gpu gpu = known_gpu(name);
    const ProductCurve& curve = gpu.curves->products.at("tensor");
    const KernelDevice device = device_of(gpu);
    for (const double m : {16., 100., 1000., 5000., 40000.}) {
      for (const double n : {64., 777., 4096.}) {
        for (const double k : {64., 1000., 8192.}) {
          const ProductSize size{m, n, k};
          const Seconds time = product_time(curve, device, size, operands(size));
          for (const ProductSize& larger : {ProductSize{m * 1.3, n, k}, ProductSize{m, n * 1.3, k},
                                            ProductSize{m, n, k * 1.3}, ProductSize{m, n, k, 2}}) {
            BOOST_TEST((product_time(curve, device, larger, operands(larger)) >= time));
          }
          BOOST_TEST((product_time(curve, device, size, 2.0 * operands(size)) >= time));
        }
      }
    }
    for (const AttentionCurve& one : gpu.curves->attention) {
      for (const bool causal : {false, true}) {
        Seconds before;
        for (double tokens = 128; tokens <= 65536; tokens *= 2) {
          const AttentionSize size{4, tokens, 16, 16, one.width, causal};
          const Seconds time = attention_time(one.backward, device, size, true);
          BOOST_TEST((time >= before));
          BOOST_TEST((time > attention_time(one.forward, device, size, false)));
          before = time;
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(causal_attention_of_long_sequences_is_half_the_work) {
  const Gpu gpu = known_gpu("A100-SXM-80");
  const KernelModel kernels(gpu, Precision::bf16);
  AttentionSize size{8, 16384, 16, 16, 128, true};
  const Seconds causal = kernels.attention(size, false, AttentionKernel::flash2);
  size.causal = false;
  const double ratio = causal / kernels.attention(size, false, AttentionKernel::flash2);
  BOOST_TEST((ratio > 0.48 && ratio < 0.56), ratio);
  BOOST_TEST((kernels.attention(size, true, AttentionKernel::triton) >
              1.7 * kernels.attention(size, true, AttentionKernel::flash2)));
}

BOOST_AUTO_TEST_CASE(attention_within_a_window_does_the_window_s_work) {
  const KernelModel kernels(known_gpu("A100-SXM-80"), Precision::bf16);
  AttentionSize size{8, 16384, 16, 16, 128, true};
  const Seconds all = kernels.attention(size, false, AttentionKernel::flash2);
  size.window = 1024;
  // Of a triangle's 8,192 keys in the mean a block of 128 queries sees 1,024 + 128.
  const double ratio = kernels.attention(size, false, AttentionKernel::flash2) / all;
  BOOST_TEST((ratio > 0.12 && ratio < 0.18), ratio);
  size.window = 32768;
  BOOST_TEST((kernels.attention(size, false, AttentionKernel::flash2) == all));
}

BOOST_AUTO_TEST_CASE(the_same_chip_has_the_same_curves_and_a_relative_lends_them) {
  BOOST_TEST(known_gpu("A100-SXM-40").curves->products.at("tensor").share ==
             known_gpu("A100-SXM-80").curves->products.at("tensor").share);
  BOOST_TEST(known_gpu("H200-SXM").curves->gpu == "H200-SXM");
  BOOST_TEST(known_gpu("H800-SXM").curves->gpu == "H100-SXM");
  BOOST_TEST((known_gpu("generic").curves == nullptr));
  BOOST_TEST(!KernelModel(known_gpu("generic"), Precision::bf16).knows_products());
}

// PyTorch pads no vocabulary: GPT-2's 50,257 tokens are 7 times as slow as 50,304, BERT's 30,522,
// which begin at every second element, 3 times.
BOOST_AUTO_TEST_CASE(products_whose_rows_are_not_aligned_are_slow) {
  const Gpu gpu = known_gpu("H200-SXM");
  const KernelModel kernels(gpu, Precision::bf16);
  using enum KernelModel::Role;
  const auto time = [&](double vocabulary, KernelModel::Role role) {
    return role == weight_gradient ? kernels.product({vocabulary, 768, 8192}, role)
           : role == forward       ? kernels.product({8192, vocabulary, 768}, role)
                                   : kernels.product({8192, 768, vocabulary}, role);
  };
  for (const auto role : {forward, input_gradient, weight_gradient}) {
    const double odd = time(50257, role) / time(50304, role);
    const double even = time(30522, role) / time(30528, role);
    BOOST_TEST((odd > 3.5 && odd < 8), odd);
    BOOST_TEST((even > 2 && even < 4), even);
    BOOST_TEST((time(50264, role) < 1.1 * time(50304, role)));
  }
  const double work = 2 * 8192.0 * 50257 * 768;
  const double bound = work / (gpu.multiprocessors() * gpu.curves->unaligned.value());
  BOOST_TEST(std::abs(time(50257, forward).value() / bound - 1) < 1e-9);
}

// torch._grouped_mm of 8 to 128 experts, and the same products one after the other, as an H200 ran
// them; no parameter is fitted to either.
BOOST_AUTO_TEST_CASE(grouped_products_are_one_kernel) {
  const KernelModel kernels(known_gpu("H200-SXM"), Precision::bf16);
  using enum KernelModel::Role;
  double together = 0, in_turn = 0, wrong = 0;
  int grouped = 0, looped = 0;
  for (const Row& row : rows_of("data/grouped_hopper.csv")) {
    const double experts = std::stod(row[3]), each = std::stod(row[4]) / experts;
    const double n = std::stod(row[5]), k = std::stod(row[6]), measured = std::stod(row[7]) * 1e-6;
    const auto role = row[2] == "forward" ? forward
                      : row[2] == "input" ? input_gradient
                                          : weight_gradient;
    ProductSize size{each, n, k};
    if (role == input_gradient) size = {each, k, n};
    if (role == weight_gradient) size = {n, k, each};
    const double turns = experts * kernels.product(size, role).value();
    size.batch = experts;
    const double at_once = kernels.product(size, role).value();
    if (row[1] == "grouped_mm") {
      together += std::abs(at_once / measured - 1);
      wrong += std::abs(turns / measured - 1);
      ++grouped;
    } else if (row[1] == "loop") {
      in_turn += std::abs(turns / measured - 1);
      ++looped;
    }
  }
  BOOST_TEST_REQUIRE((grouped == 30 && looped == 10));
  BOOST_TEST(together / grouped < 0.12);
  BOOST_TEST(in_turn / looped < 0.08);
  BOOST_TEST(wrong / grouped > 0.4);
}

// What each expert's gradient is added to is read and written behind its product: more than where
// all bytes overlap alike, and less than both one after the other.
BOOST_AUTO_TEST_CASE(sums_of_experts_overlap_little) {
  const Gpu gpu = known_gpu("B200");
  const KernelModel kernels(gpu, Precision::bf16_master);
  const ProductSize size{4096, 7168, 1024};
  const double plain = kernels.product(size, KernelModel::Role::weight_gradient).value();
  const double sums = kernels.product(size, KernelModel::Role::added_gradient).value();
  const double moved = 8.0 * 4096 * 7168 / gpu.memory_bandwidth.value();
  BOOST_TEST(sums > plain + 0.3 * moved);
  BOOST_TEST(sums < plain + 1.5 * moved);
}

// Megatron-LM's products add weights' gradients to fp32, which shows backward alone.
BOOST_AUTO_TEST_CASE(gradients_in_fp32_are_added_by_their_products) {
  const Gpu gpu = known_gpu("B200");
  constexpr double kSide = 8192, kFlops = 2 * kSide * kSide * 4096;
  Model model;
  model.units = {{.name = "u",
                  .tensors = {static_cast<std::int64_t>(kSide * kSide)},
                  .operators = {{.kind = OperatorKind::matmul,
                                 .forward_flops = kFlops,
                                 .backward_flops = 2 * kFlops,
                                 .parameter_elements = kSide * kSide,
                                 .product = {.rows = 4096, .columns = kSide, .inner = kSide}}}}};
  const auto unit = [&](bool wide) {
    const Optimizer optimizer{.of = Precision::bf16_master, .wide_gradients = wide};
    return step_costs(model, gpu, Precision::bf16_master, 1, optimizer, {}).units.at(0);
  };
  const double more = (unit(true).backward - unit(false).backward).value();
  const double sums = 8 * kSide * kSide / gpu.memory_bandwidth.value();
  BOOST_TEST(unit(true).forward.value() == unit(false).forward.value());
  BOOST_TEST((more > 0.3 * sums && more < sums), more / sums);
}

BOOST_AUTO_TEST_CASE(pytorch_takes_cudnn_s_attention_on_hopper) {
  const AttentionSize size{4, 4096, 32, 8, 128, true};
  for (const char* name : {"H100-SXM", "H200-SXM"}) {
    const Gpu gpu = known_gpu(name);
    const KernelModel kernels(gpu, Precision::bf16);
    BOOST_TEST((attention_library(AttentionKernel::sdpa, gpu) == AttentionKernel::cudnn));
    for (const bool backward : {false, true}) {
      const double ratio = kernels.attention(size, backward, AttentionKernel::flash2) /
                           kernels.attention(size, backward, AttentionKernel::cudnn);
      BOOST_TEST((ratio > 1.4 && ratio < 2.2), name << " " << ratio);
    }
  }
  const Gpu ampere = known_gpu("A100-SXM-80");
  BOOST_TEST((attention_library(AttentionKernel::sdpa, ampere) == AttentionKernel::flash2));
  BOOST_TEST((attention_library(AttentionKernel::flash3, ampere) == AttentionKernel::flash3));
}

// Azure/AI-benchmarking-guide@8fd0c6e1bd: cuBLASLt, random data, 10,000 warm-ups, in TFLOP/s. The
// curve is of other products, in PyTorch; what launches bind is left out.
BOOST_AUTO_TEST_CASE(large_products_in_8_bits_are_as_fast_as_azure_measured) {
  const KernelModel kernels(known_gpu("H100-SXM"), Precision::fp8);
  const std::vector<std::pair<ProductSize, double>> measured = {{{4096, 4096, 4096}, 1216.9},
                                                                {{8192, 8192, 8192}, 1290.1},
                                                                {{16384, 16384, 16384}, 1377.3},
                                                                {{32768, 32768, 32768}, 1382.2},
                                                                {{6144, 12288, 12288}, 1351.4}};
  for (const auto& [size, rate] : measured) {
    const double time = 2 * size.rows * size.columns * size.inner / (rate * 1e12);
    const double predicted =
        kernels.product(size, KernelModel::Role::forward, KernelModel::Operands::narrow).value();
    BOOST_TEST(std::abs(predicted / time - 1) < 0.12, size.rows << ": " << predicted / time);
  }
}

StepCosts on_h100(const Operator& op, Precision precision, const Optimizer& optimizer = {}) {
  Model model;
  model.units = {{.name = "u", .tensors = {1'000'000'000}, .operators = {op}}};
  return step_costs(model, known_gpu("H100-SXM"), precision, 1, optimizer, {});
}

// bitsandbytes' kernel took 35.6 ms for 1.236 G parameters in 16 bits on this GPU.
BOOST_AUTO_TEST_CASE(adamw_in_8_bits_takes_what_its_kernel_took) {
  const Optimizer optimizer{.kind = OptimizerKind::adamw_8bit, .of = Precision::bf16_pure};
  const double seconds = on_h100({}, Precision::bf16_pure, optimizer).optimizer.value();
  BOOST_TEST(seconds == 35637.84e-6 / 1.2358144, boost::test_tools::tolerance(0.005));
}

// MatMul8bitLt's backward makes its bytes as wide as its input was.
BOOST_AUTO_TEST_CASE(llm_int8_multiplies_fp32_in_fp32_backward) {
  constexpr double kFlops = 2.0 * 4096 * 4096 * 4096;
  Operator op{.kind = OperatorKind::matmul,
              .forward_flops = kFlops,
              .backward_flops = kFlops,
              .parameter_elements = 4096 * 4096,
              .product = {.rows = 4096, .columns = 4096, .inner = 4096},
              .frozen = true,
              .storage = StoredAs::int8};
  const auto unit = [&] { return on_h100(op, Precision::bf16_pure_autocast).units.at(0); };
  const double narrow = unit().backward.value(), forward = unit().forward.value();
  op.always_fp32 = true;
  BOOST_TEST(unit().backward.value() > 5 * narrow);
  BOOST_TEST(unit().forward.value() == forward);
}

// TransformerEngine and torchao's recipes ask for exact sums of gradients.
BOOST_AUTO_TEST_CASE(gradients_in_fp8_add_their_sums_in_fp32) {
  const Gpu gpu = known_gpu("H100-SXM");
  using Role = KernelModel::Role;
  using Operands = KernelModel::Operands;
  const KernelModel kernels(gpu, Precision::fp8);
  const auto seconds = [&](Operands operands) {
    const double launch = gpu.curves->products.at("fp8").launch.value();
    return kernels.product({16384, 16384, 16384}, Role::weight_gradient, operands).value() - launch;
  };
  BOOST_CHECK_CLOSE(seconds(Operands::narrow) / seconds(Operands::exact_narrow),
                    gpu.curves->exact_fp8, 0.1);
  Gpu alike = gpu;
  KernelCurves curves = *gpu.curves;
  curves.exact_fp8 = 1;
  alike.curves = std::make_shared<const KernelCurves>(curves);
  const auto backward = [](Float8 recipe, const Gpu& on) {
    constexpr double kSide = 16384, kFlops = 2 * kSide * kSide * kSide;
    Model model;
    model.units = {{.name = "u",
                    .tensors = {1},
                    .operators = {{.kind = OperatorKind::matmul,
                                   .forward_flops = kFlops,
                                   .backward_flops = 2 * kFlops,
                                   .product = {.rows = kSide, .columns = kSide, .inner = kSide},
                                   .narrows = true,
                                   .float8 = recipe}}}};
    return step_costs(model, on, Precision::fp8, 1, {}, {}).units.at(0).backward;
  };
  BOOST_TEST((backward(Float8::none, gpu) > 1.03 * backward(Float8::none, alike)));
  BOOST_TEST((backward(Float8::tensorwise, gpu) > backward(Float8::tensorwise, alike)));
  BOOST_TEST((backward(Float8::rowwise, gpu) > backward(Float8::rowwise, alike)));
}

// Autocast casts a weight forward, and its gradient backward: a frozen one has none.
BOOST_AUTO_TEST_CASE(frozen_weights_are_cast_forward_alone) {
  Operator op{.kind = OperatorKind::matmul,
              .forward_flops = 2e12,
              .backward_flops = 2e12,
              .parameter_elements = 1e9,
              .product = {.rows = 1000, .columns = 31250, .inner = 32000},
              .frozen = true};
  const auto unit = [&](Precision precision) { return on_h100(op, precision).units.at(0); };
  const UnitCost cast = unit(Precision::bf16), plain = unit(Precision::bf16_pure);
  BOOST_TEST((cast.forward - plain.forward).value() > 1e9 * 6 / 3.35e12);
  BOOST_TEST(cast.backward.value() == plain.backward.value());
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
