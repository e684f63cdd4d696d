# cmake -DBUILD=... -DSOURCE=... -DGENERATOR=... -DMAKE_PROGRAM=... -DTOOLCHAIN=... -DCOMPILER=... -DEMULATOR=... -P run.cmake: installs the library and its headers into a folder, moves that, builds a user's
# project against it by find_package and by pkg-config, and runs what came out.
# TOOLCHAIN and EMULATOR are empty but for another processor.
set(work ${BUILD}/consumer)
set(prefix ${work}/moved)
separate_arguments(emulator UNIX_COMMAND "${EMULATOR}")
set(toolchain)
if(TOOLCHAIN)
  set(toolchain --toolchain ${TOOLCHAIN} -DCMAKE_FIND_ROOT_PATH=${prefix})
endif()
file(REMOVE_RECURSE ${work})

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${ARGN}: ${code}\n${out}")
  endif()
endfunction()

# A recording with a header and steps must come out of each program.
function(check_program program)
  set(recording ${work}/run.jsonl)
  file(REMOVE ${recording})
  run(${CMAKE_COMMAND} -E env FORESHOCK_ADDR=file:${recording} LD_LIBRARY_PATH=${library_path} ${emulator} ${program})
  file(STRINGS ${recording} lines)
  list(LENGTH lines count)
  if(count LESS 100)
    message(FATAL_ERROR "${program} recorded ${count} lines")
  endif()
endfunction()

foreach(component IN ITEMS lib dev)
  run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${work}/installed --component ${component})
endforeach()
file(RENAME ${work}/installed ${prefix})
run(${CMAKE_COMMAND} -G ${GENERATOR} -DCMAKE_MAKE_PROGRAM=${MAKE_PROGRAM} -S ${SOURCE} -B ${work}/build ${toolchain}
  -DCMAKE_PREFIX_PATH=${prefix} -DEXAMPLES=${SOURCE}/../../examples)
run(${CMAKE_COMMAND} --build ${work}/build)
file(GLOB_RECURSE libraries ${prefix}/libforeshock.so)
get_filename_component(library_path "${libraries}" DIRECTORY)
check_program(${work}/build/consumer_c)
check_program(${work}/build/consumer_cpp)

find_program(pkg_config pkg-config)
if(pkg_config)
  execute_process(COMMAND ${CMAKE_COMMAND} -E env PKG_CONFIG_PATH=${library_path}/pkgconfig
      ${pkg_config} --cflags --libs foreshock
    OUTPUT_VARIABLE flags RESULT_VARIABLE code OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "pkg-config does not know foreshock")
  endif()
  separate_arguments(flags)
  run(${COMPILER} ${SOURCE}/../../examples/c/minimal.c ${flags} -lm -o ${work}/by_pkg_config)
  check_program(${work}/by_pkg_config)
endif()
