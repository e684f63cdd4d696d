# Third-party packages, found once. Each is linked by the few components that name it under LIBS.
include(${CMAKE_CURRENT_LIST_DIR}/Need.cmake)

find_package(Threads REQUIRED)
if(FORESHOCK_TESTS)
  # libgtest-dev brings GoogleTest's sources too; its libraries are for this machine's processor alone.
  if(CMAKE_CROSSCOMPILING AND EXISTS /usr/src/googletest/CMakeLists.txt)
    set(INSTALL_GTEST OFF)
    add_subdirectory(/usr/src/googletest ${PROJECT_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)
  else()
    foreshock_need(GTest libgtest-dev libgmock-dev)
  endif()
endif()

# protozero is header-only. FORESHOCK_PROTOZERO_DIR serves machines where the package is not installed.
find_path(FORESHOCK_PROTOZERO_DIR protozero/pbf_writer.hpp HINTS ${PROJECT_SOURCE_DIR}/.protozero REQUIRED)
add_library(protozero INTERFACE)
target_include_directories(protozero SYSTEM INTERFACE ${FORESHOCK_PROTOZERO_DIR})

if(FORESHOCK_SDK_ONLY)
  return()
endif()

# Below 3.15 generated code has no presence of proto3 fields; 3.21 is what is tested.
foreshock_need(Protobuf libprotobuf-dev protobuf-compiler VERSION 3.21)
foreshock_need(gRPC libgrpc++-dev protobuf-compiler-grpc)
foreshock_need(RocksDB librocksdb-dev VERSION 7)
foreshock_need(prometheus-cpp prometheus-cpp-dev)
foreshock_need(spdlog libspdlog-dev)
foreshock_need(nlohmann_json nlohmann-json3-dev)
foreshock_need(yaml-cpp libyaml-cpp-dev)
foreshock_need(CLI11 libcli11-dev)
foreshock_need(OpenSSL libssl-dev VERSION 3)
foreshock_need(PkgConfig pkg-config)
# Not under the prefix zstd: its cache entries would mislead RocksDB's own search for zstd at the next configure.
pkg_check_modules(pc_zstd REQUIRED IMPORTED_TARGET libzstd)
add_library(PkgConfig::zstd ALIAS PkgConfig::pc_zstd)
foreshock_need(Snappy libsnappy-dev)
pkg_check_modules(fs_httplib REQUIRED IMPORTED_TARGET cpp-httplib)
