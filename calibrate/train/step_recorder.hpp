#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "comm/process_group.hpp"
#include "measure/device.hpp"
#include "train/memory_watch.hpp"
#include "train/step_record.hpp"

namespace rehearse::inline calibrate {

/// Takes the times and the memory of one step after the other. Marks may come from any thread, as
/// collectives end on the back end's own.
class StepRecorder {
 public:
  using Future = c10::intrusive_ptr<c10::ivalue::Future>;
  enum class Phase { forward, backward, optimizer, waiting };

  explicit StepRecorder(MeasuredDevice& device) : device_(device), memory_(device) {}

  /// Begins a step: forgets the one before.
  void begin();
  /// The watch that is to be told of the step's parts.
  MemoryWatch& memory() { return memory_; }
  /// A moment of the step.
  std::size_t mark();
  /// Adds the time between two moments to a phase.
  void add(Phase phase, std::size_t from, std::size_t to);
  /// Does `work` and counts it as `phase`.
  template <class Work>
  void time(Phase phase, Work&& work) {
    const auto from = mark();
    work();
    add(phase, from, mark());
  }

  /// A collective begins now. Give its number to watch().
  std::size_t launch(CollectiveKind kind, std::string what, Bytes size);
  /// Notes when the collective is done. Wait for the future that is returned: the one given wakes
  /// those that wait for it before it has been noted.
  Future watch(std::size_t collective, const Future& future);
  /// How many the step has launched so far.
  std::size_t launched();
  /// The moment of the last launch; none before the first.
  std::optional<std::size_t> last_launch();

  /// Ends the step: every collective is done by now.
  StepRecord finish();

 private:
  struct Interval {
    Phase phase;
    std::size_t from, to;
  };
  struct Running {
    CollectiveKind kind;
    std::string what;
    Bytes size;
    std::size_t launched;
    std::optional<std::size_t> done;
  };

  MeasuredDevice& device_;
  MemoryWatch memory_;
  std::mutex mutex_;
  std::size_t begun_ = 0;
  WireBytes wire_;
  std::vector<Interval> intervals_;
  std::vector<Running> collectives_;
};

}  // namespace rehearse::inline calibrate
