#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "comm/process_group.hpp"
#include "train/gather_stream.hpp"
#include "train/step_recorder.hpp"

namespace rehearse::inline calibrate {

/// The parameters of one FSDP unit in one flat buffer, padded to a multiple of the ranks. Each rank
/// keeps its slice, the shard; the whole buffer has memory only between gather and reshard.
class FlatUnit {
 public:
  /// Takes the parameters over: from now on they are views of the buffer, which begins resharded.
  FlatUnit(std::string name, std::vector<torch::Tensor> parameters, ProcessGroup group,
           GatherStream& gathers, StepRecorder& recorder);
  FlatUnit(const FlatUnit&) = delete;
  FlatUnit& operator=(const FlatUnit&) = delete;

  /// The leaf that an optimizer updates, and that reduce() gives its gradient.
  const torch::Tensor& shard() const { return shard_; }
  const std::vector<torch::Tensor>& parameters() const { return parameters_; }

  /// Launches the all_gather of the parameters, unless they are there or on their way.
  void start_gather();
  /// Waits until the parameters are there; launches the all_gather where nobody did.
  void finish_gather();
  /// Frees the parameters, where they are there or on their way.
  void reshard();

  /// Launches the reduce_scatter of the parameters' gradients, which it takes away. A parameter
  /// without gradient counts as 0.
  void start_reduce();
  /// Waits for it, and adds the mean over ranks to the shard's gradient.
  void finish_reduce();

  /// The whole content of what every rank has a shard of, cut into the parameters' shapes.
  std::vector<torch::Tensor> gather_copies(const torch::Tensor& shard);

 private:
  /// A collective under way. The future's end is recorded; the work holds tensors until waited for.
  struct Pending {
    StepRecorder::Future done;
    Work work;
  };

  Bytes size() const { return Bytes(static_cast<double>(padded_ * shard_.element_size())); }
  torch::Tensor take_gradients();
  Pending launch(CollectiveKind kind, const std::function<Work()>& collective);
  Work launch_reduce();
  void wait_for(std::optional<Pending>& pending);

  std::string name_;
  std::vector<torch::Tensor> parameters_;
  ProcessGroup group_;
  GatherStream& gathers_;
  StepRecorder& recorder_;
  std::int64_t elements_ = 0;
  std::int64_t padded_ = 0;
  torch::Tensor whole_, shard_;
  bool gathered_ = false;
  std::optional<Pending> gather_, reduction_;
  torch::Tensor sent_gradients_, received_gradients_;  ///< alive while the reduce_scatter runs
};

}  // namespace rehearse::inline calibrate
