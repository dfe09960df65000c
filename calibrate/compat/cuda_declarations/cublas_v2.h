#pragma once

// Declarations of what LibTorch's headers mention of cuBLAS, cuSPARSE and cuSOLVER, for machines
// that have LibTorch for GPUs without these libraries' headers. Nothing here is ever defined or
// called.
struct cublasContext;
using cublasHandle_t = cublasContext*;
enum cublasStatus_t : int;
