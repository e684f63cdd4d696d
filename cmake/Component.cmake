include(${CMAKE_CURRENT_LIST_DIR}/Layers.cmake)

# foreshock_component(PATH
#   SOURCES ...       .cc files; none makes a header-only component
#   PUBLIC_DEPS ...   components whose headers this one's headers include
#   DEPS ...          components that only the sources need
#   LIBS ...          third-party targets that only the sources need
#   PUBLIC_LIBS ...   third-party targets that the headers need (rare; say why)
#   TESTS ...         *_test.cc files of this component, one binary for all
#   TEST_DEPS ...     components that only the tests need
#   TEST_LIBS ...     third-party targets that only the tests need
# )
# PATH is the folder from the project's root, e.g. base/queue. The library is called fs_base_queue, its tests
# fs_base_queue_test. Public headers live in PATH/include; each is compiled alone by the target check_headers.
function(foreshock_component path)
  cmake_parse_arguments(C "" "" "SOURCES;PUBLIC_DEPS;DEPS;LIBS;PUBLIC_LIBS;TESTS;TEST_DEPS;TEST_LIBS" ${ARGN})
  if(C_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "foreshock_component(${path}): unknown arguments: ${C_UNPARSED_ARGUMENTS}")
  endif()
  string(REPLACE "/" "_" suffix "${path}")
  set(target fs_${suffix})
  if(C_SOURCES)
    add_library(${target} STATIC ${C_SOURCES})
    set(public PUBLIC)
    target_link_libraries(${target} PRIVATE foreshock_flags ${C_LIBS})
  else()
    add_library(${target} INTERFACE)
    set(public INTERFACE)
  endif()
  if(IS_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/include)
    target_include_directories(${target} ${public} ${CMAKE_CURRENT_SOURCE_DIR}/include)
  endif()
  target_link_libraries(${target} ${public} ${C_PUBLIC_LIBS})
  foreach(dep IN LISTS C_PUBLIC_DEPS)
    _foreshock_check_edge(${path} ${dep})
    string(REPLACE "/" "_" dep_suffix "${dep}")
    target_link_libraries(${target} ${public} fs_${dep_suffix})
  endforeach()
  foreach(dep IN LISTS C_DEPS)
    _foreshock_check_edge(${path} ${dep})
    string(REPLACE "/" "_" dep_suffix "${dep}")
    target_link_libraries(${target} PRIVATE fs_${dep_suffix})
  endforeach()
  _foreshock_check_headers(${target} ${suffix})
  if(C_TESTS AND FORESHOCK_TESTS)
    foreshock_test(${target}_test SOURCES ${C_TESTS} DEPS ${path} ${C_TEST_DEPS} LIBS ${C_TEST_LIBS})
  endif()
endfunction()

# foreshock_test(NAME SOURCES ... DEPS components... LIBS targets...): a GoogleTest binary, one ctest entry.
# Its sources see their own component's src folder, for tests of what is private.
function(foreshock_test name)
  cmake_parse_arguments(T "" "TIMEOUT" "SOURCES;DEPS;LIBS;LABELS" ${ARGN})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 900)  # a test that hangs must end; sanitized ones on a busy machine are slow
  endif()
  add_executable(${name} ${T_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/src)
  target_link_libraries(${name} PRIVATE foreshock_flags GTest::gmock GTest::gtest_main ${T_LIBS})
  foreach(dep IN LISTS T_DEPS)
    string(REPLACE "/" "_" dep_suffix "${dep}")
    target_link_libraries(${name} PRIVATE fs_${dep_suffix})
  endforeach()
  if(FORESHOCK_TEST_PCH)
    # A target whose macros differ from the shared header's cannot use it and reads GoogleTest as always.
    target_precompile_headers(${name} REUSE_FROM foreshock_test_pch)
    set_target_properties(${name} PROPERTIES PCH_WARN_INVALID OFF)
  endif()
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${T_TIMEOUT} LABELS "unit;${T_LABELS}"
    ENVIRONMENT "${FORESHOCK_TEST_ENVIRONMENT}")
endfunction()

function(_foreshock_check_edge from to)
  foreshock_edge_allowed(${from} ${to} allowed)
  if(NOT allowed)
    message(FATAL_ERROR "layer rule: ${from} may not use ${to} (cmake/Layers.cmake lists the allowed edges)")
  endif()
endfunction()

# One translation unit a public header, so that each compiles alone.
function(_foreshock_check_headers target suffix)
  if(NOT FORESHOCK_TESTS)
    return()
  endif()
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/include/*.h)
  set(units)
  foreach(header IN LISTS headers)
    file(RELATIVE_PATH name ${CMAKE_CURRENT_SOURCE_DIR}/include ${header})
    string(MAKE_C_IDENTIFIER "${name}" id)
    set(unit ${CMAKE_CURRENT_BINARY_DIR}/header_${id}.cc)
    file(CONFIGURE OUTPUT ${unit} CONTENT "#include \"${name}\"\n")
    list(APPEND units ${unit})
  endforeach()
  if(units)
    add_library(header_${suffix} OBJECT EXCLUDE_FROM_ALL ${units})
    target_link_libraries(header_${suffix} PRIVATE foreshock_flags ${target})
    target_compile_options(header_${suffix} PRIVATE -O0 -g0)
    set_target_properties(header_${suffix} PROPERTIES UNITY_BUILD OFF)  # alone is the point
    add_dependencies(check_headers header_${suffix})
  endif()
endfunction()
