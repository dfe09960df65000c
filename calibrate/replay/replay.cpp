#include "replay/replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "base/error.hpp"
#include "data/shard_order.hpp"
#include "replay/curve_builder.hpp"
#include "replay/replay_state.hpp"
#include "replay/replica_pool.hpp"

namespace rehearse::inline calibrate {
namespace {

using Values = std::vector<std::byte>;

constexpr std::uint64_t kPoints = 20;

/// The log up to the update with which the epochs are full.
RunUpdates cut_to_epochs(RunUpdates run, const Dataset& data, const ReplayOptions& options) {
  if (options.epochs <= 0) return run;
  const double wanted = options.epochs * static_cast<double>(data.train.count());
  const auto rows = static_cast<std::size_t>(
      std::ceil(wanted / static_cast<double>(samples_of_row(options.training))));
  if (rows > run.updates.size()) {
    throw InputError(
        fmt::format("error: --epochs: {} epochs are {} gradients of {} samples; the log has {}\n"
                    "remedy: simulate more steps: run.steps of {} or more",
                    options.epochs, rows, samples_of_row(options.training), run.updates.size(),
                    (rows + run.workers - 1) / run.workers));
  }
  std::size_t end = rows;
  while (end < run.updates.size() &&
         run.updates[end].version_applied == run.updates[rows - 1].version_applied)
    ++end;
  run.updates.resize(end);
  return run;
}

/// FNV-1a, of numbers instead of bytes.
class Digest {
 public:
  void add(std::uint64_t part) { value_ = (value_ ^ part) * 0x100000001b3ULL; }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325ULL;
};

std::uint64_t digest_of(const UpdateLog& log) {
  Digest digest;
  for (const AppliedUpdate& row : log)
    for (const std::uint64_t part : {std::uint64_t{row.worker}, row.iteration, row.version_read})
      digest.add(part);
  return digest.value();
}

std::uint64_t digest_of(const Dataset& data) {
  Digest digest;
  for (const Samples* samples : {&data.train, &data.test})
    for (const DataBytes* bytes : samples->bytes())
      for (const std::uint8_t byte : *bytes) digest.add(byte);
  return digest.value();
}

std::string outer_words(const Mitigation& by) {
  if (!by.outer) return "no outer optimizer";
  return fmt::format("outer SGD of {}, {}{}", by.outer->learning_rate, by.outer->momentum,
                     by.outer->nesterov ? " with nesterov" : "");
}

class Replay {
 public:
  Replay(const RunUpdates& run, const Dataset& data, const ReplayOptions& options)
      : run_(cut_to_epochs(run, data, options)),
        data_(data),
        options_(options),
        sgd_(server_part(options.training, run.workers)),
        pool_({options.training.model, shape_for(data), options.training.seed}, options.threads),
        server_(ElementType::float32, pool_.values(), sgd_),
        curve_(begun_curve("replay", options.training, data, run_), untaught_accuracy(data)),
        end_(run_.updates.back().version_applied + 1),
        every_(options.eval_every > 0
                   ? options.eval_every
                   : std::max<std::uint64_t>(1, (end_ + kPoints - 1) / kPoints)) {
    for (std::uint32_t w = 0; w < run_.workers; ++w)
      orders_.emplace_back(ShardOptions{data.train.count(), run_.workers, w, options.training.batch,
                                        options.training.seed});
    by_read_.resize(run_.updates.size());
    std::iota(by_read_.begin(), by_read_.end(), std::size_t{0});
    std::ranges::stable_sort(by_read_, {},
                             [&](std::size_t row) { return run_.updates[row].version_read; });
  }

  std::optional<Curve> play() {
    go_on();
    for (;; ++version_) {
      if (options_.stop()) {
        keep();
        return std::nullopt;
      }
      if (version_ % every_ == 0 || version_ == end_) add_point();
      if (version_ == end_ || curve_.diverged()) return finished();
      compute_from_now();
      apply_next();
      options_.progress(version_ + 1, end_);
    }
  }

 private:
  struct Pending {
    std::future<Replica::Sent> sent;
    std::shared_ptr<const Values> read;  ///< for delay compensation
  };

  Curve finished() {
    Curve curve = curve_.finish();
    add_staleness(run_.updates, curve.points);
    return curve;
  }

  void add_point() {
    const bool known = !curve_.points().empty() && curve_.points().back().update == version_;
    if (known) return;
    const Seconds time = next_row_ == 0 ? Seconds(0) : run_.updates[next_row_ - 1].applied;
    curve_.add_point(version_, time, score_all(pool_, server_.snapshot(), data_));
    keep();
  }

