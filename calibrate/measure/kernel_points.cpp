#include "measure/kernel_points.hpp"

#include <ATen/Context.h>
#include <time.h>

#include <algorithm>
#include <chrono>

#include "measure/host_threads.hpp"
#include "measure/statistics.hpp"
#include "measure/timed_optimizer.hpp"
#include "models/attention.hpp"

namespace rehearse::inline calibrate {
namespace {

constexpr int kRounds = 5;
constexpr Seconds kRound{0.02};         ///< calls are repeated within a round for as long
constexpr Seconds kLongest{0.25};       ///< a call that takes longer is not repeated
constexpr double kOperands = 64 << 20;  ///< bytes that sets of operands come to
constexpr int kMostSets = 8;
constexpr int kMostLaunched = 100;  ///< calls of a few kernels each; a GPU's queue holds a thousand

using Call = std::function<void(int set)>;

int sets_of(double bytes) { return std::clamp(static_cast<int>(kOperands / bytes), 1, kMostSets); }

/// What this thread has computed.
Seconds computed() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return Seconds(static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec));
}

/// Of one call: what the device computes, and what the host needs to launch it.
struct CallTime {
  Seconds device, host;
};

/// The device is busy for as long as `ahead` before it comes to the calls. One thread of a CPU has
/// a clock of its own, which stands while others have the core.
CallTime timed(MeasuredDevice& device, int calls, int sets, const Call& call,
               Seconds ahead = Seconds()) {
  if (device.torch_device().is_cpu() && host_threads() == 1) {
    const Seconds start = computed();
    for (int i = 0; i < calls; ++i) call(i % sets);
    const Seconds each = (computed() - start) / calls;
    return {each, each};
  }
  device.forget_marks();
  if (ahead > Seconds()) device.keep_busy(ahead);
  const std::size_t start = device.mark();
  const auto launching = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) call(i % sets);
  const std::chrono::duration<double> launched = std::chrono::steady_clock::now() - launching;
  return {device.between(start, device.mark()) / calls, Seconds(launched.count()) / calls};
}

/// The median of rounds, of one call in each. Where launching takes about as long as computing, the
/// device begins when all calls are launched: as many as its queue takes.
Seconds time_of(MeasuredDevice& device, int sets, const Call& call) {
  const Seconds first = timed(device, 1, sets, call).device;
  if (first > kLongest) return first;
  const CallTime warm = timed(device, sets, sets, call);
  const bool launches_bind = device.runs_behind() && warm.host > 0.5 * warm.device;
  const int calls =
      std::clamp(static_cast<int>(kRound / warm.device), 1, launches_bind ? kMostLaunched : 1000);
  const Seconds ahead = launches_bind ? 1.5 * static_cast<double>(calls) * warm.host : Seconds();
  std::vector<Seconds> rounds;
  for (int i = 0; i < kRounds; ++i)
    rounds.push_back(timed(device, calls, sets, call, ahead).device);
  return spread_of(rounds).median;
}

torch::ScalarType type_of(Precision format) {
  if (format == Precision::fp16) return torch::kFloat16;
  return format == Precision::bf16 ? torch::kBFloat16 : torch::kFloat32;
}

std::vector<torch::Tensor> random_sets(int sets, at::IntArrayRef shape,
                                       const torch::TensorOptions& options) {
  std::vector<torch::Tensor> all;
  for (int i = 0; i < sets; ++i)
    all.push_back((0.1 * torch::randn(shape, options.dtype(torch::kFloat32))).to(options.dtype()));
  return all;
}

struct Shape {
  std::int64_t rows, columns, inner;
};

/// Linear layers of small and large transformers.
std::vector<Shape> product_shapes(bool gpu) {
  std::vector<Shape> shapes;
  const std::vector<std::int64_t> rows =
      gpu ? std::vector<std::int64_t>{1024, 4096, 16384} : std::vector<std::int64_t>{64, 256, 1024};
  const std::vector<Shape> layers =
      gpu ? std::vector<Shape>{{0, 1024, 1024},  {0, 4096, 1024},  {0, 4096, 4096},
                               {0, 11008, 4096}, {0, 4096, 11008}, {0, 32000, 4096}}
          : std::vector<Shape>{
                {0, 256, 256}, {0, 768, 768}, {0, 2304, 768}, {0, 768, 3072}, {0, 4096, 1024}};
  for (const std::int64_t one : rows)
    for (const Shape& layer : layers) shapes.push_back({one, layer.columns, layer.inner});
  return shapes;
}

class Measurement {
 public:
  Measurement(MeasuredDevice& device, const std::function<void(double)>& progress,
              const std::function<bool()>& stop)
      : device_(device), gpu_(device.torch_device().is_cuda()), progress_(progress), stop_(stop) {}

  bool stopped() {
    progress_(std::min(1.0, static_cast<double>(done_++) / kSteps));
    return stop_();
  }

