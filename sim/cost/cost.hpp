#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/cluster.hpp"
#include "cost/cost_parts.hpp"
#include "cost/segments.hpp"
#include "model/matrices.hpp"
#include "model/model.hpp"
#include "profile/compute_profile.hpp"

namespace rehearse::inline cost {

/// PyTorch's optimizers that a scenario can name, with the per-parameter state that each keeps.
enum class OptimizerKind { sgd, sgd_momentum, adam, adamw, lamb, adamw_8bit, adafactor, muon };
/// Memory that holds an optimizer's states and master weights: the GPU's, its host's, or drives of
/// its node (DeepSpeed's offload_optimizer.device). Of the last two the host's CPUs take the step.
enum class Offload : std::uint8_t { none, cpu, nvme };
/// Copies and steps of an optimizer on the host that run beside each other. `copies`: gradients
/// come, parameters go and the CPUs step at once, all behind backward (Megatron-LM's
/// overlap_cpu_optimizer_d2h_h2d). `backward`: each part's gradients go, and its step begins, while
/// backward makes the next ones (DeepSpeed's super_offload, prime-rl's full_optim_cpu_offload).
enum class OffloadOverlap : std::uint8_t { none, copies, backward };
struct Optimizer {
  OptimizerKind kind = OptimizerKind::sgd;
  /// PyTorch's option of this name: one kernel per step that reads and writes each tensor once.
  bool fused = false;
  /// Where it is not fused: a kernel per operation over all tensors, PyTorch's default on CUDA; or
  /// one for each tensor.
  bool foreach = true;
  /// How the parameters that it updates, and their gradients, are stored.
  Precision of = Precision::fp32;
  /// Bytes of an element of its states; nothing: as wide as what it updates (the master weights
  /// where there are any), as torch.optim's zeros_like makes them.
  std::optional<Bytes> state_element{};
  /// Bytes of an element of its master weights; 0: it keeps none; nothing: 4 where `of` has them.
  std::optional<Bytes> master_element{};
  /// States in memory that the driver moves between host and GPU (bitsandbytes' paged optimizers):
  /// no part of the allocator's.
  bool paged = false;
  /// Gradients travel to the host, which has the step, and parameters back.
  Offload offload = Offload::none;
  OffloadOverlap offload_overlap = OffloadOverlap::none;
  /// Each parameter's step as soon as backward has made its gradient, which goes at once
  /// (torchtune's optimizer_in_bwd).
  bool in_backward = false;
  /// Beside master weights: gradients come in fp32, so that none is converted. Products add them to
  /// what is kept (Megatron-LM's main_grad and gradient_accumulation_fusion).
  bool wide_gradients = false;
  /// Gradients are scaled to this norm at most (torch.nn.utils.clip_grad_norm_, Megatron-LM's
  /// --clip-grad); 0: they are not; nothing: as the framework does unless it is told.
  std::optional<double> clip_grad{};
  /// The loss is scaled so that small gradients survive in fp16, and gradients are unscaled
  /// (torch.amp.GradScaler, Megatron-LM's DynamicGradScaler); nothing: as the precision asks.
  std::optional<bool> grad_scaler{};

  bool offloads() const { return offload != Offload::none; }
  bool overlaps_backward() const { return offload_overlap == OffloadOverlap::backward; }
  bool clips() const { return clip_grad.value_or(0) > 0; }
  bool scales() const { return grad_scaler.value_or(false); }
};
/// The optimizer as it is to parameters of that storage.
Optimizer on_storage(Optimizer optimizer, StoredAs storage);
/// The optimizer of one tensor: Muon is AdamW to what is no hidden matrix, as its authors use it
/// (Jordan et al. 2024; Liu et al., arXiv:2502.16982).
Optimizer on_tensor(Optimizer optimizer, const std::optional<MatrixShape>& matrix);
std::string to_string(OptimizerKind kind);
std::string to_string(const Optimizer& optimizer);  ///< "adamw", "adamw, fused", "adamw, for-loop"
const std::vector<std::string>& optimizer_names();
OptimizerKind parse_optimizer(const std::string& name);  ///< throws std::invalid_argument
/// Tensors of a parameter's number of elements that an optimizer keeps from its first step on, and
/// takes during a step.
struct OptimizerMemory {
  int states = 0;           ///< sgd 0, sgd_momentum and muon 1, adam, adamw, adamw_8bit and lamb 2
  Bytes state_element;      ///< scales of 8-bit ones included
  Bytes temporary_element;  ///< of the temporaries
  bool factored = false;    ///< a state per row and one per column, fp32 (adafactor)
  Bytes master_element;     ///< of the master weights; 0: none
  Bytes gradient_element;  ///< of the gradients' copies beside master weights, of all parameters at
                           ///< once; 0: none
  int foreach_temporaries = 0;  ///< of all parameters at once
  int loop_temporaries = 0;     ///< of one parameter after the other
  bool one_by_one = false;      ///< it has no multi-tensor form
  bool orthogonalizes = false;  ///< muon: its temporaries are those of newton_schulz()

