# What scripts/quickstart and scripts/test share: packages, stages with their logs, builds. Sourced by bash.
# Needs neither git nor anything else that a minimal Debian lacks.

FS_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
FS_LOGS=$FS_ROOT/build/logs
FS_TOOLS=$FS_ROOT/build/tools
FS_STARTED=$SECONDS

# Debian 12 names, all tried there. Ubuntu 24.04 has packages of the same names (docs/design/2026-11-29-dependencies.md
# lists the versions); Foreshock is untested there.
FS_BUILD_PACKAGES=(
  g++ cmake ninja-build ccache pkg-config
  libgrpc++-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libprotozero-dev
  librocksdb-dev prometheus-cpp-dev libspdlog-dev libcli11-dev nlohmann-json3-dev libyaml-cpp-dev
  libzstd-dev libsnappy-dev libcpp-httplib-dev libssl-dev
  libjs-dygraphs)
FS_TEST_PACKAGES=(libgtest-dev libgmock-dev mold python3 strace binutils curl jq openssl)
# Servers that tests talk to. Unpacked under build/tools and not installed: installing would start services.
FS_TEST_SERVERS=(prometheus prometheus-alertmanager)
FS_TEST_BALANCER=(haproxy liblua5.3-0 libopentracing-c-wrapper0 libopentracing1)

# NVIDIA's compiler as PyPI ships it, of one release. Unpacked under build/tools where no nvcc is found.
FS_NVCC_WHEELS=(
  nvidia-cuda-nvcc==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-nvvm==13.0.88
  nvidia-cuda-runtime==13.0.96 nvidia-cuda-cccl==13.0.85)

fs_say() { printf '%s\n' "$@"; }
fs_die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }

# Compilers to run at once: every core, but not more than one for 1.5 GiB of memory (gRPC's headers take 1 GiB).
fs_jobs() {
  local cores memory_kb by_memory
  cores=$(nproc)
  memory_kb=$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo)
  by_memory=$((memory_kb / 1572864))
  ((by_memory >= 1)) || by_memory=1
  echo $((cores < by_memory ? cores : by_memory))
}

# fs_stage NAME COMMAND...: runs a command with its output in a log; one line when it is done, the log's end when
# it fails.
fs_stage() {
  local name=$1 log started=$SECONDS code=0
  shift
  log=$FS_LOGS/${name//[^A-Za-z0-9]/-}.log
  mkdir -p "$FS_LOGS"
  "$@" >"$log" 2>&1 </dev/null || code=$?
  if ((code == 0)); then
    printf '%-28s %4d s\n' "$name" $((SECONDS - started))
    return 0
  fi
  printf '%-28s failed after %d s, exit status %d. The end of %s:\n' "$name" $((SECONDS - started)) "$code" "$log" >&2
  fs_errors_of "$log" >&2
  return "$code"
}

# The lines of a build's log that matter, then its last ones.
fs_errors_of() {
  grep -nE '(error|Error|FAILED|fatal|No space left)' "$1" | head -n 20
  echo '...'
  tail -n 40 "$1"
}

fs_as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo env DEBIAN_FRONTEND=noninteractive "$@"
  else
    echo "needs root, or sudo, to install packages: $*" >&2
    return 1
  fi
}

fs_missing() {
  local package
  for package in "$@"; do
    dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || echo "$package"
  done
}

fs_apt_install() {
  export DEBIAN_FRONTEND=noninteractive
  # Lists may be absent (a fresh machine) or old: only when the packages cannot be found are they fetched.
  apt-get install -s --no-install-recommends "$@" >/dev/null 2>&1 || fs_as_root apt-get update -q || return
  fs_as_root apt-get install -y -q --no-install-recommends "$@"
}

