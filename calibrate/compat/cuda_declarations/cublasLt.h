#pragma once

// See cublas_v2.h.
struct cublasLtContext;
using cublasLtHandle_t = cublasLtContext*;
