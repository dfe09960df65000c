#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "cost/cost.hpp"
#include "cost/given_times.hpp"
#include "cost/profile_library.hpp"
#include "cost/whole_step.hpp"

namespace rehearse::inline cost {

/// The subject that a profile of the model has to have.
ProfileSubject profile_subject(const Model& model, Precision precision);

/// Where a scenario wants a model's costs from. At most one of these is said; none: what is best.
/// A whole step that was measured scales the roofline's costs, and so comes with `analytic`.
struct CostChoice {
  bool analytic = false;  ///< the roofline, whatever was measured
  /// Carried over from the profile of this folder, which has one of the model.
  std::filesystem::path transfer_from;
  std::optional<StoredProfile> profile;  ///< the model is this profile's
  std::optional<WholeStep> whole_step = std::nullopt;
  std::optional<GivenAt> given_at = std::nullopt;  ///< of an inline model
};

/// The model and settings that are to be costed.
struct CostSubject {
  const Model& model;
  Precision precision;
  std::int64_t batch;
  const AnalyticEfficiency& efficiency;
};

/// The profile that a GPU's costs are taken from: one of the GPU's own (Gpu::profiles), or where it
/// has none, the one of another device that needs the least scaling, of those shipped
/// (platforms/profiles/compute). Profiles of CPUs do not speak for GPUs, nor the other way round.
/// Nothing: analytic (or given) costs.
///
/// Models whose times are given, and those with options that profiles do not cover
/// (Model::variant), have none. InputError where the GPU's own profile has other units than the
/// model, and where the choice cannot be met.
std::optional<CostSource> cost_source(const CostSubject& subject, const Gpu& gpu,
                                      const CostChoice& choice, ProfileLibrary& library);

/// The model that a profile measured: its units and tensors, without operators.
Model model_of(const StoredProfile& stored);

}  // namespace rehearse::inline cost
