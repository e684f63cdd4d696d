# CUDA for another processor (cmake/aarch64.cmake). nvcc compiles for all of them; the runtime that is linked is the target's.
# Included by Cuda.cmake, before the language is enabled.
set(FORESHOCK_CUDA_TARGET "" CACHE PATH
  "folder with include and lib of the target's CUDA runtime: targets/sbsa-linux of a toolkit, or nvidia/cu13 of PyPI's aarch64 wheels")
set(_cuda_target ${FORESHOCK_CUDA_TARGET})
if(NOT _cuda_target)
  set(_cuda_target /usr/local/cuda/targets/sbsa-linux)
endif()
if(NOT EXISTS ${_cuda_target}/lib/libcudart_static.a)
  _foreshock_no_cuda("no libcudart_static.a for ${CMAKE_SYSTEM_PROCESSOR} in ${_cuda_target}/lib (FORESHOCK_CUDA_TARGET; docs/sdk.md)")
endif()

# nvcc itself would look below targets/aarch64-linux of its own toolkit, which need not be there. A header that comes with nvcc
# (fatbinary_section.h) is in no package of the runtime; it is the same for every processor.
find_program(_nvcc NAMES "${CMAKE_CUDA_COMPILER}" "$ENV{CUDACXX}" nvcc NO_CACHE)
get_filename_component(_nvcc "${_nvcc}" REALPATH)
get_filename_component(_nvcc "${_nvcc}" DIRECTORY)
set(ENV{CUDAFLAGS} "$ENV{CUDAFLAGS} -I${_cuda_target}/include -isystem ${_cuda_target}/include/cccl -I${_nvcc}/../include -L${_cuda_target}/lib")
# find_package(CUDAToolkit) would look there, too.
set(CUDA_CUDART ${_cuda_target}/lib/libcudart_static.a)
set(CUDA_cudart_static_LIBRARY ${CUDA_CUDART})
