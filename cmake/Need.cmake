# foreshock_need(NAME PACKAGE... [VERSION LEAST]): find_package(NAME), or an end that says what to install.
# PACKAGE: names in Debian 12. The found package's variables and targets are the caller's, as find_package would have it.
macro(foreshock_need name)
  cmake_parse_arguments(_need "" "VERSION" "" ${ARGN})
  find_package(${name} QUIET)
  list(JOIN _need_UNPARSED_ARGUMENTS " " _need_packages)
  if(NOT ${name}_FOUND)
    message(FATAL_ERROR "${name} is missing. Debian 12: apt install ${_need_packages}"
      " (scripts/quickstart and scripts/test install everything). Where it lies elsewhere: -DCMAKE_PREFIX_PATH=FOLDER.")
  endif()
  # Some of CMake's own modules name their variables in capitals alone.
  string(TOUPPER ${name} _need_upper)
  set(_need_have "${${name}_VERSION}")
  if(_need_have STREQUAL "")
    set(_need_have "${${_need_upper}_VERSION}")
  endif()
  if(_need_VERSION AND _need_have VERSION_LESS _need_VERSION)
    message(FATAL_ERROR "${name} ${_need_have} is too old, ${_need_VERSION} or later is needed. Debian 12 has it: apt install "
      "${_need_packages}. Where a newer one lies elsewhere: -DCMAKE_PREFIX_PATH=FOLDER, with nothing older before it.")
  endif()
endmacro()
