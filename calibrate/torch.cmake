# LibTorch as the target `torch`: of Torch_DIR where it is given (in the environment, too), else of
# the active Python, else Debian's. Sets REHEARSE_TORCH_CUDA where it computes on GPUs. A build
# folder keeps the LibTorch that it began with.
if(NOT Torch_DIR AND NOT "$ENV{Torch_DIR}" STREQUAL "")
  set(Torch_DIR $ENV{Torch_DIR} CACHE PATH "The folder of LibTorch's TorchConfig.cmake" FORCE)
elseif(NOT Torch_DIR)
  find_program(REHEARSE_PYTHON NAMES python3 python)
  if(REHEARSE_PYTHON)
    execute_process(COMMAND ${REHEARSE_PYTHON} -c
      "import torch; print(torch.utils.cmake_prefix_path)"
      OUTPUT_VARIABLE python_torch OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
  if(python_torch)
    set(Torch_DIR ${python_torch}/Torch CACHE PATH "The folder of LibTorch's TorchConfig.cmake"
      FORCE)
  endif()
endif()
# tests/calibrate, a folder beside this one, links it too.
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)
if(Torch_DIR)
  get_filename_component(torch_root ${Torch_DIR}/../../.. ABSOLUTE)
endif()

if(torch_root AND EXISTS ${torch_root}/lib/libtorch_cuda.so)
  set(REHEARSE_TORCH_CUDA ON)
  include(cuda_torch.cmake)
else()
  set(REHEARSE_TORCH_CUDA OFF)
  # LibTorch's own CMake looks for its libraries in the system's folders first, where another
  # version may be.
  list(PREPEND CMAKE_PREFIX_PATH ${torch_root})
  find_package(Torch REQUIRED)
endif()
message(STATUS "The calibrator is built with the LibTorch of ${Torch_DIR}")

# Pip's LibTorch has the headers of a {fmt} of its own among its headers, and they come first:
# header-only there, so that they are not linked with the system's library of another version.
find_path(REHEARSE_TORCH_FMT fmt/base.h PATHS ${TORCH_INCLUDE_DIRS} NO_DEFAULT_PATH)
if(REHEARSE_TORCH_FMT)
  target_compile_definitions(torch INTERFACE FMT_HEADER_ONLY)
endif()
# LibTorch's packages are built with NDEBUG; classes of theirs (at::RecordFunction) are laid out
# otherwise without it.
target_compile_definitions(torch INTERFACE NDEBUG)
