#pragma once

// See cublas_v2.h.
#include <cusolver_common.h>

struct cusolverDnContext;
using cusolverDnHandle_t = cusolverDnContext*;
