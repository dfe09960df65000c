#include "strategy/layout/read_layout.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "config/files_read.hpp"
#include "config/text_source.hpp"
#include "strategy/layout/layout_keys.hpp"
#include "strategy/layout/read_parts.hpp"
#include "strategy/strategy_keys.hpp"

namespace rehearse::inline strategy {

namespace {

std::string text_of(const Value& file) {
  return read_named(
      file, [](const std::filesystem::path& path) { return read_input(path, kMaxTextBytes); });
}

/// One by its name, or PyTorch's CSV.
void read_schedule(Map& map, Layout& layout) {
  const auto& schedule = of_layout().stages.schedule;
  const std::optional<Value> value = map.has(schedule.name) ? schedule.in(map) : std::nullopt;
  if (!value || !value->is_scalar() || !value->as_string().ends_with(".csv")) {
    layout.schedule = of_layout().stages.named_schedule.in(map, layout.schedule);
    return;
  }
  layout.order_file = value->as_string();
  try {
    layout.order = read_pipeline_csv(text_of(*value));
  } catch (const std::invalid_argument& wrong) {
    value->fail(fmt::format("{}: {}", layout.order_file, wrong.what()));
  }
  if (const std::string why = stuck(*layout.order); !why.empty())
    value->fail(fmt::format("{}: {}", layout.order_file, why));
}

void read_split(Map& map, Layout& layout) {
  const std::optional<Value> value = of_layout().stages.split.in(map);
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
  const std::string section = "strategy.context_parallel.";
  const ContextKeys& context = of_layout().context;
  Framework& framework = reading.framework;
  const std::string& key = of_layout().context_parallel.name;
  const auto none = Document::parse("{}", "strategy");
  Map options = none->root().as_map();
  if (!map.has(key) || !map.require(key).is_map()) {
    layout.mesh.context = value_or(map, of_layout().context_degree, 1, reading.has_mesh());
  } else {
    options = map.require(key).as_map();
    layout.mesh.context = context.degree.required_in(options);
  }
  if (layout.mesh.context > 1)
    layout.context_method = framework.value_or(options, section, context.method);
  else if (const auto method = context.method.in(options))
    layout.context_method = *method;
  options.finish();
}

void read_pipeline(Map& map, Framework& framework, Layout& layout) {
  if (layout.mesh.pipeline > 1) {
    framework.note("pipeline.runtime");
    layout.lists_receives = framework.word("pipeline.runtime") == "torch";
    layout.holds_outputs = framework.word("pipeline.runtime") == "deepspeed";
    layout.scatter_gather_tensors_in_pipeline = !layout.lists_receives;
  }
  const std::optional<Value> value = of_layout().pipeline.in(map);
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
    layout.virtual_stages = of_layout().stages.virtual_stages.in(options, layout.virtual_stages);
  }
  read_split(options, layout);
  layout.gradient_accumulation = of_layout().stages.gradient_accumulation.in(options, 1);
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
  if (of_layout().micro_batch_size.in(map)) {  // what it splits is known with the model
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
  layout.micro_batches = value_or(map, of_layout().micro_batches, stages, reading.has_mesh());
}

void read_order(Map& map, const Reading& reading, Layout& layout) {
  if (!map.optional(of_layout().order.name) && !reading.has_mesh()) return;
  const std::string text = of_layout().order.in(map, to_string(layout.mesh.order));
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

std::vector<Key> layout_key_lines() { return of_layout().lines(); }
std::vector<Key> pipeline_keys() { return of_layout().stages.lines(); }

const std::vector<std::string>& layout_keys() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    for (const Key& key : of_layout().lines())
      if (key.name.find('.') == std::string::npos) names.push_back(key.name);
    return names;
  }();
  return kNames;
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
  const bool states = reading.has_mesh();
  layout.mesh.tensor = value_or(map, of_layout().tensor_parallel, 1, states);
  const auto by_framework = [&](const KeyOf<bool>& entry, bool fallback) {
    return layout.mesh.tensor > 1 ? reading.framework.value_or(map, "strategy.", entry)
                                  : value_or(map, entry, fallback, states);
  };
  layout.sequence_parallel = by_framework(of_layout().sequence_parallel, false);
  layout.gather_logits = by_framework(of_layout().gather_logits, false);
  layout.avoid_record_streams = by_framework(of_layout().avoid_record_streams, true);
  if (layout.mesh.tensor > 1) layout.dtensor = reading.framework.flag("tensor_parallel.dtensor");
  // TransformerEngine's and PyTorch's way to send split tokens piece by piece beside products.
  const KeyOf<bool>& overlap = of_layout().tp_comm_overlap;
  const KeyOf<bool>& pieces = of_layout().enable_async_tensor_parallel;
  layout.tp_comm_overlap = value_or(map, overlap, false, states);
  const bool by_pieces = value_or(map, pieces, false, false);
  const std::string& overlaps = by_pieces ? pieces.name : overlap.name;
  if ((layout.tp_comm_overlap || by_pieces) &&
      !(layout.sequence_parallel && layout.mesh.tensor > 1))
    map.at_key(overlaps).fail("what overlaps are the exchanges of sequence_parallel",
                              "set sequence_parallel: true and tensor_parallel, or remove it");
  layout.tp_comm_overlap |= by_pieces;
  const KeyOf<bool>& async = of_layout().async_tensor_model_parallel_allreduce;
  layout.tensor_async = layout.mesh.tensor > 1 && !layout.tp_comm_overlap
                            ? reading.framework.value_or(map, "strategy.", async)
                            : value_or(map, async, true, states);
  if (!layout.tensor_async && (layout.tp_comm_overlap || layout.mesh.tensor == 1))
    map.at_key(async.name)
        .fail(layout.tp_comm_overlap
                  ? fmt::format("{} has all of them run beside products", overlaps)
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
  layout.mesh.pipeline = value_or(map, of_layout().pipeline_parallel, 1, reading.has_mesh());
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
