#include "rollout/decode.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "config/choices.hpp"

namespace rehearse::inline rollout {
namespace {

/// An indexer's key, and its scale: 128 elements of 8 bits and one of 32 (DeepSeek-V3.2).
constexpr double kIndexBytes = 132;
/// Activations, workspaces and CUDA graphs, beside weights and cache, of an engine.
constexpr double kOtherMemory = 3.0 * 1024 * 1024 * 1024;
constexpr double kFourBits = 4.5 / 8, kMxFourBits = 4.25 / 8;  ///< with the scales of blocks

constexpr Choices<ServedFormat> kFormats = {{"bf16", ServedFormat::bf16},
                                            {"fp8", ServedFormat::fp8},
                                            {"nvfp4", ServedFormat::nvfp4},
                                            {"mxfp4", ServedFormat::mxfp4}};

FlopsPerSecond peak_of(const Gpu& gpu, double bits) {
  if (bits <= 4 && gpu.fp4 > FlopsPerSecond(0)) return gpu.fp4;
  if (bits <= 8 && gpu.fp8 > FlopsPerSecond(0)) return gpu.fp8;
  return gpu.bf16 > FlopsPerSecond(0) ? gpu.bf16 : gpu.fp16;
}

bool has_indexer(const TransformerShape& network) {
  return network.latent.has_value() && network.window > 0;
}

void check_network(const TransformerShape& network) {
  if (!is_served(network))
    throw std::invalid_argument(fmt::format(
        "{} is no decoder of attention and feed-forward layers, which alone are served here",
        network.name));
}

void check_serving(const TransformerShape& network, const Serving& serving) {
  if (network.heads % serving.tensor_parallel != 0)
    throw std::invalid_argument(
        fmt::format("{} attention heads are no whole number on each of {} tensor ranks",
                    network.heads, serving.tensor_parallel));
  if (network.experts) {
    const int parts = serving.expert_parallel;
    if (serving.ranks() % parts != 0 || network.experts->count % parts != 0)
      throw std::invalid_argument(
          fmt::format("{} experts on {} GPUs are not dealt to {} equal shares of both",
                      network.experts->count, serving.ranks(), parts));
    return;
  }
  if (serving.expert_parallel > 1)
    throw std::invalid_argument(fmt::format("{} has no experts to deal to {} shares of GPUs",
                                            network.name, serving.expert_parallel));
  if (serving.attention_data_parallel > 1)
    throw std::invalid_argument(
        fmt::format("{} has no experts for groups of data parallelism to share", network.name));
  if (serving.format == ServedFormat::mxfp4)
    throw std::invalid_argument(
        fmt::format("mxfp4 is a format of experts, and {} has none", network.name));
}

/// "ampere, hopper, turing, ada": a GPU of no kind of its own (`other`) is one of the last two.
std::string generations(const Engine& engine) {
  std::vector<std::string> names;
  for (const std::string& kind : engine.runs_on)
    names.push_back(kind == "other" ? "turing, ada" : kind);
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Whether the GPU multiplies weights of the format as they are.
bool has_unit(const Gpu& gpu, ServedFormat format) {
  if (format == ServedFormat::bf16) return true;
  return (format == ServedFormat::fp8 ? gpu.fp8 : gpu.fp4) > FlopsPerSecond(0);
}

/// Whether the engine runs on the GPU at all, and with such weights.
void check_gpu(const Engine& engine, const Gpu& gpu, ServedFormat format) {
  const std::string& kind = gpu.architecture->name;
  const bool half = gpu.bf16 > FlopsPerSecond(0) || gpu.fp16 > FlopsPerSecond(0);
  if (std::ranges::find(engine.runs_on, kind) == engine.runs_on.end() || !half)
    throw std::invalid_argument(fmt::format("{} does not run on {}: its GPUs are {}", engine.title,
                                            gpu.name, generations(engine)));
  const bool runs = has_unit(gpu, format) ||
                    std::ranges::find(engine.unpacks, to_string(format)) != engine.unpacks.end();
  if (!runs)
    throw std::invalid_argument(
        fmt::format("{} takes weights of {} where the GPU has a unit for "
                    "them, and {} has none",
                    engine.title, to_string(format), gpu.name));
}

double attention_parameters(const TransformerShape& network) {
  const auto h = static_cast<double>(network.hidden), heads = static_cast<double>(network.heads);
  if (network.latent) {
    const LatentAttention& a = *network.latent;
    const auto key = static_cast<double>(a.key_rank), query = static_cast<double>(a.query_rank);
    const auto rotated = static_cast<double>(a.rotated_width);
    const auto plain = static_cast<double>(a.plain_width);
    const auto value = static_cast<double>(a.value_width);
    const double queries =
        query > 0 ? h * query + query * heads * (plain + rotated) : h * heads * (plain + rotated);
    return queries + h * (key + rotated) + heads * key * (plain + value) + heads * value * h;
  }
  const auto queries = static_cast<double>(network.query_width());
  const double gate = network.attention_gate ? queries : 0;
  return h * (2 * queries + gate + 2 * static_cast<double>(network.kv_width()));
}

double feed_forward(const TransformerShape& network, std::int64_t width) {
  return (network.gated ? 3.0 : 2.0) * static_cast<double>(network.hidden) *
         static_cast<double>(width);
}

}  // namespace

std::vector<std::string> served_formats() { return names_of(kFormats); }
ServedFormat parse_served_format(const std::string& name) { return value_of(kFormats, name); }
std::string to_string(ServedFormat format) { return name_of(kFormats, format); }

bool is_served(const TransformerShape& network) {
  const bool other_parts = !network.parts.empty() || network.encoder_layers > 0;
  return !other_parts && network.image == 0 && network.head == HeadKind::causal;
}

DecodeModel::DecodeModel(const TransformerShape& network, const Cluster& cluster,
                         const Engine& engine, const Serving& serving)
    : network_(network), engine_(engine), serving_(serving) {
  check_network(network);
  check_serving(network, serving);
  const std::vector<Place> places = gpu_places(cluster);
  const auto ranks = static_cast<std::size_t>(serving.ranks());
  if (ranks > places.size())
    throw std::invalid_argument(
        fmt::format("one copy is spread over {} GPUs, and there are {}", ranks, places.size()));
  const Node& node = cluster.node(places.front().node);
  gpu_ = node.gpu;
  check_gpu(engine, gpu_, serving.format);
  speed_ = node.speed;
  blackwell_ = is_blackwell(gpu_);
  if (node.nvlink) link_ = node.nvlink->bandwidth;
  const std::vector<Place> own(places.begin(), places.begin() + serving.ranks());
  const int nodes = static_cast<int>(own.back().node.index() - own.front().node.index()) + 1;
  if (ranks > 1) machine_ = nccl_machine(cluster, own, serving.ranks(), nodes);

  const bool moe = network.experts.has_value();
  for (std::int64_t block = 0; block < network.layers; ++block) {
    (network.has_experts(block) ? expert_layers_ : dense_layers_) += 1;
    if (network.slides(block) || has_indexer(network)) windowed_ += 1;
  }
  attention_parameters_ = attention_parameters(network);
  feed_forward_parameters_ = feed_forward(network, network.feed_forward);
  if (moe) {
    expert_parameters_ = feed_forward(network, network.experts->width);
    shared_parameters_ = feed_forward(network, network.experts->shared_width);
  }
  const ServedFormat format = serving.format;
  const bool narrow = format == ServedFormat::fp8 || format == ServedFormat::nvfp4;
  dense_element_ = narrow ? 1 : 2;
  dense_peak_ = peak_of(gpu_, narrow ? 8 : 16);
  expert_element_ = dense_element_;
  expert_peak_ = dense_peak_;
  expert_kernel_ = engine.experts.of.of(blackwell_);
  grouped_share_ = engine.grouped.of.of(blackwell_);
  if (format == ServedFormat::nvfp4) {
    expert_element_ = kFourBits;
    expert_peak_ = peak_of(gpu_, unpacks() ? 16 : 4);
    expert_kernel_ = engine.experts.nvfp4;
    grouped_share_ = engine.grouped.nvfp4;
    if (!moe) dense_element_ = kFourBits;
    if (!moe) dense_peak_ = expert_peak_;
  }
  if (format == ServedFormat::mxfp4) {
    expert_element_ = kMxFourBits;
    expert_peak_ = peak_of(gpu_, blackwell_ ? 8 : 16);
    expert_kernel_ = engine.experts.mxfp4;
    grouped_share_ = engine.grouped.mxfp4;
  }
  if (unpacks() && format != ServedFormat::fp8) {
    expert_kernel_ = engine.experts.unpacked;
    grouped_share_ = engine.grouped.unpacked;
  }
  if (moe) {
    const double columns =
        static_cast<double>(network.experts->width) * serving.expert_parallel / serving.ranks();
    expert_rate_ = expert_kernel_.rate(gpu_.memory_bandwidth, columns);
  }

  const auto layers = static_cast<double>(network.layers);
  const KernelCounts& kernels = engine.kernels;
  double of_layer = kernels.layer;
  if (network.latent) of_layer += kernels.latent;
  if (has_indexer(network)) of_layer += kernels.indexer;
  if (network.head_norm != HeadNorm::none) of_layer += kernels.head_norms;
  if (moe && narrow) of_layer += kernels.quantized;  // scales of blocks; else one of a tensor
  small_kernels_ = layers * of_layer + expert_layers_ * kernels.experts;

  const double tp = serving.tensor_parallel;
  const double elements =
      network.latent ? static_cast<double>(network.latent->key_rank + network.latent->rotated_width)
                     : 2 * static_cast<double>(network.head_width) *
                           std::max(static_cast<double>(network.kv_heads) / tp, 1.0);
  layer_cache_ = elements * serving.cache_element;
  if (has_indexer(network)) layer_cache_ += Bytes(kIndexBytes);
  cache_of_token_ = layers * layer_cache_;
  const double embeddings = static_cast<double>(network.hidden) *
                            static_cast<double>(network.vocabulary) * (network.tied ? 1 : 2);
  const double dense = layers * attention_parameters_ + dense_layers_ * feed_forward_parameters_ +
                       expert_layers_ * shared_parameters_;
  const double experts =
      moe ? expert_layers_ * expert_parameters_ * static_cast<double>(network.experts->count) : 0;
  weights_ = Bytes((dense * dense_element_ + 2 * embeddings) / tp +
                   experts * expert_element_ / serving.ranks());
}

bool DecodeModel::unpacks() const { return !has_unit(gpu_, serving_.format); }

Seconds DecodeModel::product(double parameters, double bytes, double tokens,
                             FlopsPerSecond peak) const {
  const double moved = bytes / gpu_.memory_bandwidth.value();
  const double computed = 2 * tokens * parameters / peak.value();
  return Seconds(std::cbrt(moved * moved * moved + computed * computed * computed));
}

double DecodeModel::experts_read(double tokens) const {
  const auto count = static_cast<double>(network_.experts->count);
  const auto active = static_cast<double>(network_.experts->active);
  return count * (1 - std::pow(1 - active / count, std::max(tokens * engine_.spread, 1.0)));
}

Bytes DecodeModel::reduced(double tokens) const {
  return Bytes(tokens * static_cast<double>(network_.hidden) * 2);
}

bool DecodeModel::own_all_reduce(double tokens) const {
  const double ranks = serving_.ranks();
  return ranks > 1 && link_ && machine_.nodes == 1 &&
         engine_.all_reduce.has(ranks, reduced(tokens));
}

Seconds DecodeModel::all_reduce(double tokens) const {
  if (serving_.ranks() < 2) return Seconds(0);
  if (!own_all_reduce(tokens))
    return nccl_estimate(machine_, CollectiveKind::all_reduce, reduced(tokens)).total();
  return engine_.all_reduce.of(blackwell_, serving_.ranks(), reduced(tokens), *link_) +
         engine_.all_reduce_wait.of(blackwell_);
}

DecodeStep DecodeModel::step(double sequences, double context, double prompt_tokens,
                             double prompt) const {
  const double tokens = sequences + prompt_tokens, tp = serving_.tensor_parallel;
  const auto layers = static_cast<double>(network_.layers);
  const double reach = prompt_tokens > 0 ? engine_.prompt_products : engine_.products;
  const auto dense = [&](double parameters) {
    return product(parameters / tp, parameters / tp * dense_element_ / engine_.weights, tokens,
                   reach * dense_peak_);
  };
  DecodeStep step;
  step.products = layers * dense(attention_parameters_) +
                  dense_layers_ * dense(feed_forward_parameters_) +
                  expert_layers_ * dense(shared_parameters_);
  if (expert_layers_ > 0) {
    const double all = tokens * serving_.attention_data_parallel, ranks = serving_.ranks();
    const double read = experts_read(all) * expert_parameters_ / ranks;
    const auto active = static_cast<double>(network_.experts->active);
    const Bytes routed(all * active * static_cast<double>(network_.hidden) * engine_.routed /
                       serving_.attention_data_parallel);
    const double bandwidth = gpu_.memory_bandwidth.value();
    step.experts =
        expert_layers_ * (expert_kernel_.launch +
                          product(active * expert_parameters_ / ranks,
                                  read * expert_element_ * (bandwidth / expert_rate_.value()), all,
                                  grouped_share_ * expert_peak_) +
                          routed / gpu_.memory_bandwidth);
  }
  step.cache = sequences * (cache_read(context) / (engine_.cache * gpu_.memory_bandwidth));
  step.head = Bytes(2 * static_cast<double>(network_.hidden) *
                    static_cast<double>(network_.vocabulary) / tp) /
              (engine_.weights * gpu_.memory_bandwidth);
  const double norms = own_all_reduce(tokens) ? 2 * layers * engine_.kernels.fused_norms : 0;
  step.kernels = (small_kernels_ - norms) * engine_.kernel.of(blackwell_);
  step.all_reduce = 2 * layers * all_reduce(tokens);
  if (prompt_tokens > 0) step.attention = prompt_attention(prompt_tokens, prompt);
  for (Seconds* part :
       {&step.products, &step.experts, &step.cache, &step.head, &step.kernels, &step.attention})
    *part = *part / speed_;
  const double gpu = step.gpu().value();
  const double host = (engine_.step + sequences * engine_.sequence).value();
  const double power = engine_.overlap;
  step.host = Seconds(std::pow(std::pow(gpu, power) + std::pow(host, power), 1 / power) - gpu) +
              sequences * engine_.answer + serving_.host;
  if (prompt_tokens <= 0 && !serving_.eager) return step;
  const Seconds eager = (layers + expert_layers_ / 2) * engine_.eager_layer;
  step.waits = std::max(eager - step.gpu() - step.host, Seconds(0));
  return step;
}

Seconds DecodeModel::prompt_attention(double tokens, double prompt) const {
  const auto layers = static_cast<double>(network_.layers);
  const double width = network_.latent ? static_cast<double>(network_.latent->plain_width +
                                                             network_.latent->rotated_width +
                                                             network_.latent->value_width) /
                                             2
                                       : static_cast<double>(network_.head_width);
  const double seen = prompt / 2, window = std::min(seen, static_cast<double>(network_.window));
  const double keys = (layers - windowed_) * seen + windowed_ * window;
  return Seconds(4 * static_cast<double>(network_.heads) * width * keys * tokens /
                 serving_.tensor_parallel / (engine_.prompt_attention * peak_of(gpu_, 16).value()));
}

DecodeModel::Steady DecodeModel::steady(double sequences, double prompt, double response) const {
  const double context = prompt + response / 2;
  Steady steady{
      .decode = step(sequences, context), .time_per_output_token = {}, .time_to_first_token = {}};
  // Each token that a sequence makes is worth prompt / response tokens of others' prompts.
  const double a_step = sequences * prompt / response;
  const double chunk = std::min(prompt, engine_.prefill_tokens);
  double part = chunk;
  steady.prompt_steps = std::min(1.0, a_step / part);
  if (a_step > part) part = a_step;
  const Seconds mixed = step(sequences, context, part, prompt).total();
  steady.time_per_output_token =
      (1 - steady.prompt_steps) * steady.decode.total() + steady.prompt_steps * mixed;
  if (engine_.prompts_alone) {
    // One prefill takes the prompts that came during one decoding step: so many in the mean, where
    // any came and they come at random.
    const double come = sequences / response;
    const double taken = std::clamp(prompt * come / -std::expm1(-come), chunk,
                                    std::max(chunk, engine_.prefill_tokens));
    const Seconds alone = step(0, context, taken, prompt).total();
    steady.prompt_steps = std::min(1.0, a_step / taken);
    steady.time_per_output_token = steady.decode.total() + a_step / taken * alone;
    steady.time_to_first_token = std::ceil(prompt / taken) * alone;
    return steady;
  }
  steady.time_to_first_token =
      std::ceil(prompt / chunk) * step(sequences - 1, context, chunk, prompt).total();
  return steady;
}

void DecodeModel::check_positions(double tokens) const {
  if (positions() > 0 && tokens > positions())
    throw std::invalid_argument(
        fmt::format("{} has {:.0f} positions (max_position_embeddings), and a sequence of prompt "
                    "and response {:.0f} tokens",
                    network_.name, positions(), tokens));
}

Bytes DecodeModel::cache_of(double tokens) const {
  if (has_indexer(network_)) return tokens * cache_of_token_;
  return cache_read(tokens);
}

Bytes DecodeModel::cache_read(double context) const {
  const auto layers = static_cast<double>(network_.layers);
  const double window = std::min(context, static_cast<double>(network_.window));
  if (has_indexer(network_))
    return layers * (window * (layer_cache_ - Bytes(kIndexBytes)) + context * Bytes(kIndexBytes));
  return ((layers - windowed_) * context + windowed_ * window) * layer_cache_;
}

Bytes DecodeModel::cache_memory(double share) const {
  return share * gpu_.memory - weights_ - Bytes(kOtherMemory);
}

}  // namespace rehearse::inline rollout
