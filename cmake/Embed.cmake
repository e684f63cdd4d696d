set(_FORESHOCK_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_DIR}/embed_file.cmake)

# foreshock_embed(NAMESPACE NAME FILE OUT_VAR): makes at build time a source that defines
# `const std::string_view NAME` in the namespace with the file's bytes, and appends its path to OUT_VAR.
function(foreshock_embed namespace name file out_var)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${name}.cc)
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DNAMESPACE=${namespace} -DNAME=${name} -DIN=${file} -DOUT=${out}
      -P ${_FORESHOCK_EMBED_SCRIPT}
    DEPENDS ${file} ${_FORESHOCK_EMBED_SCRIPT}
    VERBATIM)
  set(${out_var} ${${out_var}} ${out} PARENT_SCOPE)
endfunction()
