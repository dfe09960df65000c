#include "strategy/read_layout.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "config/files_read.hpp"
#include "config/text_source.hpp"
#include "model/token_histogram.hpp"

namespace rehearse::inline strategy {
namespace {

constexpr std::int64_t kMostRanks = 1'000'000;
constexpr std::int64_t kMostMicroBatches = 10'000;
constexpr std::int64_t kMostStages = 10'000;
constexpr const char* kTensorAsync = "async_tensor_model_parallel_allreduce";

int read_degree(Map& map, const std::string& key) {
  return static_cast<int>(map.integer_or(key, 1, 1, kMostRanks));
}

/// What `read` makes of a file that `file` names.
auto read_named(const Value& file, const auto& read) {
  const std::filesystem::path path = file.folder() / file.as_string();
  try {
    return read(path);
  } catch (const MissingError&) {
    file.fail(fmt::format("{} cannot be read", path.string()));
  }
}

std::string text_of(const Value& file) {
  return read_named(
      file, [](const std::filesystem::path& path) { return read_input(path, kMaxTextBytes); });
}

/// One by its name, or PyTorch's CSV.
void read_schedule(Map& map, Layout& layout) {
  const std::optional<Value> value = map.has("schedule") ? map.optional("schedule") : std::nullopt;
  const auto& names = pipeline_schedule_names();
  if (value && value->is_scalar() && value->as_string().ends_with(".csv")) {
    layout.order_file = value->as_string();
    try {
      layout.order = read_pipeline_csv(text_of(*value));
    } catch (const std::invalid_argument& wrong) {
      value->fail(fmt::format("{}: {}", layout.order_file, wrong.what()));
    }
    if (const std::string why = stuck(*layout.order); !why.empty())
      value->fail(fmt::format("{}: {}", layout.order_file, why));
    return;
  }
  const std::string name =
      map.choice_or("schedule", names[static_cast<std::size_t>(layout.schedule)], names);
  layout.schedule = static_cast<PipelineSchedule>(std::ranges::find(names, name) - names.begin());
}

void read_split(Map& map, Layout& layout) {
  const std::optional<Value> value = map.optional("split");
  if (!value) return;
  if (value->is_scalar()) {
    if (value->as_choice({"even", "auto"}) == "auto") layout.balance = Layout::Balance::time;
    return;
  }
  if (value->is_map()) {
    Map options = value->as_map();
    const bool time = options.require("auto").as_choice({"time", "memory"}) == "time";
    layout.balance = time ? Layout::Balance::time : Layout::Balance::memory;
    return options.finish();
  }
  for (const Value& count : value->as_list())
    layout.split.push_back(count.as_integer(0, kMostStages));
}

/// `context_parallel: 2 | {degree: 2, method: ring}`.
void read_context(Map& map, Layout& layout) {
  const auto& names = context_method_names();
  if (!map.has("context_parallel") || !map.require("context_parallel").is_map()) {
    layout.mesh.context = read_degree(map, "context_parallel");
    return;
  }
  Map options = map.require("context_parallel").as_map();
  layout.mesh.context = static_cast<int>(options.require("degree").as_integer(1, kMostRanks));
  const std::string name = options.choice_or("method", to_string(layout.context_method), names);
  layout.context_method =
      static_cast<ContextMethod>(std::ranges::find(names, name) - names.begin());
  options.finish();
}

/// Under Megatron-LM's name and with its rules; of sharded parameters none is known.
void read_comm_overlap(Map& experts, Layout& layout) {
  const char* key = "overlap_moe_expert_parallel_comm";
  const std::optional<Value> value = experts.optional(key);
  if (!value) return;
  layout.expert_comm_overlap = value->as_bool();
  if (!*layout.expert_comm_overlap) return;
  if (layout.expert_overlap)
    experts.at_key(key).fail("shared experts hide dispatch already (overlap: true)",
                             "remove one of the two");
  if (std::holds_alternative<Fsdp>(layout.data))
    experts.at_key(key).fail("sharded parameters are gathered for one micro-batch at a time",
                             "zero: {stage: 1} or ddp, or remove it");
}

/// `imbalance: 1.2 | {histogram: FILE}`.
void read_imbalance(const Value& imbalance, Layout& layout) {
  if (imbalance.is_map()) {
    Map options = imbalance.as_map();
    layout.histogram = std::make_shared<const TokenHistogram>(
        read_named(options.require("histogram"), read_token_histogram));
    return options.finish();
  }
  const double fullest = imbalance.as_positive_number();
  layout.imbalance = fullest;
  if (fullest < 1)
    imbalance.fail(fmt::format("the fullest rank has no less than the mean; got {:g}", fullest),
                   "1 or more");
  if (fullest > layout.mesh.expert)
    imbalance.fail(fmt::format("of expert_parallel {} the fullest rank gets {} times the mean at "
                               "most, which is all tokens",
                               layout.mesh.expert, layout.mesh.expert),
                   "a smaller number");
}

/// Megatron-LM's default is that experts are split as all layers are.
void read_experts(Map& map, Layout& layout) {
  layout.mesh.expert = read_degree(map, "expert_parallel");
  layout.mesh.expert_tensor = layout.mesh.tensor;
  if (const auto degree = map.optional("expert_tensor_parallel"))
    layout.mesh.expert_tensor = static_cast<int>(degree->as_integer(1, kMostRanks));
  const std::optional<Value> value = map.optional("experts");
  if (!value) return;
  if (layout.mesh.expert == 1)
    map.at_key("experts").fail("without expert_parallel no rank sends tokens to another's experts",
                               "set expert_parallel, or remove experts");
  Map options = value->as_map();
  const auto& names = expert_dispatch_names();
  const std::string name = options.choice_or("dispatch", to_string(layout.dispatch), names);
  layout.dispatch = static_cast<ExpertDispatch>(std::ranges::find(names, name) - names.begin());
  layout.expert_overlap = options.bool_or("overlap", false);
  read_comm_overlap(options, layout);
  if (const auto limit = options.optional("node_limit"))
    layout.node_limit = static_cast<int>(limit->as_integer(1, kMostRanks));
  if (const auto imbalance = options.optional("imbalance")) read_imbalance(*imbalance, layout);
  options.finish();
}

void read_pipeline(Map& map, Layout& layout) {
  std::optional<Value> value = map.optional("pipeline");
  if (!value) return;
  if (layout.mesh.pipeline == 1)
    map.at_key("pipeline").fail("a pipeline needs stages", "set pipeline_parallel, or remove it");
  Map options = value->as_map();
  read_schedule(options, layout);
  layout.virtual_stages = usual_chunks(layout.schedule);
  if (layout.order) {
    layout.virtual_stages = static_cast<int>(layout.order->stages.front().size());
    if (options.has("virtual_stages"))
      options.at_key("virtual_stages")
          .fail(layout.order_file + " says it", "remove virtual_stages");
  } else {
    layout.virtual_stages = static_cast<int>(
        options.integer_or("virtual_stages", layout.virtual_stages, 1, kMostStages));
  }
  read_split(options, layout);
  if (options.choice_or("runtime", "megatron", {"megatron", "torch"}) == "torch")
    layout.runtime = Layout::Runtime::torch;
  options.finish();
}

void read_micro_batches(Map& map, Layout& layout) {
  if (const auto size = map.optional("micro_batch_size")) {
    layout.micro_batch_size = static_cast<int>(size->as_integer(1, kMostRanks));
    for (const char* other : {"micro_batches"})
      if (map.has(other))
        map.at_key(other).fail("micro_batch_size says it already", "remove one of the two");
    return;
  }
  if (layout.order) {
    layout.micro_batches = layout.order->micro_batches;
    if (map.has("micro_batches"))
      map.at_key("micro_batches").fail(layout.order_file + " says it", "remove micro_batches");
    return;
  }
  const int stages = layout.mesh.pipeline * layout.virtual_stages;
  layout.micro_batches =
      static_cast<int>(map.integer_or("micro_batches", stages, 1, kMostMicroBatches));
}

void read_order(Map& map, Layout& layout) {
  const std::string text = map.string_or("order", to_string(layout.mesh.order));
  const auto order = parse_order(text);
  if (!order)
    map.require("order").fail(
        fmt::format("expected each of tp, cp, ep, dp and pp once; got \"{}\"", text),
        "such as tp-cp-ep-dp-pp");
  layout.mesh.order = *order;
}

/// What says twice how many micro-batches there are.
void check_accumulation(const Map& map, const std::string& kind) {
  Map copy = map;
  Map options = copy.require(kind).as_map();
  if (options.has("gradient_accumulation"))
    options.at_key("gradient_accumulation")
        .fail("micro-batches of a layout stand beside it", "write strategy.micro_batches");
}

/// Experts are sharded by who has the same ones, which are other ranks.
void check_hybrid(const Map& map, const std::vector<std::string>& kinds, const Layout& layout) {
  const auto* fsdp = std::get_if<Fsdp>(&layout.data);
  if (!fsdp || fsdp->sharding != Fsdp::Sharding::hybrid_shard || layout.mesh.expert == 1) return;
  Map copy = map;
  Map options = copy.require(kinds.front()).as_map();
  options.require(options.has("sharding") ? "sharding" : "shard_group")
      .fail("sharding in groups beside expert_parallel is not available yet",
            "shard over all replicas");
}

}  // namespace

const std::vector<std::string>& layout_keys() {
  static const std::vector<std::string> keys = {
      "tensor_parallel", "sequence_parallel", "tp_comm_overlap",  "pipeline_parallel",
      "pipeline",        "context_parallel",  "expert_parallel",  "expert_tensor_parallel",
      "experts",         "micro_batches",     "micro_batch_size", "order",
      kTensorAsync};
  return keys;
}

bool is_layout(const Value& strategy) {
  if (!strategy.is_map()) return false;
  const std::vector<std::string> names = strategy.as_map().keys();
  const auto& kinds = strategy_names();
  // A misspelt degree beside a strategy is one, too, so that its message names what was meant.
  return std::ranges::any_of(names, [&](const std::string& name) {
    if (std::ranges::find(layout_keys(), name) != layout_keys().end()) return true;
    const bool is_kind = names.size() > 1 ? std::ranges::find(kinds, name) != kinds.end()
                                          : !nearest(name, kinds).empty();
    return !is_kind && !nearest(name, layout_keys()).empty();
  });
}

bool is_megatron(const Value& strategy) {
  if (!is_layout(strategy)) return false;
  Map map = strategy.as_map();
  if (map.has("fsdp") || map.has("fsdp2")) return false;
  const std::optional<Value> pipeline = map.optional("pipeline");
  if (!pipeline || !pipeline->is_map()) return true;
  Map options = pipeline->as_map();
  const std::optional<Value> runtime = options.optional("runtime");
  return !runtime || runtime->shown() != "torch";
}

Layout read_layout(Map map, const std::function<Strategy(Map& map)>& read_data) {
  Layout layout;
  std::vector<std::string> kinds;
  for (const std::string& kind : strategy_names())
    if (kind != "local_sgd" && map.has(kind)) kinds.push_back(kind);
  if (kinds.size() > 1)
    map.at_key(kinds.back())
        .fail(
            fmt::format("replicas are kept the same in one way, not by {} as well", kinds.front()),
            "remove one of the two");
  if (!kinds.empty()) {
    if (kinds.front() == "ps")
      map.at_key(kinds.front())
          .fail("a model in parts needs replicas in step", "ddp, zero or fsdp");
    check_accumulation(map, kinds.front());
    const Strategy data = read_data(map);
    if (const auto* ddp = std::get_if<Ddp>(&data)) layout.data = *ddp;
    if (const auto* zero = std::get_if<Zero1>(&data)) layout.data = *zero;
    if (const auto* fsdp = std::get_if<Fsdp>(&data)) layout.data = *fsdp;
    const auto* fsdp = std::get_if<Fsdp>(&data);
    if (fsdp && fsdp->post_forward_group > 0)
      map.require(kinds.front())
          .as_map()
          .require("reshard_after_forward")
          .fail("parts of some ranks beside other axes are not available yet",
                "write true or false");
  }
  layout.mesh.tensor = read_degree(map, "tensor_parallel");
  layout.mesh.pipeline = read_degree(map, "pipeline_parallel");
  layout.sequence_parallel = map.bool_or("sequence_parallel", false);
  layout.tp_comm_overlap = map.bool_or("tp_comm_overlap", false);
  if (layout.tp_comm_overlap && !(layout.sequence_parallel && layout.mesh.tensor > 1))
    map.at_key("tp_comm_overlap")
        .fail("what overlaps are the exchanges of sequence_parallel",
              "set sequence_parallel: true and tensor_parallel, or remove it");
  layout.tensor_async = map.bool_or(kTensorAsync, true);
  if (!layout.tensor_async && (layout.tp_comm_overlap || layout.mesh.tensor == 1))
    map.at_key(kTensorAsync)
        .fail(layout.tp_comm_overlap ? "tp_comm_overlap has all of them run beside products"
                                     : "there are no tensor ranks that could wait",
              layout.tp_comm_overlap ? "set one of the two" : "set tensor_parallel, or remove it");
  read_context(map, layout);
  read_experts(map, layout);
  check_hybrid(map, kinds, layout);
  read_pipeline(map, layout);
  read_micro_batches(map, layout);
  read_order(map, layout);
  map.finish();
  return layout;
}

}  // namespace rehearse::inline strategy
