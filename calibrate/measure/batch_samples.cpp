#include "measure/batch_samples.hpp"

#include "measure/precision.hpp"
#include "measure/statistics.hpp"

namespace rehearse::inline calibrate {
namespace {

/// Steps per batch whose launches are timed.
constexpr int kLaunches = 5;

/// One figure of every repetition.
template <class Samples, class Read>
Spread over(const Samples& samples, Read read) {
  std::vector<Seconds> values;
  values.reserve(samples.size());
  for (const auto& sample : samples) values.push_back(read(sample));
  return spread_of(values);
}

}  // namespace

BatchSamples::BatchSamples(const Chain& chain, MeasuredDevice& device, Precision precision,
                           std::int64_t size)
    : chain_(chain),
      runner_(chain, device, precision),
      optimizer_(default_optimizer("sgd", parameters(chain))),
      size_(size),
      batch_(random_batch(chain.input, size, device.torch_device(), input_type(precision))) {}

void BatchSamples::warm_up() {
  runner_.time_units(batch_);
  runner_.time_whole(batch_, *optimizer_);
}

void BatchSamples::count() {
  operators_ = runner_.count_operators(batch_);
  bytes_ = runner_.count_bytes(batch_);
  peak_ = runner_.count_peak(batch_, *optimizer_);
  for (int i = 0; i < kLaunches; ++i) launches_.push_back(runner_.time_launches(batch_));
}

void BatchSamples::repeat() {
  runner_.time_whole(batch_, *optimizer_);
  const bool units_first = whole_.size() % 2 == 0;
  if (units_first) units_.push_back(runner_.time_units(batch_));
  whole_.push_back(runner_.time_whole(batch_, *optimizer_));
  if (!units_first) units_.push_back(runner_.time_units(batch_));
}

UnitTimes BatchSamples::unit(std::size_t i) const {
  const Spread forward = over(units_, [i](const UnitSamples& s) { return s.forward[i]; });
  const Spread backward = over(units_, [i](const UnitSamples& s) { return s.backward[i]; });
  const Spread launch = over(launches_, [i](const UnitLaunches& s) { return s.forward[i]; });
  const Spread back = over(launches_, [i](const UnitLaunches& s) { return s.backward[i]; });
  return {.name = chain_.units[i].name,
          .forward = forward.median,
          .backward = backward.median,
          .forward_spread = forward.relative,
          .backward_spread = backward.relative,
          .forward_launch = launch.median,
          .backward_launch = back.median,
          .saved = bytes_.saved[i],
          .workspace = bytes_.workspace[i],
          .forward_flops = operators_.forward[i].flops,
          .backward_flops = operators_.backward[i].flops,
          .forward_moved = operators_.forward[i].moved,
          .backward_moved = operators_.backward[i].moved};
}

BatchPoint BatchSamples::point() const {
  BatchPoint point{.batch = size_,
                   .repetitions = static_cast<std::int64_t>(whole_.size()),
                   .allocated_peak = peak_.allocated,
                   .reserved_peak = peak_.reserved,
                   .whole = {},
                   .units = {}};
  point.whole.forward = over(whole_, [](const StepTimes& s) { return s.forward; }).median;
  point.whole.backward = over(whole_, [](const StepTimes& s) { return s.backward; }).median;
  point.whole.optimizer = over(whole_, [](const StepTimes& s) { return s.optimizer; }).median;
  point.whole.step = over(whole_, [](const StepTimes& s) { return s.step; }).median;
  for (std::size_t i = 0; i < chain_.units.size(); ++i) point.units.push_back(unit(i));
  return point;
}

}  // namespace rehearse::inline calibrate