  FormatPoints products(Precision format) {
    const torch::NoGradGuard no_grad;
    at::globalContext().setAllowTF32CuBLAS(format == Precision::tf32);
    FormatPoints points{
        .format = format, .forward = {}, .input_gradient = {}, .weight_gradient = {}};
    for (const Shape& shape : product_shapes(gpu_)) {
      if (stopped()) return points;
      add_products(shape, type_of(format), points);
    }
    at::globalContext().setAllowTF32CuBLAS(false);
    return points;
  }

  AttentionPoints attention(std::int64_t width, torch::ScalarType type) {
    AttentionPoints points{
        static_cast<double>(width), Bytes(torch::elementSize(type) * 1.0), {}, {}};
    struct Size {
      std::int64_t batch, heads, tokens;
    };
    const std::vector<Size> sizes =
        gpu_ ? std::vector<Size>{{8, 16, 512},  {32, 16, 512}, {4, 16, 1024}, {16, 16, 1024},
                                 {2, 16, 2048}, {4, 32, 2048}, {1, 32, 4096}, {1, 16, 8192}}
             : std::vector<Size>{{4, 12, 128}, {2, 12, 256}, {1, 12, 512}, {1, 12, 1024}};
    for (const Size& size : sizes) {
      if (stopped()) return points;
      add_attention({static_cast<double>(size.batch), static_cast<double>(size.tokens),
                     static_cast<double>(size.heads), static_cast<double>(size.heads),
                     static_cast<double>(width), true},
                    type, points);
    }
    return points;
  }

  MemoryPoints memory(torch::ScalarType type) {
    MemoryPoints points{Bytes(torch::elementSize(type) * 1.0), {}, {}, {}};
    for (const std::int64_t rows : gpu_ ? std::vector<std::int64_t>{4096, 16384, 65536}
                                        : std::vector<std::int64_t>{128, 512, 2048}) {
      if (stopped()) return points;
      add_memory(rows, gpu_ ? 4096 : 768, type, points);
    }
    return points;
  }

  std::vector<MemoryPoint> copies() {
    std::vector<MemoryPoint> points;
    for (const int power : gpu_ ? std::vector<int>{24, 26, 28} : std::vector<int>{20, 22, 24}) {
      const std::int64_t elements = std::int64_t{1} << power;
      const double bytes = 8.0 * static_cast<double>(elements);
      const auto from = random_sets(sets_of(bytes), {elements}, options(torch::kFloat32));
      auto to = random_sets(sets_of(bytes), {elements}, options(torch::kFloat32));
      const auto copy = [&](int set) { to[index(set)].copy_(from[index(set)]); };
      points.push_back({Bytes(bytes), time_of(device_, sets_of(bytes), copy)});
    }
    return points;
  }

  Seconds launch() {
    const torch::NoGradGuard no_grad;
    torch::Tensor one = torch::ones({16}, options(torch::kFloat32));
    return time_of(device_, 1, [&](int) { one.mul_(1.0F); });
  }

  Seconds optimizer_per_parameter() {
    const std::int64_t side = gpu_ ? 4096 : 1024;
    std::vector<torch::Tensor> parameters;
    for (int i = 0; i < 8; ++i) {
      parameters.push_back(torch::randn({side, side}, options(torch::kFloat32)).requires_grad_());
      parameters.back().mutable_grad() = torch::randn({side, side}, options(torch::kFloat32));
    }
    const auto optimizer = default_optimizer("adamw", parameters);
    const Seconds step = time_of(device_, 1, [&](int) { optimizer->step(); });
    return step / static_cast<double>(8 * side * side);
  }

 private:
  static constexpr double kSteps = 60;  ///< about as many shapes as there are

  static std::size_t index(int set) { return static_cast<std::size_t>(set); }
  torch::TensorOptions options(torch::ScalarType type) const {
    return torch::TensorOptions(type).device(device_.torch_device());
  }

  void add_products(const Shape& shape, torch::ScalarType type, FormatPoints& points) {
    const auto [m, n, k] = shape;
    const double element = static_cast<double>(torch::elementSize(type));
    const double bytes = element * static_cast<double>(m * k + k * n + m * n);
    const int sets = sets_of(bytes);
    const auto input = random_sets(sets, {m, k}, options(type));
    const auto weight = random_sets(sets, {n, k}, options(type));
    const auto gradient = random_sets(sets, {m, n}, options(type));
    const auto rows = static_cast<double>(m), columns = static_cast<double>(n),
               inner = static_cast<double>(k);
    const auto time = [&](const Call& call) { return time_of(device_, sets, call); };
    points.forward.push_back({{rows, columns, inner, 1}, Bytes(bytes), time([&](int s) {
                                torch::mm(input[index(s)], weight[index(s)].t());
                              })});
    points.input_gradient.push_back({{rows, inner, columns, 1}, Bytes(bytes), time([&](int s) {
                                       torch::mm(gradient[index(s)], weight[index(s)]);
                                     })});
    points.weight_gradient.push_back({{columns, inner, rows, 1}, Bytes(bytes), time([&](int s) {
                                        torch::mm(gradient[index(s)].t(), input[index(s)]);
                                      })});
  }