  /// Bytes kept per parameter: states and master weights.
  Bytes kept() const { return static_cast<double>(states) * state_element + master_element; }
};
OptimizerMemory optimizer_memory(const Optimizer& optimizer);
/// Steps of Muon's Newton-Schulz iteration.
inline constexpr std::size_t kNewtonSchulzSteps = 5;
/// States and master weights of all that is trained of a model.
Bytes kept_of(const Optimizer& optimizer, const Model& model);
/// Describes the formats that it keeps: "parameters and gradients 2 bytes, 2 states of 2, no master
/// weights".
std::string describe_formats(const Optimizer& optimizer);
/// True where its states and weights are those of torch.optim on the parameters themselves.
bool has_plain_formats(const Optimizer& optimizer);
/// True where PyTorch's optimizer has the option `fused` (all but lamb, which is NVIDIA apex's and
/// always is).
bool has_fused_option(OptimizerKind kind);
/// Bytes that one step moves per parameter: every read and write of p, g, the states and
/// temporaries, each in its own type. Master weights take p's and g's places: the gradient is
/// converted before and the parameter after (DeepSpeed's stage_1_and_2.py; Megatron-LM's
/// _copy_model_grads_to_main_grads and _copy_main_params_to_model_params), 12 bytes more.
Bytes optimizer_bytes_per_parameter(const Optimizer& optimizer);
/// Kernels that one step launches over all `tensors`.
double optimizer_kernels(const Optimizer& optimizer, std::size_t tensors);
/// Number of those kernels that a loop in Python launches, one by one for each tensor.
double looped_kernels(const Optimizer& optimizer, std::size_t tensors);

/// CPU time of an operator of an eager model in Python: modules, autograd's nodes and one or two
/// kernels. On the host of a virtual machine (Xeon, 2 GHz) with an H100 it was 37 to 74 us, the
/// median 49, in eleven networks so small that the GPU waited (tests/validation/hopper). Nobody
/// measured a fast host, which may take a third of that: a guess in between.
inline constexpr Seconds kHostOperator{30e-6};
/// CPU time of a kernel that no eager operator stands for: of compiled code, of an optimizer.
inline constexpr Seconds kHostLaunch{8e-6};
/// Host time of an optimizer's step over lists of tensors for each of them, in units of an eager
/// operator's. PyTorch groups them in Python (_group_tensors_by_device_and_dtype). Four image
/// networks took 0.21 to 0.29 of it there.
inline constexpr double kHostTensor = 0.24;
/// The same for each kernel that an optimizer launches in a loop over tensors: AdamW's took 0.43 of
/// an operator for BERT-Large (foreach=False, tests/validation/hopper).
inline constexpr double kHostLoop = 0.43;
/// Half-width of the 90 % interval of ln(time) of all these, and where a scenario says what the
/// host takes: networks on one host differ so.
inline constexpr double kHostLaunchError = 0.9, kStatedLaunchError = 0.35;

/// Shares of the datasheet's peaks that a scenario states itself (run.efficiency), for every GPU;
/// what is empty is the GPU's own (Gpu::kernels). kernel_shares.hpp puts them together.
/// Modules of a block that a CUDA graph holds, in Megatron-LM's words (core/transformer/enums.py,
/// CudaGraphScope): attention or a state space with the norm before it, a dense feed-forward layer,
/// a whole layer of experts; or of experts the norm and the router, and what a dispatcher does
/// before it sends tokens. Or one graph holds all forward and backward passes of a step, behind
/// which the host launches the optimizer (core/full_cuda_graph.py: FullCudaGraphWrapper).
enum class GraphScope : std::uint8_t {
  attn,
  mlp,
  moe,
  moe_router,
  moe_preprocess,
  mamba,
  full_iteration
};

struct AnalyticEfficiency {
  std::optional<double> matrix = std::nullopt;     ///< in any format
  std::optional<double> depthwise = std::nullopt;  ///< convolution, of the fp32 peak
  std::optional<double> attention = std::nullopt;
  std::optional<double> memory = std::nullopt;  ///< of the bandwidth, all kernels
  std::optional<Seconds> kernel_launch = std::nullopt;
  /// CPU time that an eager operator takes; a step is never shorter than its launches. Nothing:
  /// kHostOperator. 0: CUDA graphs.
  std::optional<Seconds> host_launch = std::nullopt;
  double host_times = 1;  ///< that, so many times
  /// CUDA_LAUNCH_BLOCKING: the host launches nothing until the kernel before has ended.
  bool launch_blocking = false;
  /// What graphs replay: each is one call, and nobody launches its kernels.
  std::vector<GraphScope> graphs = {};

