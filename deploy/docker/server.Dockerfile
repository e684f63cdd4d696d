# docker build -f deploy/docker/server.Dockerfile -t foreshock/server .   (context: the repository)
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
RUN cmake --preset release -DFORESHOCK_TESTS=OFF && cmake --build build --target foreshockd foreshock \
    && strip build/bin/foreshockd build/bin/foreshock \
    && mkdir -p /out/usr/bin && cp build/bin/foreshockd build/bin/foreshock /out/usr/bin/

FROM debian:12-slim
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends \
      libgrpc++1.51 libprotobuf32 librocksdb7.8 libspdlog1.10 libyaml-cpp0.7 libprometheus-cpp-core1.0 libcpp-httplib0.11 \
      libzstd1 libsnappy1v5 libssl3 ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --system --gid 10070 foreshock \
    && useradd --system --uid 10070 --gid foreshock --home-dir /var/lib/foreshock --create-home foreshock
COPY --from=build /out/ /
USER 10070:10070
VOLUME /var/lib/foreshock
HEALTHCHECK --interval=15s --timeout=5s --start-period=20s CMD ["foreshock", "doctor", "--server", "127.0.0.1:7071"]
ENTRYPOINT ["foreshockd"]
CMD ["--data", "/var/lib/foreshock/data"]