  void add_attention(const AttentionSize& size, torch::ScalarType type, AttentionPoints& points) {
    const std::vector<std::int64_t> shape = {
        static_cast<std::int64_t>(size.batch), static_cast<std::int64_t>(size.heads),
        static_cast<std::int64_t>(size.tokens), static_cast<std::int64_t>(size.width)};
    std::vector<torch::Tensor> in;
    for (torch::Tensor& one : random_sets(3, shape, options(type)))
      in.push_back(one.requires_grad_());
    const auto forward = [&] { return rehearse::attention(in[0], in[1], in[2], {.causal = true}); };
    points.forward.push_back({size, false, time_of(device_, 1, [&](int) { forward(); })});
    const torch::Tensor out = forward(), gradient = torch::ones_like(out);
    const auto backward = [&](int) {
      torch::autograd::grad({out}, in, {gradient}, /*retain_graph=*/true);
    };
    points.backward.push_back({size, true, time_of(device_, 1, backward)});
  }

  void add_memory(std::int64_t rows, std::int64_t columns, torch::ScalarType type,
                  MemoryPoints& points) {
    const Bytes once = points.element * static_cast<double>(rows * columns);
    const int sets = sets_of(2 * once.value());
    const auto left = random_sets(sets, {rows, columns}, options(type));
    const auto right = random_sets(sets, {rows, columns}, options(type));
    const auto time = [&](const Call& call) { return time_of(device_, sets, call); };
    const auto forward_and_backward = [&](const std::function<torch::Tensor(torch::Tensor)>& call) {
      std::vector<torch::Tensor> in, out;
      for (const torch::Tensor& one : left) {
        in.push_back(one.detach().clone().requires_grad_());
        out.push_back(call(in.back()));
      }
      const Seconds there = time([&](int s) { call(in[index(s)]); });
      const Seconds back = time([&](int s) {
        torch::autograd::grad({out[index(s)]}, {in[index(s)]}, {right[index(s)]}, true);
      });
      return std::pair{there, back};
    };
    points.pointwise.push_back({3.0 * once, time([&](int s) {
                                  const torch::NoGradGuard no_grad;
                                  torch::add(left[index(s)], right[index(s)]);
                                })});
    // The bytes are those that src/model counts.
    const auto [gelu, gelu_back] =
        forward_and_backward([](const torch::Tensor& x) { return torch::gelu(x); });
    points.pointwise.push_back({2.0 * once, gelu});
    points.pointwise.push_back({3.0 * once, gelu_back});
    const torch::Tensor weight = torch::ones({columns}, options(type)).requires_grad_();
    const torch::Tensor bias = torch::zeros({columns}, options(type)).requires_grad_();
    const auto [norm, norm_back] = forward_and_backward(
        [&](const torch::Tensor& x) { return torch::layer_norm(x, {columns}, weight, bias); });
    points.rows.push_back({2.0 * once, norm});
    points.rows_backward.push_back({5.0 * once, norm_back});
    points.rows.push_back({2.0 * once, time([&](int s) {
                             const torch::NoGradGuard no_grad;
                             torch::softmax(left[index(s)], -1);
                           })});
  }

  MeasuredDevice& device_;
  bool gpu_;
  const std::function<void(double)>& progress_;
  const std::function<bool()>& stop_;
  int done_ = 0;
};

}  // namespace

std::optional<KernelPoints> measure_kernels(MeasuredDevice& device,
                                            const std::function<void(double share)>& progress,
                                            const std::function<bool()>& stop) {
  Measurement measurement(device, progress, stop);
  KernelPoints points;
  points.launch = measurement.launch();
  const std::vector<Precision> formats = device.formats();
  const auto has = [&](Precision format) { return std::ranges::count(formats, format) > 0; };
  std::vector<Precision> measured = {Precision::fp32};
  if (has(Precision::tf32)) measured.push_back(Precision::tf32);
  const Precision narrow = has(Precision::bf16) ? Precision::bf16 : Precision::fp16;
  if (has(narrow)) measured.push_back(narrow);
  for (const Precision format : measured) points.products.push_back(measurement.products(format));
  std::vector<torch::ScalarType> types = {torch::kFloat32};
  if (has(narrow)) types.push_back(type_of(narrow));
  const bool gpu = device.torch_device().is_cuda();
  for (const torch::ScalarType type : types) {
    for (const std::int64_t width :
         gpu ? std::vector<std::int64_t>{64, 128} : std::vector<std::int64_t>{64})
      points.attention.push_back(measurement.attention(width, type));
    points.memory.push_back(measurement.memory(type));
  }
  points.copies = measurement.copies();
  points.optimizer_per_parameter = measurement.optimizer_per_parameter();
  if (measurement.stopped()) return std::nullopt;
  return points;
}

}  // namespace rehearse::inline calibrate
