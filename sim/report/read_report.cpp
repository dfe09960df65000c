#include <charconv>
#include <limits>

#include "config/json_place.hpp"
#include "report/forecast_views.hpp"
#include "report/views.hpp"

namespace rehearse::inline report {
namespace {

constexpr const char* kSchema = "rehearse.report/1";
constexpr double kInfinity = std::numeric_limits<double>::infinity();

double number(const JsonPlace& json) { return json.number(); }
std::string text(const JsonPlace& json) { return json.text(); }
bool flag(const JsonPlace& json) { return json.flag(); }
template <class Number>
Number whole(const JsonPlace& json) {
  return json.whole<Number>();
}
Seconds seconds(const JsonPlace& json) { return Seconds(json.number()); }
Bytes bytes(const JsonPlace& json) { return Bytes(json.number()); }

IntervalBasis interval_basis(const JsonPlace& json) {
  return {.group = json.at("group").text(), .factor = json.at("factor").number()};
}

std::optional<Seconds> seconds_or_null(const JsonPlace& json) { return json.or_null(seconds); }

ArchitectureReport architecture(const JsonPlace& json) {
  return {.family = json.at("family").or_null(text).value_or(""),
          .layers = json.at("layers").whole<std::int64_t>(),
          .parameters = json.at("parameters").whole<std::int64_t>(),
          .active_parameters = json.at("active_parameters").whole<std::int64_t>(),
          .trainable_parameters = json.at("trainable_parameters").whole<std::int64_t>(),
          .flops_forward = json.at("flops_forward").number_or_null()};
}

FrameworkSetting framework_setting(const JsonPlace& json) {
  return {.key = json.at("key").text(),
          .value = json.at("value").text(),
          .source = json.at("source").text()};
}

FrameworkChoice framework(const JsonPlace& json) {
  return {.name = json.at("name").text(),
          .title = json.at("title").text(),
          .version = json.at("version").text(),
          .said = json.at("said").flag(),
          .line = json.at("line").text(),
          .set = json.at("set").list(framework_setting)};
}

void read_identity(const JsonPlace& json, Report& report) {
  report.scenario = json.at("scenario").text();
  report.description = json.at("description").text();
  report.model = json.at("model").text();
  report.architecture = architecture(json.at("architecture"));
  report.cluster = json.at("cluster").text();
  report.strategy = json.at("strategy").text();
  report.framework = framework(json.at("framework"));
  report.precision = json.at("precision").text();
  report.batch_per_gpu = json.at("batch_per_gpu").whole<std::int64_t>();
  report.global_batch = json.at("global_batch").whole<std::int64_t>();
  report.ranks = json.at("ranks").whole<std::size_t>();
  report.nodes = json.at("nodes").whole<std::size_t>();
  report.fidelity = json.at("fidelity").text();
}

// --- memory --------------------------------------------------------------------------------------

MemoryUse memory_use(const JsonPlace& json) {
  MemoryUse use;
  for (std::size_t kind = 0; kind < kMemoryKinds; ++kind)
    use.by_kind[kind] = bytes(json.at(to_string(static_cast<MemoryKind>(kind)) + "_bytes"));
  return use;
}

MemoryShare memory_share(const JsonPlace& json) {
  return {.owner = json.at("unit").text(),
          .kind = json.at("kind").named<MemoryKind>(kMemoryKinds),
          .size = bytes(json.at("bytes")),
          .tensors = json.at("tensors").whole<std::size_t>()};
}

OutOfMemory out_of_memory(const JsonPlace& json) {
  return {.at = json.at("at").text(), .message = json.at("message").text()};
}

ProgramMemory program_memory(const JsonPlace& json) {
  return {.name = json.at("name").text(),
          .rank = json.at("rank").whole<std::size_t>(),
          .allocated_peak = bytes(json.at("allocated_peak_bytes")),
          .reserved_peak = json.at("reserved_peak_bytes").or_null(bytes),
          .fits = json.at("fits").flag()};
}

FittingChange fitting_change(const JsonPlace& json) {
  return {.change = json.at("change").text(),
          .set = json.at("set").text(),
          .changes_training = json.at("changes_training").flag(),
          .at_risk = json.at("at_risk").flag(),
          .allocated_peak = bytes(json.at("allocated_peak_bytes")),
          .reserved_peak = json.at("reserved_peak_bytes").or_null(bytes),
          .used = bytes(json.at("used_bytes")),
          .step_time = seconds(json.at("step_time_s")),
          .samples_per_s = json.at("samples_per_s").number(),
          .price = json.at("price").number()};
}

MemoryReport memory(const JsonPlace& json) {
  MemoryReport memory;
  memory.allocated_peak = bytes(json.at("allocated_peak_bytes"));
  memory.reserved_peak = json.at("reserved_peak_bytes").or_null(bytes);
  memory.at_peak = memory_use(json.at("by_kind"));
  memory.peak_at = json.at("peak_at").text();
  memory.shares = json.at("largest_at_peak").list(memory_share);
  memory.context = bytes(json.at("context_bytes"));
  memory.communicators = bytes(json.at("communicators_bytes"));
  memory.capacity = json.at("capacity_bytes").or_null(bytes).value_or(Bytes(0));
  memory.fits = json.at("fits").or_null(flag).value_or(true);
  memory.out_of_memory = json.at("out_of_memory").or_null(out_of_memory);
  memory.alloc_retries = json.at("alloc_retries").whole<std::int64_t>();
  memory.programs = json.at("programs").list(program_memory);
  memory.largest_batch_per_gpu = json.at("largest_batch_per_gpu").or_null(whole<std::int64_t>);
  if (const auto changes = json.find("would_fit")) memory.would_fit = changes->list(fitting_change);
  return memory;
}

// --- steps, updates and what is exchanged --------------------------------------------------------

SteadyReport steady_state(const JsonPlace& json) {
  return {.reached = json.at("reached").flag(),
          .begin = seconds(json.at("from_s")),
          .end = seconds(json.at("to_s")),
          .slowest = json.at("steps_of_slowest_worker").number(),
          .throughput_error = json.at("throughput_error").number(),
          .staleness_error = json.at("staleness_error").number()};
}

Breakdown breakdown(const JsonPlace& json) {
  return {.compute = seconds(json.at("compute_s")),
          .exposed_communication = seconds(json.at("exposed_communication_s")),
          .hidden_communication = seconds(json.at("hidden_communication_s")),
          .idle = seconds(json.at("idle_s"))};
}

StageReport stage(const JsonPlace& json) {
  const JsonPlace bubble = json.at("bubble");
  StageReport stage{.stage = json.at("stage").whole<std::uint32_t>(),
                    .rank = json.at("rank").whole<std::size_t>(),
                    .compute = seconds(json.at("compute_s")),
                    .warm_up = seconds(bubble.at("warm_up_s")),
                    .cool_down = seconds(bubble.at("cool_down_s")),
                    .steady = seconds(bubble.at("steady_s"))};
  const JsonPlace exposed = json.at("exposed_communication");
  for (std::size_t i = 0; i < kAxes; ++i) {
    const auto axis = static_cast<MeshAxis>(i);
    if (const auto time = exposed.find(to_string(axis) + "_s"))
      stage.exposed[axis] = seconds(*time);
  }
  return stage;
}

StalenessHistogram histogram(const JsonPlace& json) {
  StalenessHistogram all;
  for (const auto& [key, updates] : json.entries()) {
    std::uint32_t staleness = 0;
    const char* const last = key.data() + key.size();
    if (const auto read = std::from_chars(key.data(), last, staleness);
        read.ptr != last || read.ec != std::errc())
      updates.fail("a staleness as the key", nlohmann::json(key).dump());
    all[staleness] = updates.whole<std::uint64_t>();
  }
  return all;
}

StalenessReport staleness(const JsonPlace& json) {
  return {.mean = json.at("mean").number(),
          .p50 = json.at("p50").whole<std::uint32_t>(),
          .p99 = json.at("p99").whole<std::uint32_t>(),
          .max = json.at("max").whole<std::uint32_t>(),
          .histogram = histogram(json.at("histogram"))};
}

CollectiveReport collective(const JsonPlace& json) {
  return {.kind = json.at("collective").text(),
          .ranks = json.at("ranks").whole<int>(),
          .nodes = json.at("nodes").whole<int>(),
          .size = bytes(json.at("bytes")),
          .count = json.at("count").whole<std::size_t>(),
          .algorithm = json.at("algorithm").text(),
          .protocol = json.at("protocol").text(),
          .answered_by = json.at("answered_by").text(),
          .outside = json.at("outside").text(),
          .time = seconds(json.at("time_s")),
          .interval = {seconds(json.at("low_s")), seconds(json.at("high_s"))},
          .busbw = BytesPerSecond(json.at("busbw_GBps").number() * 1e9)};
}

OtherJobReport other_job(const JsonPlace& json) {
  return {.model = json.at("model").text(),
          .strategy = json.at("strategy").text(),
          .nodes = json.at("nodes").list(whole<std::size_t>),
          .steps = json.at("steps").whole<std::size_t>(),
          .step_time = seconds_or_null(json.at("step_time_s"))};
}

// --- money, energy and failures ------------------------------------------------------------------

CostParts cost_parts(const JsonPlace& json) {
  return {.training = json.at("training").number(),
          .failures = json.at("failures").number(),
          .start = json.at("start").number(),
          .energy = json.at("energy").number()};
}

CostReport cost(const JsonPlace& json) {
  return {.gpu_hours = json.at("gpu_hours").number(),
          .usd = json.at("usd").number_or_null(),
          .usd_by_part = json.at("usd_by_part").or_null(cost_parts),
          .energy_kwh = json.at("energy_kwh").number_or_null(),
          .co2_kg = json.at("co2_kg").number_or_null()};
}

EnergyReport energy(const JsonPlace& json) {
  return {.power_w = json.at("power_w").number(),
          .gpus_w = json.at("gpus_w").number(),
          .hosts_w = json.at("hosts_w").number(),
          .pue_w = json.at("pue_w").number(),
          .step_j = json.at("step_j").number()};
}

/// Whether the place has the first of two texts; else it has the second.
bool first_of(const JsonPlace& json, const std::string& first, const std::string& second) {
  const std::string found = json.text();
  if (found != first && found != second) json.fail("one of " + first + ", " + second);
  return found == first;
}

GoodputReport goodput(const JsonPlace& json) {
  GoodputReport goodput;
  goodput.trainings = json.at("trainings").whole<std::int64_t>();
  const auto of_failures = [&](const char* key) {
    const Seconds time(json.at(key).number_or_null().value_or(kInfinity));
    return goodput.trainings > 0 ? time : Seconds(0);
  };
  goodput.share = json.at("share").number();
  goodput.expected_time = seconds(json.at("expected_time_s"));
  goodput.expected_time_spread = json.at("expected_time_spread_s").ends(seconds);
  goodput.checkpoint_interval = of_failures("checkpoint_interval_s");
  goodput.checkpoint_write = of_failures("checkpoint_write_s");
  goodput.young = of_failures("young_daly_s");
  goodput.daly = of_failures("daly_higher_order_s");
  goodput.job_mtbf = of_failures("job_mtbf_s");
  goodput.failures = json.at("failures_expected").number();
  goodput.checkpoints = json.at("checkpoints_expected").number();
  goodput.checkpoint_time = seconds(json.at("checkpoint_s"));
  goodput.lost = seconds(json.at("lost_s"));
  goodput.recovery = seconds(json.at("recovery_s"));
  goodput.waiting = seconds(json.at("waiting_s"));
  goodput.slower = seconds(json.at("slower_s"));
  goodput.start = seconds(json.at("start_s"));
  goodput.exact = first_of(json.at("expectation"), "closed form", "mean of the trainings played");
  return goodput;
}

StartReport start(const JsonPlace& json) {
  return {.elastic = first_of(json.at("mode"), "elastic", "gang"),
          .first_step = seconds(json.at("first_step_s")),
          .all_there = seconds(json.at("all_there_s")),
          .all_there_spread = json.at("all_there_spread_s").ends(seconds),
          .delay = seconds(json.at("delay_s")),
          .samples_meanwhile = json.at("samples_meanwhile").number()};
}

// --- grounds -------------------------------------------------------------------------------------

FamilyReport family(const JsonPlace& json) {
  FamilyReport family{.family = json.at("family").named<CostFamily>(kCostFamilies),
                      .ground = json.at("ground").named<CostGround>(kCostGrounds),
                      .from = json.at("from").text(),
                      .off = json.at("off").number_or_null(),
                      .forward = seconds(json.at("forward_s")),
                      .backward = seconds(json.at("backward_s")),
                      .farthest = json.at("farthest").number_or_null().value_or(0)};
  const double within = json.at("within_measured").number();
  family.within = within * family.total();
  return family;
}

UnitReport unit(const JsonPlace& json) {
  UnitReport unit{.first = json.at("first").text(),
                  .last = json.at("last").text(),
                  .count = json.at("count").whole<std::size_t>(),
                  .forward = seconds(json.at("forward_s")),
                  .backward = seconds(json.at("backward_s")),
                  .within_measured = json.at("within_measured").number(),
                  .farthest = json.at("farthest").number_or_null().value_or(0)};
  for (const auto& [ground, share] : json.at("grounds").entries())
    unit.grounds.emplace_back(share.named<CostGround>(ground, kCostGrounds), share.number());
  return unit;
}

ComputeReport compute(const JsonPlace& json) {
  return {.gpu = json.at("gpu").text(),
          .families = json.at("families").list(family),
          .units = json.at("units").list(unit)};
}

void read_grounds(const JsonPlace& json, Report& report) {
  report.bottleneck = json.at("bottleneck").text();
  report.provenance = json.at("provenance").text();
  report.compute = json.at("compute").list(compute);
  report.outside_calibration = json.at("outside_calibration").list(text);
  report.assumptions = json.at("assumptions").list(text);
  report.seed = json.at("seed").whole<std::uint64_t>();
  report.replications = json.at("replications").whole<std::uint32_t>();
  report.replications_error = json.at("replications_error").number_or_null();
  for (const auto& [library, version] : json.at("versions").entries())
    report.versions[library] = version.text();
}

void read_answers(const JsonPlace& json, Report& report) {
  report.step_time = seconds(json.at("step_time_s"));
  report.step_time_spread = json.at("step_time_spread_s").ends(seconds);
  report.worker_step_time = seconds_or_null(json.at("worker_step_time_s"));
  report.worker_step_times = json.at("worker_step_times_s").list(seconds);
  report.samples_per_s = json.at("samples_per_s").number();
  report.tokens_per_s = json.at("tokens_per_s").number_or_null();
  report.tokens_per_s_per_gpu = json.at("tokens_per_s_per_gpu").number_or_null();
  report.model_tflops_per_gpu = json.at("model_tflops_per_gpu").number_or_null();
  report.steady = json.at("steady_state").or_null(steady_state);
  report.epoch_time = seconds_or_null(json.at("epoch_time_s"));
  report.train_time = seconds_or_null(json.at("train_time_s"));
  report.breakdown = breakdown(json.at("breakdown"));
  report.gpu_utilization = json.at("gpu_utilization").number();
  report.mfu = json.at("mfu").number_or_null();
  report.mfu_all_pairs = json.at("mfu_all_pairs").number_or_null();
  report.hfu = json.at("hfu").number_or_null();
  if (const auto stages = json.find("stages")) report.stages = stages->list(stage);
  report.memory = json.at("memory").or_null(memory);
  report.staleness = json.at("staleness").or_null(staleness);
  report.collectives = json.at("collectives").list(collective);
  report.step_time_alone = seconds_or_null(json.at("step_time_alone_s"));
  report.other_jobs = json.at("other_jobs").list(other_job);
  report.accuracy = json.at("accuracy").or_null(strategy_forecast);
  report.accuracy_from = json.at("accuracy_from").text();
  report.cost = json.at("cost").or_null(cost);
  report.energy = json.at("energy").or_null(energy);
  report.goodput = json.at("goodput").or_null(goodput);
  report.start = json.at("start").or_null(start);
  for (const auto& [key, interval] : json.at("intervals").entries())
    report.intervals.push_back({.key = key, .bounds = interval.ends(number)});
  report.time_basis = json.at("interval_basis").at("time").or_null(interval_basis);
  report.memory_basis = json.at("interval_basis").at("memory").or_null(interval_basis);
  report.used_basis = json.at("interval_basis").at("used_memory").or_null(interval_basis);
}

}  // namespace

Report report_from_json(const std::string& json_text, const std::string& file) {
  const nlohmann::ordered_json document = parse_json(json_text, file);
  const JsonPlace root(document, file);
  if (const std::string schema = root.at("schema").text(); schema != kSchema)
    root.at("schema").fail(std::string("\"") + kSchema + "\"");
  Report report;
  read_identity(root, report);
  read_answers(root, report);
  read_grounds(root, report);
  return report;
}

}  // namespace rehearse::inline report
