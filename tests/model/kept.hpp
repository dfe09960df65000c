#pragma once

#include <algorithm>

#include "model/memory_tape.hpp"

namespace rehearse {

/// Bytes that a unit's forward takes and leaves, less what it gives back of earlier units'.
inline double kept_by(const MemoryTape& tape, std::size_t unit) {
  double live = 0;
  for (const TapeEvent& event : tape.units.at(unit).forward) {
    live += (event.takes ? 1 : -1) * tape.tensors.at(event.tensor).size.value();
  }
  return live;
}

/// Bytes that live when forward is over.
inline double kept(const MemoryTape& tape) {
  double live = 0;
  for (std::size_t unit = 0; unit < tape.units.size(); ++unit) live += kept_by(tape, unit);
  return live;
}

/// The most bytes that live at once.
inline double live_peak(const MemoryTape& tape) {
  double live = 0, most = 0;
  const auto play = [&](const std::vector<TapeEvent>& events) {
    for (const TapeEvent& event : events) {
      live += (event.takes ? 1 : -1) * tape.tensors.at(event.tensor).size.value();
      most = std::max(most, live);
    }
  };
  for (const UnitTape& unit : tape.units) play(unit.forward);
  for (auto unit = tape.units.rbegin(); unit != tape.units.rend(); ++unit) play(unit->backward);
  return most;
}

}  // namespace rehearse
