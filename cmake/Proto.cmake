# foreshock_proto(OUT_VAR OUT_DIR [GRPC] FILES ...): generates C++ from proto/foreshock/v1 at build time. OUT_VAR
# receives the .cc files: messages, or with GRPC the services.
function(foreshock_proto out_var out_dir)
  cmake_parse_arguments(P "GRPC" "" "FILES" ${ARGN})
  set(root ${PROJECT_SOURCE_DIR}/proto)
  set(generated)
  find_program(GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)
  foreach(file IN LISTS P_FILES)
    set(base ${out_dir}/foreshock/v1/${file})
    if(P_GRPC)
      set(outputs ${base}.grpc.pb.cc ${base}.grpc.pb.h)
      set(arguments --grpc_out=${out_dir} --plugin=protoc-gen-grpc=${GRPC_CPP_PLUGIN})
    else()
      set(outputs ${base}.pb.cc ${base}.pb.h)
      set(arguments --cpp_out=${out_dir})
    endif()
    add_custom_command(
      OUTPUT ${outputs}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${out_dir}
      COMMAND ${Protobuf_PROTOC_EXECUTABLE} -I ${root} ${arguments} ${root}/foreshock/v1/${file}.proto
      DEPENDS ${root}/foreshock/v1/${file}.proto ${root}/foreshock/v1/ingest.proto
      VERBATIM)
    list(APPEND generated ${outputs})
  endforeach()
  set(${out_var} ${generated} PARENT_SCOPE)
endfunction()