# fs_packages PACKAGE...: installs what is missing; silent and quick when nothing is.
fs_packages() {
  command -v dpkg-query >/dev/null || fs_die "this script installs Debian packages (12; Ubuntu 24.04 is untested); \
without dpkg, install these by hand and build with: cmake --preset release && cmake --build build"
  local missing
  mapfile -t missing < <(fs_missing "$@")
  ((${#missing[@]} == 0)) || fs_stage "packages" fs_apt_install "${missing[@]}"
}

fs_fetch_servers() (  # a subshell: it changes the folder
  mkdir -p "$FS_TOOLS/packages" && cd "$FS_TOOLS/packages" || return
  apt-cache show "$1" >/dev/null 2>&1 || fs_as_root apt-get update -q || return
  for package in "$@"; do
    apt-get download "$package" || return
    dpkg-deb -x "$package"_*.deb "$FS_TOOLS" || return
    rm -f "$package"_*.deb
  done
)

# Prometheus, Alertmanager and HAProxy for the tests: what is installed, else unpacked under build/tools.
fs_test_servers() {
  PATH=$PATH:/usr/sbin:$FS_TOOLS/usr/bin:$FS_TOOLS/usr/sbin
  export PATH
  local wanted=() program
  for program in "${FS_TEST_SERVERS[@]}"; do
    command -v "$program" >/dev/null || wanted+=("$program")
  done
  command -v haproxy >/dev/null || wanted+=("${FS_TEST_BALANCER[@]}")
  ((${#wanted[@]} == 0)) || fs_stage "servers for tests" fs_fetch_servers "${wanted[@]}"
  # Debian's Alertmanager reads its templates from where its package would have put them, and does not start without.
  local templates=usr/share/prometheus/alertmanager
  [ -e "/$templates/email.tmpl" ] || [ ! -e "$FS_TOOLS/$templates" ] ||
    fs_as_root install -D -m 644 -t "/$templates" "$FS_TOOLS/$templates"/*.tmpl
}

# All of it or nothing: what a failure leaves has another name.
fs_fetch_nvcc() {
  local home=$FS_TOOLS/cuda.part/nvidia/cu13
  rm -rf "$FS_TOOLS/cuda" "$FS_TOOLS/cuda.part" &&
    python3 -m pip install -q --no-deps --no-compile --no-cache-dir --disable-pip-version-check \
      --target "$FS_TOOLS/cuda.part" "${FS_NVCC_WHEELS[@]}" &&
    ln -s lib "$home/lib64" &&  # where nvcc and CMake look for the runtime, under a name without a version
    ln -s libcudart.so.13 "$home/lib/libcudart.so" &&
    chmod +x "$home"/bin/* "$home"/nvvm/bin/* &&
    mv "$FS_TOOLS/cuda.part" "$FS_TOOLS/cuda"
}

# nvcc, so that CUDA sources are compiled where no GPU is: the machine's own, else one under build/tools (100 MB to fetch).
fs_nvcc() {
  local home=$FS_TOOLS/cuda/nvidia/cu13
  if command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then return 0; fi
  if [ ! -x "$home/bin/nvcc" ]; then
    python3 -m pip --version >/dev/null 2>&1 || fs_packages python3-pip
    fs_stage "nvcc" fs_fetch_nvcc || return
  fi
  export CUDACXX=$home/bin/nvcc
}

# Configures a preset when it is not yet, or when its folder was made elsewhere.
fs_configure() {
  local preset=$1 folder=$2
  shift 2
  if [ -f "$folder/CMakeCache.txt" ] && ! grep -qx "CMAKE_HOME_DIRECTORY:INTERNAL=$FS_ROOT" "$folder/CMakeCache.txt"; then
    rm -rf "$folder/CMakeCache.txt" "$folder/CMakeFiles"
  fi
  (cd "$FS_ROOT" && cmake --preset "$preset" -B "$folder" "$@")
}

# fs_build FOLDER [TARGET...]
fs_build() {
  local folder=$1 targets=()
  shift
  (($# == 0)) || targets=(--target "$@")
  cmake --build "$folder" --parallel "$(fs_jobs)" "${targets[@]}"
}

fs_total() { printf '%-28s %4d s\n' "$1" $((SECONDS - FS_STARTED)); }
