#include "train/timed_group.hpp"

#include <fmt/format.h>

namespace rehearse::inline calibrate {
namespace {

using Tensors = std::vector<torch::Tensor>;

/// A collective whose end has been noted when anybody learns of it.
class TimedWork : public c10d::Work {
 public:
  TimedWork(rehearse::Work work, StepRecorder::Future noted)
      : work_(std::move(work)), noted_(std::move(noted)) {}

  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return noted_; }
  bool wait(std::chrono::milliseconds timeout) override {
    noted_->waitAndThrow();
    return work_->wait(timeout);
  }

 private:
  rehearse::Work work_;  ///< keeps the tensors
  StepRecorder::Future noted_;
};

class TimedGroup : public c10d::ProcessGroup {
 public:
  TimedGroup(rehearse::ProcessGroup group, StepRecorder& recorder)
      : c10d::ProcessGroup(group->getRank(), group->getSize()),
        group_(std::move(group)),
        recorder_(recorder) {}

  /// Not the group's own: c10d's Logger takes a group of that name for LibTorch's class.
  const std::string getBackendName() const override { return "timed " + group_->getBackendName(); }

  rehearse::Work allreduce(Tensors& buckets, const c10d::AllreduceOptions& options) override {
    Bytes size;
    for (const torch::Tensor& bucket : buckets) size += Bytes(static_cast<double>(bucket.nbytes()));
    const std::size_t number = recorder_.launch(
        CollectiveKind::all_reduce, fmt::format("bucket {}", recorder_.launched()), size);
    const rehearse::Work work = group_->allreduce(buckets, options);
    return c10::make_intrusive<TimedWork>(work, recorder_.watch(number, work->getFuture()));
  }

  /// Of the order of the buckets, after the first step.
  rehearse::Work broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    return group_->broadcast(tensors, options);
  }

 private:
  rehearse::ProcessGroup group_;
  StepRecorder& recorder_;
};

}  // namespace

ProcessGroup make_timed_group(const ProcessGroup& group, StepRecorder& recorder) {
  return c10::make_intrusive<TimedGroup>(group, recorder);
}

}  // namespace rehearse::inline calibrate
