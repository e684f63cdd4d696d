# Third-party packages, found once. Each is linked by the few components that name it under LIBS.
find_package(Threads REQUIRED)
if(FORESHOCK_TESTS)
  find_package(GTest REQUIRED)
endif()

# protozero is header-only. FORESHOCK_PROTOZERO_DIR serves machines where the package is not installed.
find_path(FORESHOCK_PROTOZERO_DIR protozero/pbf_writer.hpp HINTS ${PROJECT_SOURCE_DIR}/.protozero REQUIRED)
add_library(protozero INTERFACE)
target_include_directories(protozero SYSTEM INTERFACE ${FORESHOCK_PROTOZERO_DIR})

if(FORESHOCK_SDK_ONLY)
  return()
endif()

find_package(Protobuf REQUIRED)
find_package(gRPC REQUIRED)
find_package(RocksDB REQUIRED)
find_package(prometheus-cpp REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(CLI11 REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(PkgConfig REQUIRED)
# Not under the prefix zstd: its cache entries would mislead RocksDB's own search for zstd at the next configure.
pkg_check_modules(pc_zstd REQUIRED IMPORTED_TARGET libzstd)
add_library(PkgConfig::zstd ALIAS PkgConfig::pc_zstd)
pkg_check_modules(fs_httplib REQUIRED IMPORTED_TARGET cpp-httplib)