  Seconds host_operator() const { return host_times * host_launch.value_or(kHostOperator); }
  /// Host time of a compiled kernel, on a host that is as slow.
  Seconds host_kernel() const { return host_operator() * (kHostLaunch / kHostOperator); }
};

/// Half-width of the 90 % interval of ln(time) of a step that the roofline computes with shares
/// measured on that GPU (tests/published/check holds it against rows that no share was fitted to).
inline constexpr double kAnalyticError = 0.3;
/// The same where curves were fitted to that GPU's kernels.
inline constexpr double kCurvesError = 0.25;
/// Error that is added where the shares are those of a relative: power limits move the reached peak
/// of cards of one chip by up to 30 %.
inline constexpr double kRelativeError = 0.26;
/// Error that is added where nothing is known of the GPU's kernels. The shares of the peak that the
/// GPUs of platforms/gpus.yaml reach on tensor cores lie within a factor of e^0.4 of the general
/// ones.
inline constexpr double kUnknownKernelsError = 0.4;
/// The same for what carrying a step's costs over adds, to a GPU up to kTransferRange times as fast
/// or slow: the roofline's errors of ResNet-50 on four GPUs (those rows) differ by as much at most.
/// Beyond, it grows with the logarithm of the ratio.
inline constexpr double kTransferError = 0.22;
inline constexpr double kTransferRange = 3.1;

/// Where a cost comes from; the report always says which.
enum class Provenance { given, analytic, measured, transferred };
std::string to_string(Provenance provenance);

/// Costs of one unit for one batch on one GPU.
struct UnitCost {
  Seconds forward, backward;
  double forward_spread = 0, backward_spread = 0;  ///< Compute::spread; 0 where not measured
  Seconds forward_launch, backward_launch;         ///< CPU time to launch its kernels
  /// Bytes kept from forward to backward, as measured; 0 of a unit without a profile, for which the
  /// memory tape says it.
  Bytes activation;
  Bytes workspace;  ///< live only while the unit computes
  /// Passes between the exchanges of a unit that exchanges (Unit::exchanges).
  PassSegments forward_segments{}, backward_segments{};
  /// A checkpoint that stops early leaves this out of `forward` (rerun_operators()).
  Seconds unneeded{0};
  /// The part of `forward_launch` that waits until the host knows how many tokens experts get.
  Seconds awaited_launch{0};
};

/// A profile whose measured costs are taken.
struct CostSource {
  std::shared_ptr<const ComputeProfile> profile;
  std::string file;  ///< as people know it
  /// Device that it was measured on, where its costs are carried over to another GPU; nothing: the
  /// GPU itself.
  std::optional<Gpu> device = std::nullopt;
};

/// Costs of one training step of one replica on one kind of GPU at speed 1.
/// How batches are made ready for a GPU, once PyTorch's DataLoader runs.
struct BatchLoading {
  Seconds each;  ///< between two batches
  /// Batches that workers make before they are asked for; 0: the process that trains makes each
  /// where it needs it.
  std::uint32_t ahead = 0;
};

struct StepCosts {
  std::vector<UnitCost> units;      ///< as Model::units
  Seconds optimizer;                ///< all parameters; a sharded optimizer takes its share
  bool optimizer_unscales = false;  ///< it was measured with the scaler's pass over gradients
  /// Rate that copies within its memory reach, by the bytes that they read and write. 0 where times
  /// are given: nothing is added to those.
  BytesPerSecond copy_rate{0};
  /// Time of the host for an eager operator (kHostOperator; 0 where times are given), and for an
  /// optimizer's step over all tensors by themselves.
  Seconds host_operator{0}, optimizer_launch{0};
  /// The host waits for each kernel (CUDA_LAUNCH_BLOCKING): launches, of hooks too, and kernels
  /// follow each other (ProgramBuilder).
  bool launch_blocking = false;
  /// Elements that copies write in a second which make fp32 of 16 bits; 0: as their bytes say.
  double widened = 0;
  /// Rate of copies to the host's memory and back, each way, while all GPUs of the node copy; 0:
  /// not known.
  BytesPerSecond host_rate{0};
  std::optional<BatchLoading> loading{};  ///< nothing: batches are there
  Provenance provenance = Provenance::analytic;
  /// Half-width of the 90 % interval of ln(compute time): 0 where times are given, analytic_error
  /// of what is computed, what the profile says of itself (compute_error) and of its transfer. The
  /// optimizer's counts by its share.
  double uncertainty = 0;
  /// Part of `uncertainty` that some kernels alone add: products narrower than any that was
  /// measured, and kernels of a captured model that no curve is of.
  double outside_error = 0;
  /// Measured on a CPU: the thread that issues operations also computes.
  bool host_computes = false;
  std::string origin;  ///< "fitted kernels", "datasheet", "measured (FILE)", "transferred from
                       ///< DEVICE (FILE)"
  /// Why they lie outside what was measured; each reason is part of `uncertainty`.
  std::vector<std::string> outside;
  std::vector<std::string> assumptions;
  /// Parts that they are made of, by unit and family, and where that comes from, by family. They
  /// are those from before whole units were scaled to what was measured or given of them.
  std::vector<CostPart> parts{};
  std::vector<FamilyGround> grounds{};

