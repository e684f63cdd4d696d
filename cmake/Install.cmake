# What is installed where, in components that are the Debian packages too: server, agent, cli, lib, dev.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(_deploy ${PROJECT_SOURCE_DIR}/deploy)

# ---- the SDK's library, for users' programs
set_target_properties(foreshock_sdk PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
install(TARGETS foreshock_sdk LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT lib NAMELINK_COMPONENT dev)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/sdk/capi/include/foreshock DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)

set(_config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/foreshock)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/foreshockConfig.cmake.in
  ${PROJECT_BINARY_DIR}/package/foreshockConfig.cmake
  INSTALL_DESTINATION ${_config_dir} PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/foreshockConfigVersion.cmake
  VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
# From the folder of the .pc file up to the prefix, so that an installed tree may be moved.
string(REGEX REPLACE "[^/]+" ".." FORESHOCK_PC_PREFIX ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
configure_file(${PROJECT_SOURCE_DIR}/cmake/foreshock.pc.in ${PROJECT_BINARY_DIR}/package/foreshock.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/package/foreshockConfig.cmake ${PROJECT_BINARY_DIR}/package/foreshockConfigVersion.cmake
  DESTINATION ${_config_dir} COMPONENT dev)
install(FILES ${PROJECT_BINARY_DIR}/package/foreshock.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)

if(FORESHOCK_TESTS AND NOT FORESHOCK_SANITIZE)
  # A user's project, outside of this one, finds what is installed.
  add_test(NAME consumer COMMAND ${CMAKE_COMMAND} -DBUILD=${PROJECT_BINARY_DIR} -DSOURCE=${PROJECT_SOURCE_DIR}/tests/consumer
    -DGENERATOR=${CMAKE_GENERATOR} -DMAKE_PROGRAM=${CMAKE_MAKE_PROGRAM}
    -DTOOLCHAIN=${CMAKE_TOOLCHAIN_FILE} -DCOMPILER=${CMAKE_C_COMPILER} -DEMULATOR=${FORESHOCK_EMULATOR} -P ${PROJECT_SOURCE_DIR}/tests/consumer/run.cmake)
  set_tests_properties(consumer PROPERTIES LABELS integration TIMEOUT 600)
endif()
if(FORESHOCK_SDK_ONLY)
  return()
endif()

# ---- programs
install(TARGETS foreshockd foreshock-store RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT server)
install(TARGETS foreshock-agent RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT agent)
install(TARGETS foreshock RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT cli)
install(PROGRAMS ${_deploy}/prometheus/foreshock-agent-textfile DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT agent)
install(TARGETS foreshock_grpc LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT grpc)
if(TARGET foreshock_cupti)
  install(TARGETS foreshock_cupti LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT grpc)
endif()

# ---- what runs them; systemd looks below /usr/lib whatever the library folder is called
install(FILES ${_deploy}/systemd/foreshockd.service DESTINATION lib/systemd/system COMPONENT server)
install(FILES ${_deploy}/systemd/foreshock-agent.service ${_deploy}/systemd/foreshock-agent-textfile.service
  ${_deploy}/systemd/foreshock-agent-textfile.timer DESTINATION lib/systemd/system COMPONENT agent)
foreach(part IN ITEMS server agent)
  # Each package makes the user; both files say the same.
  install(FILES ${_deploy}/systemd/foreshock.sysusers DESTINATION lib/sysusers.d RENAME foreshock-${part}.conf COMPONENT ${part})
endforeach()
install(FILES ${_deploy}/systemd/foreshockd.yml DESTINATION /etc/foreshock COMPONENT server)
install(FILES ${_deploy}/systemd/agent.env DESTINATION /etc/foreshock COMPONENT agent)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/dashboards/ DESTINATION ${CMAKE_INSTALL_DATADIR}/foreshock/dashboards COMPONENT server
  FILES_MATCHING PATTERN "*.json" PATTERN foreshock_dashboards EXCLUDE)
install(FILES ${_deploy}/prometheus/recording.rules.yml ${_deploy}/prometheus/alerting.rules.yml
  DESTINATION ${CMAKE_INSTALL_DATADIR}/foreshock/prometheus COMPONENT server)

# ---- manuals and completion, from what the programs say of themselves
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
  set(_from_help ${PROJECT_SOURCE_DIR}/cmake/from_help.py)
  foreach(pair IN ITEMS foreshockd:server foreshock-store:server foreshock-agent:agent foreshock:cli)
    string(REPLACE ":" ";" pair ${pair})
    list(GET pair 0 program)
    list(GET pair 1 part)
    set(man ${PROJECT_BINARY_DIR}/package/${program}.1)
    set(completion ${PROJECT_BINARY_DIR}/package/${program}.bash)
    add_custom_command(OUTPUT ${man} ${completion}
      COMMAND ${Python3_EXECUTABLE} -B ${_from_help} $<TARGET_FILE:${program}> ${PROJECT_VERSION} ${man} ${completion}
      DEPENDS ${program} ${_from_help} VERBATIM)
    list(APPEND _manuals ${man})
    install(FILES ${man} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT ${part})
    install(FILES ${completion} DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME ${program}
      COMPONENT ${part})
  endforeach()
  add_custom_target(foreshock_manuals ALL DEPENDS ${_manuals})
endif()

include(${CMAKE_CURRENT_LIST_DIR}/Package.cmake)
