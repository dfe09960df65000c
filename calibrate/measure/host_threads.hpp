#pragma once

namespace rehearse::inline calibrate {

/// Threads that one CPU operation may use, in LibTorch and in its BLAS; 0 leaves LibTorch's choice.
void set_host_threads(int threads);
int host_threads();

}  // namespace rehearse::inline calibrate
