# LibTorch for GPUs, as pip installs it: the target `torch` over its libraries and headers.
# LibTorch's own CMake files would want every library of the CUDA toolkit, and its compiler; only
# the runtime's headers are needed here, of the toolkit or of the nvidia-* packages beside LibTorch,
# which also have NCCL.
set(TORCH_INCLUDE_DIRS ${torch_root}/include ${torch_root}/include/torch/csrc/api/include)
find_package(CUDAToolkit QUIET)
file(GLOB nvidia_headers ${torch_root}/../nvidia/*/include)
file(GLOB nvidia_libraries ${torch_root}/../nvidia/*/lib)

# rehearse_cuda_headers VARIABLE FILE PACKAGE: the folder of a header, which a package or the
# toolkit brings.
function(rehearse_cuda_headers variable file package)
  find_path(${variable} ${file} PATHS ${CUDAToolkit_INCLUDE_DIRS} ${nvidia_headers} NO_DEFAULT_PATH)
  if(NOT ${variable})
    message(FATAL_ERROR
      "${file} is missing, which LibTorch for GPUs is compiled with: install ${package}, or give "
      "the Torch_DIR of a LibTorch for CPUs")
  endif()
endfunction()
rehearse_cuda_headers(REHEARSE_CUDA_RUNTIME crt/host_defines.h "the CUDA toolkit")
rehearse_cuda_headers(REHEARSE_NCCL nccl.h "NVIDIA's NCCL for the same CUDA version")
find_library(REHEARSE_CUDART NAMES libcudart.so.13 libcudart.so.12 libcudart.so.11.0 libcudart.so
  PATHS ${nvidia_libraries} ${CUDAToolkit_LIBRARY_DIR} NO_DEFAULT_PATH REQUIRED)
set(cuda_include_dirs ${REHEARSE_CUDA_RUNTIME} ${REHEARSE_NCCL} ${nvidia_headers})
# LibTorch's headers name the handles of libraries that are not called: declared where their headers
# are not installed.
find_path(REHEARSE_CUBLAS_HEADERS cublas_v2.h PATHS ${cuda_include_dirs} NO_DEFAULT_PATH)
if(NOT REHEARSE_CUBLAS_HEADERS)
  list(APPEND cuda_include_dirs ${CMAKE_CURRENT_SOURCE_DIR}/compat/cuda_declarations)
endif()

add_library(torch INTERFACE IMPORTED GLOBAL)
target_include_directories(torch INTERFACE ${TORCH_INCLUDE_DIRS} ${cuda_include_dirs})
target_compile_definitions(torch INTERFACE USE_C10D_GLOO USE_C10D_NCCL)
# A linker that drops what is not called would drop the GPU's half, which registers itself. Where
# the libraries that it needs in its turn are not installed, as on a machine without a GPU, the
# program links all the same.
target_link_libraries(torch INTERFACE
  -Wl,--no-as-needed ${torch_root}/lib/libtorch.so ${torch_root}/lib/libtorch_cuda.so
  ${torch_root}/lib/libc10_cuda.so ${torch_root}/lib/libtorch_cpu.so ${torch_root}/lib/libc10.so
  -Wl,--as-needed
  ${REHEARSE_CUDART} -Wl,--allow-shlib-undefined)
