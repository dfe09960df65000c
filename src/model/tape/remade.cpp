#include "model/tape/remade.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace rehearse::inline model {
namespace {

class Remaker {
 public:
  Remaker(MemoryTape& tape, UnitTape& unit) : tape_(tape), unit_(unit) {}

  void run() {
    for (const TapeEvent& event : unit_.forward)
      (event.takes ? taken_ : given_)[event.tensor] = true;
    for (const TapeEvent& event : unit_.backward)
      if (!event.takes) given_back_[event.tensor] = true;
    std::vector<TapeEvent> forward, ends, again;
    for (const TapeEvent& event : unit_.forward) {
      const TapeTensor& tensor = tape_.tensors[event.tensor];
      if (tensor.kept && !event.takes) {
        again.push_back(event);  // its readers have run again
        continue;
      }
      forward.push_back(event);
      if (!is_made_again(event.tensor)) continue;
      again.push_back({copy_of(event.tensor), event.takes});
      if (event.takes && !given_.contains(event.tensor)) ends.push_back({event.tensor, false});
    }
    if (again.empty()) return;
    forward.insert(forward.end(), ends.begin(), ends.end());
    for (const TapeEvent& event : unit_.backward)
      again.push_back(
          {is_made_again(event.tensor) ? copy_of(event.tensor) : event.tensor, event.takes});
    unit_.forward = std::move(forward);
    unit_.backward = std::move(again);
  }

 private:
  /// Within this unit: what it hands on stays, and so does what autocast has cached.
  bool is_made_again(std::uint32_t id) const {
    const TapeTensor& tensor = tape_.tensors[id];
    return tensor.remade && tensor.role != TensorRole::autocast_copy && taken_.contains(id) &&
           (given_.contains(id) || given_back_.contains(id));
  }

  std::uint32_t copy_of(std::uint32_t id) {
    const auto [entry, is_new] =
        copies_.emplace(id, static_cast<std::uint32_t>(tape_.tensors.size()));
    if (is_new) tape_.tensors.push_back(tape_.tensors[id]);
    return entry->second;
  }

  MemoryTape& tape_;
  UnitTape& unit_;
  std::map<std::uint32_t, bool> taken_, given_, given_back_;
  std::map<std::uint32_t, std::uint32_t> copies_;
};

}  // namespace

void make_again(MemoryTape& tape) {
  const auto marked = [](const TapeTensor& tensor) { return tensor.remade || tensor.kept; };
  if (std::ranges::none_of(tape.tensors, marked)) return;
  for (UnitTape& unit : tape.units) Remaker(tape, unit).run();
}

}  // namespace rehearse::inline model
