# Builds for Linux of glibc 2.28, whatever glibc this machine has: by Zig's clang, its libc++ and
# its stubs of the C library. `package` sets REHEARSE_ZIG, the folder of its compilers, and
# REHEARSE_ZIG_PREFIX, of libraries built by them.
set(CMAKE_SYSTEM_NAME Linux) # not this system: SimGrid adds /usr/include where it is
set(CMAKE_SYSTEM_PROCESSOR $ENV{REHEARSE_ZIG_PROCESSOR})
set(CMAKE_C_COMPILER $ENV{REHEARSE_ZIG}/cc)
set(CMAKE_CXX_COMPILER $ENV{REHEARSE_ZIG}/c++)
set(CMAKE_AR $ENV{REHEARSE_ZIG}/ar CACHE FILEPATH "")
set(CMAKE_RANLIB $ENV{REHEARSE_ZIG}/ranlib CACHE FILEPATH "")
# Programs that are built to find something out run here, where the processor is this one.
if(CMAKE_SYSTEM_PROCESSOR STREQUAL CMAKE_HOST_SYSTEM_PROCESSOR)
  set(CMAKE_CROSSCOMPILING_EMULATOR /usr/bin/env)
endif()
# Boost 1.74 has std::unary_function, which libc++ has for C++14 alone.
set(CMAKE_CXX_FLAGS_INIT "-D_LIBCPP_ENABLE_CXX17_REMOVED_UNARY_BINARY_FUNCTION")
set(CMAKE_FIND_ROOT_PATH $ENV{REHEARSE_ZIG_PREFIX})
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
