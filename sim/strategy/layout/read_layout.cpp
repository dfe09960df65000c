#include "strategy/layout/read_layout.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "config/files_read.hpp"
#include "config/text_source.hpp"
#include "strategy/layout/read_parts.hpp"
#include "strategy/read_kinds.hpp"

namespace rehearse::inline strategy {

std::int64_t read_count(Map& map, const std::string& key, std::int64_t fallback, std::int64_t high,
                        bool states) {
  if (states) return map.integer_or(key, fallback, 1, high);
  const std::optional<Value> value = map.optional(key);
  return value ? value->as_integer(1, high) : fallback;
}

int read_degree(Map& map, const std::string& key, const Reading& reading) {
  return static_cast<int>(read_count(map, key, 1, kMostRanks, reading.has_mesh()));
}

namespace {

constexpr std::int64_t kMostStages = 10'000;
constexpr const char* kTensorAsync = "async_tensor_model_parallel_allreduce";
constexpr const char* kAsyncTensor = "enable_async_tensor_parallel";

bool read_flag(Map& map, const std::string& key, bool fallback, bool states) {
  if (states) return map.bool_or(key, fallback);
  const std::optional<Value> value = map.optional(key);
  return value ? value->as_bool() : fallback;
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
void read_context(Map& map, const Reading& reading, Layout& layout) {
  const auto& names = context_method_names();
  const std::string section = "strategy.context_parallel.";
  Framework& framework = reading.framework;
  std::string name = framework.word(section + "method");
  if (!map.has("context_parallel") || !map.require("context_parallel").is_map()) {
    layout.mesh.context = read_degree(map, "context_parallel", reading);
    if (layout.mesh.context > 1) framework.note(section + "method");
  } else {
    Map options = map.require("context_parallel").as_map();
    layout.mesh.context = static_cast<int>(options.require("degree").as_integer(1, kMostRanks));
    if (layout.mesh.context > 1)
      name = framework.choice_or(options, section, "method", names);
    else if (const auto method = options.optional("method"))
      name = method->as_choice(names);
    options.finish();
  }
  layout.context_method =
      static_cast<ContextMethod>(std::ranges::find(names, name) - names.begin());
}

void read_pipeline(Map& map, Framework& framework, Layout& layout) {
  if (layout.mesh.pipeline > 1) {
    framework.note("pipeline.runtime");
    layout.lists_receives = framework.word("pipeline.runtime") == "torch";
    layout.holds_outputs = framework.word("pipeline.runtime") == "deepspeed";
    layout.scatter_gather_tensors_in_pipeline = !layout.lists_receives;
  }
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
  layout.gradient_accumulation =
      static_cast<int>(options.integer_or("gradient_accumulation", 1, 1, kMostMicroBatches));
  if (layout.order && layout.gradient_accumulation > 1)
    options.at_key("gradient_accumulation")
        .fail(layout.order_file + " has all of a step", "remove gradient_accumulation");
  const char* const key = "runtime";
  if (options.has(key))
    options.at_key(key).fail("the framework sends and receives between its stages",
                             options.require(key).shown() == "torch"
                                 ? "remove it, and write framework: torch"
                                 : "remove it, and write framework: megatron");
  options.finish();
}

void read_micro_batches(Map& map, const Reading& reading, Layout& layout) {
  if (const auto size = map.optional("micro_batch_size")) {
    size->as_integer(1, kMostRanks);  // what it splits is known with the model
    if (map.has("micro_batches"))
      map.at_key("micro_batches").fail("micro_batch_size says it already", "remove one of the two");
    return;
  }
  if (layout.order) {
    layout.micro_batches = layout.order->micro_batches;
    if (map.has("micro_batches"))
      map.at_key("micro_batches").fail(layout.order_file + " says it", "remove micro_batches");
    return;
  }
  const int stages = layout.mesh.pipeline * layout.virtual_stages;
  layout.micro_batches = static_cast<int>(
      read_count(map, "micro_batches", stages, kMostMicroBatches, reading.has_mesh()));
}

void read_order(Map& map, const Reading& reading, Layout& layout) {
  if (!map.optional("order") && !reading.has_mesh()) return;
  const std::string text = map.string_or("order", to_string(layout.mesh.order));
  const auto order = parse_order(text);
  if (!order)
    map.require("order").fail(
        fmt::format("expected each of tp, cp, ep, dp and pp once; got \"{}\"", text),
        "such as tp-cp-ep-dp-pp");
  layout.mesh.order = *order;
}

/// What says twice how many micro-batches there are.
void check_accumulation(const Map& map, const std::string& kind, bool in_parts) {
  Map copy = map;
  Map options = copy.require(kind).as_map();
  const bool says_twice = map.has("micro_batches") || map.has("micro_batch_size");
  const bool is_more = options.has("gradient_accumulation") &&
                       options.require("gradient_accumulation").shown() != "1";
  if (is_more && (in_parts || says_twice))
    options.at_key("gradient_accumulation")
        .fail("micro-batches of a layout stand beside it", "write strategy.micro_batches");
}

}  // namespace

const std::vector<std::string>& layout_keys() {
  static const std::vector<std::string> keys = {"tensor_parallel",
                                                "sequence_parallel",
                                                "tp_comm_overlap",
                                                "pipeline_parallel",
                                                "pipeline",
                                                "context_parallel",
                                                "expert_parallel",
                                                "expert_tensor_parallel",
                                                "experts",
                                                "micro_batches",
                                                "micro_batch_size",
                                                "order",
                                                "embedding_parallel",
                                                "gather_logits",
                                                kTensorAsync,
                                                kAsyncTensor,
                                                "avoid_record_streams"};
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

namespace {

/// How replicas are kept the same; nothing by local_sgd alone.
Strategy read_replicas_of(Map& map, const Reading& reading,
                          const std::function<Strategy(Map& map)>& read_data) {
  std::vector<std::string> kinds;
  for (const std::string& kind : strategy_names())
    if (kind != "local_sgd" && map.has(kind)) kinds.push_back(kind);
  if (kinds.size() > 1)
    map.at_key(kinds.back())
        .fail(
            fmt::format("replicas are kept the same in one way, not by {} as well", kinds.front()),
            "remove one of the two");
  if (kinds.empty()) return read_data(map);
  if (kinds.front() == "ps")
    check_server(map, reading.in_parts);
  else
    check_accumulation(map, kinds.front(), reading.in_parts);
  return read_data(map);
}

void read_tensor(Map& map, const Reading& reading, Layout& layout) {
  layout.mesh.tensor = read_degree(map, "tensor_parallel", reading);
  const auto by_framework = [&](const std::string& key, bool fallback) {
    return layout.mesh.tensor > 1 ? reading.framework.bool_or(map, "strategy.", key)
                                  : read_flag(map, key, fallback, reading.has_mesh());
  };
  layout.sequence_parallel = by_framework("sequence_parallel", false);
  layout.gather_logits = by_framework("gather_logits", false);
  layout.avoid_record_streams = by_framework("avoid_record_streams", true);
  if (layout.mesh.tensor > 1) layout.dtensor = reading.framework.flag("tensor_parallel.dtensor");
  // TransformerEngine's and PyTorch's way to send split tokens piece by piece beside products.
  layout.tp_comm_overlap = read_flag(map, "tp_comm_overlap", false, reading.has_mesh());
  const bool by_pieces = read_flag(map, kAsyncTensor, false, false);
  if ((layout.tp_comm_overlap || by_pieces) &&
      !(layout.sequence_parallel && layout.mesh.tensor > 1))
    map.at_key(by_pieces ? kAsyncTensor : "tp_comm_overlap")
        .fail("what overlaps are the exchanges of sequence_parallel",
              "set sequence_parallel: true and tensor_parallel, or remove it");
  layout.tp_comm_overlap |= by_pieces;
  layout.tensor_async = layout.mesh.tensor > 1 && !layout.tp_comm_overlap
                            ? reading.framework.bool_or(map, "strategy.", kTensorAsync)
                            : read_flag(map, kTensorAsync, true, reading.has_mesh());
  if (!layout.tensor_async && (layout.tp_comm_overlap || layout.mesh.tensor == 1))
    map.at_key(kTensorAsync)
        .fail(layout.tp_comm_overlap ? fmt::format("{} has all of them run beside products",
                                                   by_pieces ? kAsyncTensor : "tp_comm_overlap")
                                     : "there are no tensor ranks that could wait",
              layout.tp_comm_overlap ? "set one of the two" : "set tensor_parallel, or remove it");
}

/// Experts' gradients are of other ranks than all else.
void check_hooks(Map& map, const Strategy& replicas, const Layout& layout) {
  const auto compresses = [&]<class Sync>(const Sync* sync) {
    return sync != nullptr && sync->compression != Sync::Compression::none;
  };
  if (layout.mesh.expert == 1 ||
      (!compresses(sync_in<TorchDdp>(replicas)) && !compresses(sync_in<Horovod>(replicas))))
    return;
  map.require("ddp")
      .as_map()
      .at_key("compression")
      .fail("PyTorch's DDP has one process group, and experts have another",
            "remove it, or expert_parallel");
}

}  // namespace

Strategy read_layout(Map map, const Reading& reading,
                     const std::function<Strategy(Map& map)>& read_data) {
  Strategy strategy = read_replicas_of(map, reading, read_data);
  Layout layout;
  read_tensor(map, reading, layout);
  layout.mesh.pipeline = read_degree(map, "pipeline_parallel", reading);
  if (layout.mesh.pipeline > 1 && sync_in<MegatronFsdp>(strategy) != nullptr)
    map.at_key("pipeline_parallel")
        .fail("Megatron-FSDP beside a pipeline is not here",
              "write zero: {stage: 1} in its place, or leave out the pipeline");
  read_context(map, reading, layout);
  read_experts(map, reading, shards_parameters(strategy), layout);
  read_tables(map, reading, layout);
  read_pipeline(map, reading.framework, layout);
  read_micro_batches(map, reading, layout);
  read_order(map, reading, layout);
  check_hooks(map, strategy, layout);
  map.finish();
  if (reading.has_mesh()) {
    if (server_in(strategy) != nullptr) check_worker(map, layout);
    strategy.layout = std::move(layout);
    return strategy;
  }
  int* const micro_batches = micro_batches_of(strategy);
  if (map.has("micro_batches") && micro_batches != nullptr) *micro_batches = layout.micro_batches;
  return strategy;
}

}  // namespace rehearse::inline strategy
