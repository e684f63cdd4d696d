# docker build -f deploy/docker/agent.Dockerfile -t foreshock/agent .   (context: the repository)
FROM debian:12-slim AS build
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends \
      g++ cmake ninja-build pkg-config libgrpc++-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev \
      libprotozero-dev librocksdb-dev prometheus-cpp-dev libspdlog-dev libcli11-dev nlohmann-json3-dev libyaml-cpp-dev \
      libzstd-dev libsnappy-dev libcpp-httplib-dev libssl-dev libjs-dygraphs \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN cmake --preset release -DFORESHOCK_TESTS=OFF && cmake --build build --target foreshock-agent \
    && strip build/bin/foreshock-agent && mkdir -p /out/usr/bin && cp build/bin/foreshock-agent /out/usr/bin/

FROM debian:12-slim
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends \
      libgrpc++1.51 libprotobuf32 libspdlog1.10 libssl3 ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --system --gid 10070 foreshock \
    && useradd --system --uid 10070 --gid foreshock --home-dir /var/lib/foreshock --create-home foreshock \
    && install -d -o foreshock -g foreshock -m 0750 /run/foreshock /var/lib/foreshock/spool
COPY --from=build /out/ /
USER 10070:10070
VOLUME ["/run/foreshock", "/var/lib/foreshock/spool"]
# The agent replaces its status once a second.
HEALTHCHECK --interval=15s --timeout=5s CMD ["find", "/run/foreshock/agent.sock.status.json", "-newermt", "-30 seconds"]
ENTRYPOINT ["foreshock-agent"]
CMD ["--socket", "/run/foreshock/agent.sock", "--spool", "/var/lib/foreshock/spool"]
