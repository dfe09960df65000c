#include "explain/questions.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "explain/cause.hpp"
#include "explain/resource.hpp"
#include "model/adaptation.hpp"
#include "report/anatomy.hpp"
#include "schedule/jitter.hpp"

namespace rehearse::inline explanation {
namespace {

using Question = Alternative::Question;

constexpr std::uint32_t kMeasured = 2, kWarmup = 2;

class Asker {
 public:
  Asker(const Scenario& scenario, const Machine& machine,
        const std::function<Machine(const Scenario&)>& machine_of, const Questions& questions)
      : scenario_(scenario), machine_(machine), machine_of_(machine_of), questions_(questions) {}

  std::vector<Experiment> ask() {
    ask_causes();
    for (const RankId rank : slow_ranks(machine_.schedule, questions_.workers)) {
      if (!is_known(rank)) continue;
      Alternative question{.question = Question::worker,
                           .name = fmt::format("{}", rank.index()),
                           .words = fmt::format("rank {} like the median", rank.index()),
                           .rank = rank};
      add(std::move(question), [rank](Machine& changed) { make_median(rank, changed); });
    }
    for (const std::string& name : operation_classes(machine_.schedule))
      add({.question = Question::operation, .name = name, .words = name},
          [name](Machine& changed) { remove_operations(name, changed); });
    ask_more();
    return std::move(experiments_);
  }

 private:
  /// Which GPU is the slowest of a fleet that was taken for granted, nobody knows.
  bool is_known(RankId rank) const {
    return !scenario_.run.usual_spread ||
           std::ranges::any_of(scenario_.run.stragglers,
                               [rank](const Straggler& one) { return one.rank == rank.index(); });
  }

  template <class Change>
  void add(Alternative question, Change change, bool cumulative = false) {
    experiments_.push_back({std::move(question),
                            [machine = &machine_, change] {
                              Machine changed = *machine;
                              change(changed);
                              return changed;
                            },
                            cumulative});
  }

  /// Each alone; then the second with the first, the third with both, and so on: the last of these
  /// is the ideal run.
  void ask_causes() {
    const std::vector<Cause> causes = causes_of(machine_);
    std::vector<Cause> taken;
    for (const Cause cause : causes) {
      const Alternative question{
          .question = Question::cause, .name = to_string(cause), .words = instead_of(cause)};
      add(question, [cause](Machine& changed) { remove(cause, changed); });
      taken.push_back(cause);
      if (taken.size() == 1 || taken.size() == causes.size()) continue;
      add(question, all_of(taken), true);
    }
    if (causes.empty()) return;
    add({.question = Question::ideal, .name = "ideal", .words = "all of these"}, all_of(taken));
  }

  static std::function<void(Machine&)> all_of(const std::vector<Cause>& causes) {
    return [causes](Machine& changed) {
      for (const Cause cause : causes) remove(cause, changed);
    };
  }

  /// Settings by which the same training goes faster on the same machine.
  void ask_software() {
    if (!costs_follow_datasheets()) return;
    if (scenario_.model.compile == Compile::none && !scenario_.share)
      add_scenario({.question = Question::software, .name = "compile", .words = "torch.compile"},
                   [](Scenario& changed) {
                     changed.model = compiled(std::move(changed.model), Compile::whole);
                   });
    if (has_fused_option(scenario_.optimizer.kind) && !scenario_.optimizer.fused)
      add_scenario({.question = Question::software,
                    .name = "fused_optimizer",
                    .words = "fused " + to_string(scenario_.optimizer.kind)},
                   [](Scenario& changed) { changed.optimizer.fused = true; });
  }

  void ask_more() {
    ask_software();
    const double factor = 1 + questions_.more;
    for (const Resource resource : resources_of(machine_, LinkCosts(machine_).ports())) {
      const double change = is_rate(resource) ? questions_.more : 1 / factor - 1;
      add({.question = Question::more,
           .name = to_string(resource),
           .words = words_of(resource),
           .change = change},
          [resource, factor](Machine& changed) { speed_up(resource, factor, changed); });
    }
    if (!costs_follow_datasheets()) return;
    add_gpu("arithmetic", "GPU arithmetic peak", [factor](Gpu& gpu) {
      for (FlopsPerSecond* peak : {&gpu.fp32, &gpu.tf32, &gpu.fp16, &gpu.bf16, &gpu.fp8, &gpu.fp4})
        *peak *= factor;
    });
    add_gpu("memory", "GPU memory bandwidth",
            [factor](Gpu& gpu) { gpu.memory_bandwidth *= factor; });
  }

  /// Costs that were measured on the GPU itself, or scaled to a whole step, do not change with its
  /// peaks.
  bool costs_follow_datasheets() const {
    if (scenario_.whole_step) return false;
    return std::ranges::any_of(group_costs(scenario_), [](const StepCosts& costs) {
      return !costs.units.empty() && (costs.provenance == Provenance::analytic ||
                                      costs.provenance == Provenance::transferred);
    });
  }

  template <class Change>
  void add_scenario(Alternative question, Change change) {
    experiments_.push_back(
        {std::move(question), [this_scenario = &scenario_, machine_of = &machine_of_, change] {
           Scenario changed = *this_scenario;
           change(changed);
           return (*machine_of)(changed);
         }});
  }

  template <class Change>
  void add_gpu(const char* name, const char* words, Change change) {
    add_scenario(
        {.question = Question::more, .name = name, .words = words, .change = questions_.more},
        [change](Scenario& changed) {
          for (NodeGroup& group : changed.cluster.groups) change(group.node.gpu);
        });
  }

  const Scenario& scenario_;
  const Machine& machine_;
  const std::function<Machine(const Scenario&)>& machine_of_;
  const Questions& questions_;
  std::vector<Experiment> experiments_;
};

}  // namespace

std::vector<Experiment> experiments(const Scenario& scenario, const Machine& machine,
                                    const std::function<Machine(const Scenario&)>& machine_of,
                                    const Questions& questions) {
  return Asker(scenario, machine, machine_of, questions).ask();
}

std::vector<Alternative> answered(const std::vector<Experiment>& experiments,
                                  const std::vector<Headline>& results) {
  check(experiments.size() == results.size(), "an experiment without a result");
  std::vector<Alternative> answers;
  std::optional<Seconds> ideal;
  for (std::size_t i = 0; i < experiments.size(); ++i) {
    Alternative answer = experiments[i].question;
    answer.result = results[i];
    if (answer.question == Question::ideal) ideal = answer.result.step_time;
    if (experiments[i].cumulative) {  // its cause alone stands before it
      answers.back().cumulative = answer.result.step_time;
    } else {
      answers.push_back(std::move(answer));
    }
  }
  Alternative* first = nullptr;
  Alternative* last = nullptr;
  for (Alternative& answer : answers) {
    if (answer.question != Question::cause) continue;
    if (!first) first = &answer;
    last = &answer;
  }
  if (last) last->cumulative = ideal;
  if (first) first->cumulative = first->result.step_time;
  return answers;
}

Machine shortened(Machine machine, std::uint32_t& warmup_steps) {
  const Schedule& schedule = machine.schedule;
  if (!steps_alike(schedule.jitter) || has_parameter_server(schedule)) return machine;
  warmup_steps = std::min(warmup_steps, kWarmup);
  machine.schedule.iterations = std::min(schedule.iterations, warmup_steps + kMeasured);
  return machine;
}

}  // namespace rehearse::inline explanation