  /// Time of a copy that reads and writes so many bytes.
  Seconds copy_time(Bytes moved) const {
    return copy_rate > BytesPerSecond(0) ? moved / copy_rate : Seconds(0);
  }
  /// Time of a copy of elements from one size to another.
  Seconds copy_time(double elements, Bytes from, Bytes to) const {
    const Seconds moving = copy_time(elements * (from + to));
    return widened > 0 && from < to ? std::max(moving, Seconds(elements / widened)) : moving;
  }
};

/// With a source, what it measured for the batch (ComputeProfile::at): unit times, launch times,
/// saved bytes and workspace; the optimizer's time if it measured that kind, in foreach kernels.
///
/// A source that is another device is carried over: each unit's time, each way, is multiplied by
/// its roofline on this GPU over that on the device. Where the model has operators both are sums
/// over them, with the same shares and kernel floor, so that what launches bind stays as it is.
/// Where it has none (a model that is a profile's) the unit counts as one kernel: the larger of its
/// products over the rate (of convolutions for images) and its traffic over the memory rate, and no
/// less than the floor or its launch time. The optimizer is carried over by what it moves. Launch
/// times, saved bytes and workspace stay. The source's units must be the model's (unit_difference).
///
/// Without one, given times where the model gives them, otherwise the roofline of its operators.
/// InternalError if a rate that is needed is zero.
StepCosts step_costs(const Model& model, const Gpu& gpu, Precision precision, std::int64_t batch,
                     const Optimizer& optimizer, const AnalyticEfficiency& efficiency,
                     const CostSource* source = nullptr);

}  // namespace rehearse::inline cost
