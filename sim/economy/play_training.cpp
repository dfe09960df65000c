#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>

#include "base/error.hpp"
#include "economy/goodput.hpp"

namespace rehearse::inline economy {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// One training, from event to event: a failure, a repaired node that joins again, the end. All
/// checkpoints between two events are counted at once.
class Training {
 public:
  Training(const Interruptions& job, Seconds interval, const std::function<double()>& next,
           double most_failures)
      : job_(job),
        interval_(interval.value()),
        write_(job.write.value()),
        next_(next),
        most_failures_(most_failures),
        left_(job.work.value()),
        running_(job.nodes),
        spares_(job.spares) {
    if (job.nodes > 1) {
      exponent_ = std::log(job.speed_without_one) / std::log((job.nodes - 1.0) / job.nodes);
    }
    draw_failure();
  }

  TrainingTimes play() {
    while (true) {
      const double failure = until_failure(), back = until_node_is_back();
      if (time_to_end() <= std::min(failure, back)) break;
      if (failure <= back) {
        fail_after(failure);
        recover(job_.recovery().value());
      } else {
        pause_after(back);
        recover((job_.write + job_.restart + job_.read).value());
      }
    }
    end();
    times_.total = Seconds(now_);
    return times_;
  }

 private:
  // --- what passes

  double speed() const {
    return running_ == job_.nodes ? 1
                                  : std::pow(static_cast<double>(running_) / job_.nodes, exponent_);
  }
  /// Of training alone, at the speed of now.
  double training_left() const { return left_ / speed(); }
  double checkpoints_left() const {
    constexpr double kRoundOff = 1e-9;
    return std::max(1.0, std::ceil(training_left() / interval_ - kRoundOff));
  }
  double time_to_end() const {
    return training_left() + write_ * (job_.asynchronous ? 1 : checkpoints_left());
  }
  double until_failure() const { return failure_in_ / running_; }
  double until_node_is_back() const {
    const bool joins = job_.on_failure == OnFailure::continue_with_fewer;
    return joins && !repairs_.empty() ? std::max(0.0, repairs_.top() - now_) : kNever;
  }

  void pass(double time) {
    now_ += time;
    failure_in_ -= time * running_;
    times_.node_time += Seconds(time * running_);
  }

  void train(double time) {
    left_ = std::max(0.0, left_ - time * speed());
    times_.slower += Seconds(time * (1 - speed()));
  }

  // --- what happens

  void end() {
    const double time = time_to_end(), training = training_left();
    times_.written += checkpoints_left();
    times_.checkpoints += Seconds(time - training);
    pass(time);
    train(training);
  }

  /// Training goes back to the last checkpoint that was whole.
  void fail_after(double time) {
    const double cycle = interval_ + (job_.asynchronous ? 0 : write_);
    const double written =
        std::max(0.0, std::floor((time - (job_.asynchronous ? write_ : 0)) / cycle));
    times_.written += written;
    times_.checkpoints += Seconds(written * (cycle - interval_));
    times_.lost += Seconds(time - written * cycle);
    pass(time);
    train(written * interval_);
    lose_node();
  }

  /// Nothing is lost: a checkpoint is written before the job starts again with one node more.
  void pause_after(double time) {
    const double cycle = interval_ + (job_.asynchronous ? 0 : write_);
    const double written = std::floor(time / cycle);
    const double training = job_.asynchronous
                                ? std::min(time, training_left())
                                : written * interval_ + std::min(time - written * cycle, interval_);
    times_.written += written + 1;
    times_.checkpoints += Seconds(time - training);
    pass(time);
    train(training);
    repairs_.pop();
    ++running_;
  }

  void recover(double time) {
    while (until_failure() < time) {
      const double struck = until_failure();
      times_.recovery += Seconds(struck);
      pass(struck);
      lose_node();
      time = job_.recovery().value();
    }
    times_.recovery += Seconds(time);
    pass(time);
  }

  void lose_node() {
    times_.failures += 1;
    if (times_.failures > most_failures_) stop();
    draw_failure();
    if (job_.on_failure == OnFailure::restart) return;
    repairs_.push(now_ + job_.repair.value());
    if (job_.on_failure == OnFailure::continue_with_fewer) {
      --running_;
      if (running_ > 0) return;
      wait_for_node();
      running_ = 1;
      return;
    }
    for (; repairs_.top() <= now_; repairs_.pop()) ++spares_;
    if (spares_ > 0) {
      --spares_;
    } else {
      wait_for_node();
    }
  }

  /// Nodes that wait do not fail, and belong to the job.
  void wait_for_node() {
    const double time = std::max(0.0, repairs_.top() - now_);
    repairs_.pop();
    times_.waiting += Seconds(time);
    times_.node_time += Seconds(time * running_);
    now_ += time;
  }

  void draw_failure() {
    const bool never = std::isinf(job_.mean_life.value());
    failure_in_ = never ? kNever : next_() * job_.mean_life.value();
  }

  [[noreturn]] void stop() const {
    throw StuckError(fmt::format(
        "failures: the training does not come to its end: after {:.0f} failures {} of {} is left. "
        "The job fails every {} on average; a recovery takes {}, a checkpoint {}",
        times_.failures, format(Seconds(left_)), format(job_.work),
        format(job_.mean_time_between_failures()), format(job_.recovery()), format(job_.write)));
  }

  const Interruptions& job_;
  const double interval_, write_;
  const std::function<double()>& next_;
  const double most_failures_;
  double exponent_ = 0;  ///< of the share of the nodes, in the speed

  double now_ = 0;
  double left_;            ///< of the work
  int running_;            ///< nodes
  double failure_in_ = 0;  ///< node-seconds
  int spares_;
  std::priority_queue<double, std::vector<double>, std::greater<>> repairs_;  ///< their ends
  TrainingTimes times_;
};

}  // namespace

TrainingTimes play_training(const Interruptions& job, Seconds interval,
                            const std::function<double()>& next, double most_failures) {
  check(job.nodes > 0 && interval > Seconds(0), "a training of no nodes, or without an interval");
  return Training(job, interval, next, most_failures).play();
}

}  // namespace rehearse::inline economy
