#include "cost/cost_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "cost/profiled.hpp"

namespace rehearse::inline cost {
namespace {

ProfileSubject subject_of(const CostSubject& subject) {
  return profile_subject(subject.model, subject.precision);
}

bool times_are_given(const Model& model) {
  return std::any_of(model.units.begin(), model.units.end(),
                     [](const Unit& unit) { return unit.forward || unit.backward; });
}

/// CUDA's absence tells a CPU's profile.
bool is_cpu(const ComputeProfile& profile) { return profile.origin.cuda == "none"; }

const char* kind_of(bool cpu) { return cpu ? "CPU" : "GPU"; }

/// What the cluster calls a GPU is a CPU where its own profiles say so.
bool is_cpu(const Gpu& gpu, ProfileLibrary& library) {
  if (gpu.profiles.empty()) return false;
  const StoredProfile any = library.first(gpu.profiles);
  return any.profile && is_cpu(*any.profile);
}

bool same_folder(const std::filesystem::path& a, const std::filesystem::path& b) {
  std::error_code missing;
  return std::filesystem::equivalent(a, b, missing);
}

/// What a profile was measured on: its datasheet's row where its folder or its device has a name of
/// gpus.yaml, else the rates that it states.
Gpu device_of(const StoredProfile& stored) {
  const ComputeProfile& profile = *stored.profile;
  const std::vector<std::string> known = gpu_names();
  for (const std::string& name :
       {std::filesystem::path(stored.file).parent_path().filename().string(),
        profile.origin.device}) {
    if (std::find(known.begin(), known.end(), name) != known.end()) return known_gpu(name);
  }
  const DeviceRates& rates = profile.rates;
  return {.name = profile.origin.device,
          .fp32 = rates.fp32,
          .tf32 = rates.tf32,
          .fp16 = rates.fp16,
          .bf16 = rates.bf16,
          .memory = rates.memory,
          .memory_bandwidth = rates.memory_bandwidth,
          .source = "rates of its profile"};
}

CostSource measured(const StoredProfile& stored) { return {stored.profile, stored.file}; }

CostSource transferred(const StoredProfile& stored) {
  return {stored.profile, stored.file, device_of(stored)};
}

/// InputError unless the units agree.
void require_units(const CostSubject& subject, const StoredProfile& stored) {
  const std::string difference = unit_difference(subject.model, *stored.profile);
  if (difference.empty()) return;
  throw InputError(fmt::format(
      "{}: error: {}\nremedy: calibrate this model again, or take computed costs by `costs: "
      "analytic` in the model",
      stored.file, difference));
}

void require_kind(const StoredProfile& stored, bool cpu) {
  if (is_cpu(*stored.profile) == cpu) return;
  throw InputError(fmt::format(
      "{}: error: measured on a {}, which does not tell what a {} takes\nremedy: take a profile of "
      "a {}",
      stored.file, kind_of(!cpu), kind_of(cpu), kind_of(cpu)));
}

/// By how much a step's compute is scaled, as a distance from no scaling at all.
double scaling(const CostSubject& subject, const Gpu& gpu, const CostSource& source) {
  const auto sum = [&](const CostSource& one) {
    Seconds total{0};
    const StepCosts costs = step_costs(subject.model, gpu, subject.precision, subject.batch,
                                       Optimizer{}, subject.efficiency, &one);
    for (const UnitCost& unit : costs.units) total += unit.forward + unit.backward;
    return total;
  };
  return std::abs(std::log(sum(source) / sum({source.profile, source.file})));
}

/// Of the devices whose profiles are shipped, but the GPU itself.
std::optional<CostSource> nearest(const CostSubject& subject, const Gpu& gpu,
                                  ProfileLibrary& library) {
  std::optional<CostSource> best;
  double least = 0;
  for (const std::filesystem::path& folder : folders(compute_profiles_folder())) {
    if (same_folder(folder, gpu.profiles)) continue;
    const StoredProfile stored = library.find(folder, subject_of(subject));
    if (!stored.profile || is_cpu(*stored.profile) != is_cpu(gpu, library)) continue;
    if (!unit_difference(subject.model, *stored.profile).empty()) continue;
    const CostSource source = transferred(stored);
    const double distance = scaling(subject, gpu, source);
    if (!best || distance < least) {
      best = source;
      least = distance;
    }
  }
  return best;
}

std::optional<CostSource> asked_for(const CostSubject& subject, const Gpu& gpu,
                                    const std::filesystem::path& folder, ProfileLibrary& library) {
  const StoredProfile stored = library.find(folder, subject_of(subject));
  check(stored.profile != nullptr, "a transfer from a folder without the model's profile");
  require_units(subject, stored);
  require_kind(stored, is_cpu(gpu, library));
  return same_folder(folder, gpu.profiles) ? measured(stored) : transferred(stored);
}

}  // namespace

ProfileSubject profile_subject(const Model& model, Precision precision) {
  return {.model = model.name,
          .image = model.image,
          .sequence = model.tokens_per_sample,
          .precision = precision};
}

std::optional<CostSource> cost_source(const CostSubject& subject, const Gpu& gpu,
                                      const CostChoice& choice, ProfileLibrary& library) {
  const bool covered = subject.model.variant.empty() && !times_are_given(subject.model);
  if (choice.analytic || !covered) return std::nullopt;
  if (!choice.transfer_from.empty()) {
    return asked_for(subject, gpu, choice.transfer_from, library);
  }
  if (!gpu.profiles.empty()) {
    const StoredProfile own = library.find(gpu.profiles, subject_of(subject));
    if (own.profile) {
      require_units(subject, own);
      return measured(own);
    }
  }
  if (!choice.profile) return nearest(subject, gpu, library);
  if (choice.profile->profile->origin.device == gpu.name) return measured(*choice.profile);
  require_kind(*choice.profile, is_cpu(gpu, library));
  return transferred(*choice.profile);
}

Model model_of(const StoredProfile& stored) {
  const ComputeProfile& profile = *stored.profile;
  Model model;
  model.name = profile.model;
  for (const ProfiledUnit& measured : profile.units) {
    Unit unit;
    unit.name = measured.name;
    unit.tensors = measured.tensors;
    unit.buffer_elements = measured.buffer_elements;
    unit.recorded = measured.operators;
    unit.handed = measured.handed;
    if (!model.units.empty()) model.units.back().hands_on = measured.handed;
    model.units.push_back(std::move(unit));
  }
  model.image = profile.image;
  model.tokens_per_sample = profile.sequence;
  model.sample = profile.image > 0 ? fmt::format("3x{0}x{0} image", profile.image)
                                   : fmt::format("sequence of {} tokens", profile.sequence);
  model.input_elements = profile.image > 0 ? 3.0 * static_cast<double>(profile.image) *
                                                 static_cast<double>(profile.image)
                                           : static_cast<double>(profile.sequence);
  model.source = stored.file;
  return model;
}

}  // namespace rehearse::inline cost
