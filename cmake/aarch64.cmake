# A toolchain: what runs on aarch64 Linux (Grace-Hopper, Grace-Blackwell), compiled on another machine.
#
#   cmake --preset sdk-only -B build-aarch64 --toolchain cmake/aarch64.cmake
#
# Debian 12: g++-aarch64-linux-gnu; with qemu-user-static ctest runs the tests, emulated. FORESHOCK_AARCH64_ROOT: a folder with an
# aarch64 system's libraries and headers where those of the compiler do not do.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(FORESHOCK_AARCH64_ROOT "" CACHE PATH "an aarch64 system's folder; empty: the compiler's own libraries alone")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES FORESHOCK_AARCH64_ROOT)

# Debian's package of one version alone (g++-12-aarch64-linux-gnu) has no name without it.
find_program(CMAKE_C_COMPILER NAMES aarch64-linux-gnu-gcc aarch64-linux-gnu-gcc-14 aarch64-linux-gnu-gcc-13 aarch64-linux-gnu-gcc-12)
find_program(CMAKE_CXX_COMPILER NAMES aarch64-linux-gnu-g++ aarch64-linux-gnu-g++-14 aarch64-linux-gnu-g++-13 aarch64-linux-gnu-g++-12)
if(NOT CMAKE_C_COMPILER OR NOT CMAKE_CXX_COMPILER)
  message(FATAL_ERROR "no compiler for aarch64. Debian 12: apt install g++-aarch64-linux-gnu")
endif()

if(FORESHOCK_AARCH64_ROOT)
  set(CMAKE_SYSROOT ${FORESHOCK_AARCH64_ROOT})
  set(ENV{PKG_CONFIG_SYSROOT_DIR} ${FORESHOCK_AARCH64_ROOT})
  set(ENV{PKG_CONFIG_LIBDIR} ${FORESHOCK_AARCH64_ROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${FORESHOCK_AARCH64_ROOT}/usr/share/pkgconfig)
  set(_emulated_root ${FORESHOCK_AARCH64_ROOT})
else()
  list(APPEND CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
  set(_emulated_root /usr/aarch64-linux-gnu)
endif()
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE BOTH)  # protozero is headers alone, the same for every processor

find_program(FORESHOCK_QEMU NAMES qemu-aarch64-static qemu-aarch64)
if(FORESHOCK_QEMU)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${FORESHOCK_QEMU} -L ${_emulated_root})
endif()
