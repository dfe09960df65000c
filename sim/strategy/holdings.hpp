#pragma once

#include "strategy/program_builder.hpp"

namespace rehearse::inline strategy {

/// Before the first step: the parameters one by one, and their copies in 8 or 4 bits. With
/// `narrow_alone` weights that have such copies are kept as these alone.
void hold_parameters(ProgramBuilder& builder, bool narrow_alone = false);
/// What every strategy holds of a model beside parameters: buffers, a batch, cuBLAS's workspace.
void hold_surroundings(ProgramBuilder& builder, Bytes buffer_element = Bytes(4));

}  // namespace rehearse::inline strategy
