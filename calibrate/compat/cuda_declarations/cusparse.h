#pragma once

// See cublas_v2.h.
struct cusparseContext;
using cusparseHandle_t = cusparseContext*;
enum cusparseStatus_t : int;
