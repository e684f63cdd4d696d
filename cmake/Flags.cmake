# Flags that every target of Foreshock takes through foreshock_flags.
add_library(foreshock_flags INTERFACE)
target_compile_features(foreshock_flags INTERFACE cxx_std_20)
target_compile_options(foreshock_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX,C>:-Wall;-Wextra;-Wshadow;-fvisibility=hidden>
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor;-fvisibility-inlines-hidden>)
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  # GCC fuses multiply and add wherever the processor can, which x86-64's own instructions cannot: a replay on one processor says
  # what the server on the other said.
  target_compile_options(foreshock_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX,C>:-ffp-contract=off>)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 sees overruns in std::string's own operator+ (its bugs 105329 and 105651) at some optimisation levels.
  target_compile_options(foreshock_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-array-bounds;-Wno-restrict;-Wno-stringop-overflow;-Wno-stringop-overread>)
endif()
if(FORESHOCK_WERROR)
  target_compile_options(foreshock_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX,C>:-Werror>)
endif()

set(FORESHOCK_SANITIZE "" CACHE STRING "sanitizers, as -fsanitize= takes them")
set(FORESHOCK_SANITIZE_OPTIMIZE "-O1" CACHE STRING "optimisation of sanitized builds; -O0 compiles in a third of the time")
if(FORESHOCK_SANITIZE)
  # -O1 keeps the sanitized suites within CI's time.
  add_compile_options(-fsanitize=${FORESHOCK_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all
    ${FORESHOCK_SANITIZE_OPTIMIZE} -g1)
  add_link_options(-fsanitize=${FORESHOCK_SANITIZE})
endif()

# What tests put before a program of this build that they start: nothing, or for another processor its emulator.
list(JOIN CMAKE_CROSSCOMPILING_EMULATOR " " FORESHOCK_EMULATOR)

# What every test runs with.
set(FORESHOCK_TEST_ENVIRONMENT FORESHOCK_SOURCE_DIR=${PROJECT_SOURCE_DIR} FORESHOCK_BUILD_DIR=${PROJECT_BINARY_DIR})
if(FORESHOCK_SANITIZE MATCHES "thread")
  # System libraries are not instrumented.
  list(APPEND FORESHOCK_TEST_ENVIRONMENT
    "TSAN_OPTIONS=ignore_noninstrumented_modules=1 suppressions=${PROJECT_SOURCE_DIR}/tests/tsan.supp")
elseif(FORESHOCK_SANITIZE)
  list(APPEND FORESHOCK_TEST_ENVIRONMENT UBSAN_OPTIONS=print_stacktrace=1
    "LSAN_OPTIONS=print_suppressions=0 suppressions=${PROJECT_SOURCE_DIR}/tests/lsan.supp")
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

set(FORESHOCK_LINKER "" CACHE STRING "linker, as -fuse-ld= takes it; mold links a sanitized server in 2 s where ld takes 8")
if(FORESHOCK_LINKER)
  add_link_options($<$<LINK_LANGUAGE:CXX,C>:-fuse-ld=${FORESHOCK_LINKER}>)
endif()
