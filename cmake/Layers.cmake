# The allowed edges between components, in one place. An edge that is not listed here fails the configure step
# (cmake/Component.cmake asks foreshock_edge_allowed for every DEPS and PUBLIC_DEPS entry).
#
# A line is "FROM -> TO [TO...]". A name is a component's folder; "part/*" stands for every component of a part.
# "!NAME" on the right forbids what an earlier pattern of the same FROM would allow.
set(FORESHOCK_LAYERS
  # base needs nothing but the C++ runtime; everyone may use it. Apart are base/logging (spdlog) and base/tls (OpenSSL),
  # which the SDK does not use.
  "base/* -> base/*"
  "proto/* -> base/*"
  "sdk/* -> base/* !base/logging !base/tls"
  "agent/* -> base/*"
  "server/* -> base/*"
  "cli/* -> base/*"

  # proto: wire (protozero), jsonl (reader of text recordings), messages (protobuf), rpc (gRPC)
  "proto/jsonl -> proto/wire"
  "proto/rpc -> proto/wire proto/messages"
  "proto/json -> proto/messages proto/wire"
  "proto/archive -> proto/wire"

  # sdk
  "sdk/cuda -> sdk/kernels"
  "sdk/probe -> sdk/kernels sdk/cuda"
  "sdk/guard -> sdk/probe sdk/kernels"
  "sdk/sampler -> sdk/probe sdk/cuda"
  "sdk/exporter -> sdk/sampler sdk/guard proto/wire"
  "sdk/capi -> sdk/kernels sdk/cuda sdk/probe sdk/guard sdk/sampler sdk/exporter proto/wire"
  "sdk/grpc -> proto/rpc proto/wire sdk/exporter"

  # agent
  "agent/receive -> proto/wire agent/spool"
  "agent/spool -> proto/wire"
  "agent/forward -> proto/rpc proto/wire agent/spool"
  "agent/relay -> proto/rpc proto/wire agent/spool agent/forward"
  "agent/app -> agent/* proto/wire"

  # server
  "server/store -> proto/wire proto/archive"
  "server/merge -> server/store proto/wire"
  "server/upkeep -> server/store proto/wire"
  "server/move -> server/ingest server/store server/alert proto/archive proto/wire"
  "server/ingest -> proto/rpc proto/wire server/store server/merge server/auth"
  "server/detect -> !base/logging !base/file"
  "server/rules -> server/detect"
  "server/scenario -> server/rules server/alert_core server/detect"
  "server/alert -> server/detect server/store proto/wire"
  "server/http -> proto/json"
  "server/notify -> server/alert server/alert_core server/store server/http proto/json"
  "server/control -> server/ingest server/alert server/detect server/store server/upkeep server/move proto/rpc proto/wire proto/messages server/auth"
  "server/remote_write -> server/export server/http server/store proto/wire"
  "server/export -> server/store server/alert server/alert_core server/detect proto/wire"
  "server/report -> server/store server/alert server/alert_core server/detect proto/wire proto/json proto/messages"
  "server/query -> proto/rpc proto/wire proto/messages proto/json server/store server/alert server/alert_core server/detect server/auth"
  "server/web -> server/detect server/query server/control server/upkeep server/http server/auth server/export server/report proto/json proto/messages"
  "server/app -> server/* proto/wire proto/rpc proto/messages"

  # cli
  "cli/* -> cli/* proto/archive proto/rpc proto/json proto/messages proto/wire proto/jsonl server/detect server/rules server/scenario server/alert_core sdk/kernels server/auth"
  "server/alert -> server/alert_core"
  "server/alert_core -> server/detect proto/wire"

  # what a user would link, and nothing else
  "tests/trainer/* -> sdk/capi tests/trainer/* !base/* !proto/* !agent/* !server/* !cli/*"
  "tests/trainer/* -> !sdk/kernels !sdk/cuda !sdk/probe !sdk/guard !sdk/sampler !sdk/exporter !sdk/grpc"
  "tests/* -> base/* proto/* sdk/* agent/* server/* cli/*"
  "bench/* -> base/* proto/* sdk/* agent/* server/* cli/*"
)

# foreshock_edge_allowed(FROM TO OUT): OUT is TRUE when a line of FORESHOCK_LAYERS lists the edge.
function(foreshock_edge_allowed from to out)
  set(allowed FALSE)
  set(forbidden FALSE)
  foreach(line IN LISTS FORESHOCK_LAYERS)
    string(REGEX MATCH "^([^ ]+) -> (.*)$" _ "${line}")
    set(left "${CMAKE_MATCH_1}")
    string(REPLACE " " ";" rights "${CMAKE_MATCH_2}")
    string(REPLACE "*" ".*" left_pattern "${left}")
    if(NOT from MATCHES "^${left_pattern}$")
      continue()
    endif()
    foreach(right IN LISTS rights)
      string(REPLACE "*" ".*" pattern "${right}")
      if(right MATCHES "^!")
        string(SUBSTRING "${pattern}" 1 -1 pattern)
        if(to MATCHES "^${pattern}$")
          set(forbidden TRUE)
        endif()
      elseif(to MATCHES "^${pattern}$")
        set(allowed TRUE)
      endif()
    endforeach()
  endforeach()
  if(forbidden)
    set(allowed FALSE)
  endif()
  set(${out} ${allowed} PARENT_SCOPE)
endfunction()
