#include "measure/device.hpp"

namespace rehearse {

std::unique_ptr<MeasuredDevice> make_cuda_device() { return nullptr; }

}  // namespace rehearse