  /// Every gradient that the log says is computed from the parameters as they are now.
  void compute_from_now() {
    const auto now = server_.snapshot();
    for (; next_read_ < by_read_.size(); ++next_read_) {
      const std::size_t row = by_read_[next_read_];
      const AppliedUpdate& update = run_.updates[row];
      if (update.version_read != version_) return;
      pending_[row] = {
          pool_.submit<Replica::Sent>([this, now, batches = batches_of(update)](Replica& replica) {
            return replica.train(*now, data_, batches, worker_part(options_.training));
          }),
          sgd_.delay_compensation != 0 ? now : nullptr};
    }
  }

  std::vector<std::vector<std::uint32_t>> batches_of(const AppliedUpdate& update) {
    const std::uint64_t steps = options_.training.mitigation.local_steps;
    std::vector<std::vector<std::uint32_t>> batches;
    for (std::uint64_t step = 0; step < steps; ++step)
      batches.push_back(orders_[update.worker].batch(update.iteration * steps + step));
    return batches;
  }

  void apply_next() {
    std::vector<Replica::Sent> sent;
    std::vector<StaleGradient> gradients;
    std::vector<std::shared_ptr<const Values>> read;
    const std::size_t first = next_row_;
    for (; next_row_ < run_.updates.size() && run_.updates[next_row_].version_applied == version_;
         ++next_row_) {
      auto pending = pending_.extract(next_row_);
      sent.push_back(pending.mapped().sent.get());
      read.push_back(pending.mapped().read);
    }
    for (std::size_t i = 0; i < sent.size(); ++i) {
      curve_.add_gradient(sent[i].loss, samples_of_row(options_.training));
      gradients.push_back(
          {sent[i].gradient, run_.updates[first + i].staleness(),
           read[i] ? std::span<const std::byte>(*read[i]) : std::span<const std::byte>()});
    }
    server_.apply(gradients);
  }

  /// What is replayed: a state of anything else is of no use.
  std::string description() const {
    const TrainingOptions& training = options_.training;
    return fmt::format(
        "{} on {} ({}), batch {}, learning rate {}, momentum {}, weight decay {}, {} local steps, "
        "{}, staleness-aware {}, momentum correction {}, delay compensation {}, seed {}, a point "
        "every "
        "{} of {} updates, log {:016x}, data {:016x}, LibTorch {}",
        training.model, data_.name, data_.split, training.batch, training.learning_rate,
        training.momentum, training.weight_decay, training.mitigation.local_steps,
        outer_words(training.mitigation), training.mitigation.staleness_aware,
        training.mitigation.momentum_correction, training.mitigation.delay_compensation,
        training.seed, every_, end_, digest_of(run_.updates), digest_of(data_), TORCH_VERSION);
  }

  void keep() {
    if (options_.state.empty()) return;
    ReplayState state{version_, *server_.snapshot(), server_.velocity(), {}, curve_.state()};
    for (auto& [row, pending] : pending_) {
      Replica::Sent sent = pending.sent.get();
      state.pending.push_back(
          {row, sent.loss, sent.gradient, pending.read ? *pending.read : Values{}});
      std::promise<Replica::Sent> again;
      again.set_value(std::move(sent));
      pending.sent = again.get_future();
    }
    write_state(options_.state, description(), state);
  }

  void go_on() {
    if (options_.state.empty()) return;
    const auto state = read_state(options_.state, description());
    if (!state) return;
    version_ = state->version;
    server_ = SgdParameters(ElementType::float32, state->parameters, sgd_);
    server_.set_velocity(state->velocity);
    curve_.go_on_from(state->curve);
    for (const PendingGradient& one : state->pending) {
      std::promise<Replica::Sent> sent;
      sent.set_value({one.gradient, one.loss});
      pending_[one.row] = {sent.get_future(), std::make_shared<const Values>(one.read)};
    }
    const auto before = [&](std::uint64_t version) { return version < version_; };
    next_row_ = static_cast<std::size_t>(
        std::ranges::find_if_not(run_.updates, before, &AppliedUpdate::version_applied) -
        run_.updates.begin());
    next_read_ = static_cast<std::size_t>(
        std::ranges::find_if_not(by_read_, before,
                                 [&](std::size_t row) { return run_.updates[row].version_read; }) -
        by_read_.begin());
  }

  RunUpdates run_;
  const Dataset& data_;
  const ReplayOptions& options_;
  SgdOptions sgd_;
  std::vector<ShardOrder> orders_;    ///< by worker
  std::vector<std::size_t> by_read_;  ///< rows of the log in the order of what they read
  std::map<std::size_t, Pending> pending_;
  ReplicaPool pool_;
  SgdParameters server_;
  CurveBuilder curve_;
  std::uint64_t version_ = 0, end_ = 0, every_ = 1;
  std::size_t next_row_ = 0, next_read_ = 0;
};

}  // namespace

std::uint64_t samples_of_row(const TrainingOptions& training) {
  return training.batch * training.mitigation.local_steps;
}

std::optional<Curve> replay(const RunUpdates& run, const Dataset& data,
                            const ReplayOptions& options) {
  return Replay(run, data, options).play();
}

}  // namespace rehearse::inline calibrate
