#include "cli/starting_profile.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.hpp"
#include "models/networks.hpp"

namespace rehearse::inline calibrate {
namespace {

/// What a sample of the user's own module is: an image or a sequence as the built-in networks take
/// them, or as it was given.
void set_sample(const ScriptInput& input, ComputeProfile& profile) {
  const std::vector<std::int64_t>& sizes = input.sizes;
  if (input.tokens && sizes.size() == 1) {
    profile.sequence = sizes[0];
  } else if (!input.tokens && sizes.size() == 3 && sizes[0] == 3 && sizes[1] == sizes[2]) {
    profile.image = sizes[1];
  } else {
    profile.input = fmt::format("{}:{}", fmt::join(sizes, "x"), input.tokens ? "long" : "float");
  }
}

ComputeProfile empty_profile(const ComputePlan& plan, const ProfileOrigin& origin) {
  ComputeProfile profile;
  profile.origin = origin;
  profile.model = plan.model;
  profile.precision = plan.precision;
  if (plan.script) {
    set_sample(plan.script->input, profile);
  } else {
    const ModelShape shape = filled_shape(plan.model, plan.shape);
    profile.image = shape.image;
    profile.sequence = shape.sequence;
  }
  return profile;
}

/// Points of unlike origin do not go into one file.
void check_same_subject(const ComputeProfile& old, const ComputeProfile& now,
                        const std::filesystem::path& file) {
  const auto check_same = [&](const std::string& what, const std::string& a, const std::string& b) {
    if (a == b) return;
    throw InputError(fmt::format(
        "{}: error: holds another measurement: its {} is {}, asked is {}\nremedy: give another "
        "--output, or remove the file",
        file.string(), what, a, b));
  };
  check_same("model", old.model, now.model);
  check_same("precision", to_string(old.precision), to_string(now.precision));
  check_same("image", std::to_string(old.image), std::to_string(now.image));
  check_same("sequence", std::to_string(old.sequence), std::to_string(now.sequence));
  check_same("input", old.input, now.input);
  check_same("device", old.origin.device, now.origin.device);
  check_same("LibTorch", old.origin.libtorch, now.origin.libtorch);
  check_same("number of host threads", std::to_string(old.origin.host_threads),
             std::to_string(now.origin.host_threads));
}

}  // namespace

ComputeProfile starting_profile(const ComputePlan& plan, const ProfileOrigin& origin,
                                const std::filesystem::path& file) {
  ComputeProfile profile = empty_profile(plan, origin);
  if (!std::filesystem::exists(file)) return profile;
  const ComputeProfile old = read_compute_profile(Document::load(file)->root());
  check_same_subject(old, profile, file);
  profile.rates = old.rates;
  profile.units = old.units;
  profile.points = old.points;
  profile.optimizers = old.optimizers;
  return profile;
}

}  // namespace rehearse::inline calibrate
