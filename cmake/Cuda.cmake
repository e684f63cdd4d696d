# CUDA in the build. FORESHOCK_CUDA=AUTO (a machine with nvcc builds it), ON (required) or OFF. Afterwards
# FORESHOCK_WITH_CUDA says what was decided, and the configure step has said why in one line.
#
# The runtime is linked statically, so that a binary runs (on the CPU backend) where there is no driver. Never -lcuda.
set(FORESHOCK_CUDA AUTO CACHE STRING "build the CUDA backend: AUTO, ON or OFF")
set_property(CACHE FORESHOCK_CUDA PROPERTY STRINGS AUTO ON OFF)
# One architecture and PTX, which also compiles the portable kernels: quick, for developers and CI. The release preset
# has them all.
set(FORESHOCK_CUDA_ARCHITECTURES "90a-real;80-virtual" CACHE STRING "CUDA architectures, as CMAKE_CUDA_ARCHITECTURES")

set(FORESHOCK_WITH_CUDA OFF)

# Leaves this file with the CPU backend only, or fails when CUDA was required.
macro(_foreshock_no_cuda reason)
  if(FORESHOCK_CUDA STREQUAL "ON")
    message(FATAL_ERROR "FORESHOCK_CUDA=ON: ${reason}")
  endif()
  message(STATUS "CUDA: ${reason}: CPU backend only")
  return()
endmacro()

if(FORESHOCK_CUDA STREQUAL "OFF")
  message(STATUS "CUDA: off (FORESHOCK_CUDA=OFF): CPU backend only")
  return()
endif()
if(FORESHOCK_SANITIZE)
  _foreshock_no_cuda("not with the host sanitizers, compute-sanitizer checks kernels")
endif()

include(CheckLanguage)
if(NOT CMAKE_CUDA_COMPILER AND EXISTS /usr/local/cuda/bin/nvcc AND NOT DEFINED ENV{CUDACXX})
  find_program(FORESHOCK_NVCC nvcc HINTS /usr/local/cuda/bin)
  if(FORESHOCK_NVCC)
    set(CMAKE_CUDA_COMPILER ${FORESHOCK_NVCC})
  endif()
endif()
set(CMAKE_CUDA_ARCHITECTURES ${FORESHOCK_CUDA_ARCHITECTURES})
set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
if(CMAKE_CROSSCOMPILING)
  include(${CMAKE_CURRENT_LIST_DIR}/CudaCross.cmake)
endif()
if(NOT CMAKE_CUDA_COMPILER)
  unset(CMAKE_CUDA_COMPILER CACHE)  # that none was found before is no reason not to look again
endif()
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  _foreshock_no_cuda("no nvcc that works; set CUDACXX to it")
endif()
enable_language(CUDA)
# CMake 3.25.1, Debian 12's, sets a property of this target, which toolkits of today do not have.
if(NOT TARGET CUDA::nvToolsExt)
  add_library(CUDA::nvToolsExt INTERFACE IMPORTED)
endif()
find_package(CUDAToolkit QUIET)
if(NOT CUDAToolkit_FOUND OR CUDAToolkit_VERSION VERSION_LESS 13)
  _foreshock_no_cuda("needs the CUDA 13 toolkit, found '${CUDAToolkit_VERSION}'")
endif()

set(FORESHOCK_WITH_CUDA ON)
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
if(CCACHE_PROGRAM)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()
# No --use_fast_math: NaN, infinity and denormals are values. CMake 3.25 knows nvcc's C++20 by no other name than this.
string(APPEND CMAKE_CUDA_FLAGS " -std=c++20 -Xcompiler=-fvisibility=hidden,-Wall,-Wextra --expt-relaxed-constexpr")
if(FORESHOCK_WERROR)
  string(APPEND CMAKE_CUDA_FLAGS " -Werror=all-warnings")
endif()
message(STATUS "CUDA: ${CUDAToolkit_VERSION}, architectures ${CMAKE_CUDA_ARCHITECTURES}")
