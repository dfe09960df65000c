#pragma once

#include "strategy/program_builder.hpp"

namespace rehearse::inline strategy {

/// Before the first step: the parameters one by one, and their copies in 8 or 4 bits.
void hold_parameters(ProgramBuilder& builder);
/// What every strategy holds of a model beside parameters: buffers, a batch, cuBLAS's workspace.
void hold_surroundings(ProgramBuilder& builder, Bytes buffer_element = Bytes(4));

}  // namespace rehearse::inline strategy
