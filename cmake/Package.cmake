# Debian packages: cmake --build build && (cd build && cpack -G DEB). scripts/package-test installs and removes them.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME foreshock)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "Foreshock maintainers <maintainers@foreshock.example>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL server agent cli lib dev grpc)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/lib)

set(_control ${PROJECT_SOURCE_DIR}/deploy/debian)
set(CPACK_DEBIAN_SERVER_PACKAGE_NAME foreshock-server)
set(CPACK_COMPONENT_SERVER_DESCRIPTION "Foreshock's server\n Keeps the history of training runs and warns before one collapses.")
set(CPACK_DEBIAN_SERVER_PACKAGE_SUGGESTS "prometheus, foreshock-cli")
set(CPACK_DEBIAN_SERVER_PACKAGE_CONTROL_EXTRA "${_control}/server/postinst;${_control}/server/prerm;${_control}/server/postrm;${_control}/server/conffiles")

set(CPACK_DEBIAN_AGENT_PACKAGE_NAME foreshock-agent)
set(CPACK_COMPONENT_AGENT_DESCRIPTION "Foreshock's agent\n Takes measurements from the trainers of a node and forwards them to the server.")
set(CPACK_DEBIAN_AGENT_PACKAGE_SUGGESTS "python3, prometheus-node-exporter")
set(CPACK_DEBIAN_AGENT_PACKAGE_CONTROL_EXTRA "${_control}/agent/postinst;${_control}/agent/prerm;${_control}/agent/postrm;${_control}/agent/conffiles")

set(CPACK_DEBIAN_CLI_PACKAGE_NAME foreshock-cli)
set(CPACK_COMPONENT_CLI_DESCRIPTION "Foreshock's command line\n Shows runs, replays recordings, writes reports.")
# `foreshock report --png` draws with it.
set(CPACK_DEBIAN_CLI_PACKAGE_SUGGESTS "chromium")

set(CPACK_DEBIAN_LIB_PACKAGE_NAME libforeshock${PROJECT_VERSION_MAJOR})
set(CPACK_DEBIAN_LIB_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIB_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_LIB_PACKAGE_CONTROL_EXTRA "${_control}/lib/triggers")
set(CPACK_COMPONENT_LIB_DESCRIPTION "Foreshock's library for trainers\n Measures attention heads inside a training program.")

set(CPACK_DEBIAN_DEV_PACKAGE_NAME libforeshock-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "libforeshock${PROJECT_VERSION_MAJOR} (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_DEV_DESCRIPTION "Foreshock's library for trainers: headers\n With CMake configuration and pkg-config.")

set(CPACK_DEBIAN_GRPC_PACKAGE_NAME libforeshock-grpc)
set(CPACK_DEBIAN_GRPC_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_GRPC_PACKAGE_DEPENDS "libforeshock${PROJECT_VERSION_MAJOR} (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_GRPC_DESCRIPTION "Foreshock's library for trainers: grpc:// addresses\n Loaded on demand; trainers that use an agent do not need it.")

include(CPack)
