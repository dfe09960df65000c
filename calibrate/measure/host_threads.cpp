#include "measure/host_threads.hpp"

#include <ATen/Parallel.h>
#include <dlfcn.h>

namespace rehearse::inline calibrate {

void set_host_threads(int threads) {
  if (threads > 0) at::set_num_threads(threads);
  // OpenBLAS with threads of its own (Debian's) does not hear of LibTorch's number.
  using SetThreads = void (*)(int);
  void* symbol = dlsym(RTLD_DEFAULT, "openblas_set_num_threads");
  if (symbol != nullptr) reinterpret_cast<SetThreads>(symbol)(host_threads());
}

int host_threads() { return at::get_num_threads(); }

}  // namespace rehearse::inline calibrate
