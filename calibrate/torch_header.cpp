// Compiled only so that the precompiled header of torch/torch.h has a target to belong to.
#include <torch/torch.h>
