#pragma once

// The header that LibTorch generates where it is built with CUDA.
#define C10_CUDA_BUILD_SHARED_LIBS
