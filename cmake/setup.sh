# What the launchers share: packages and builds. Sourced; expects `root`. All of its messages go to standard error,
# because standard output belongs to the program.
# shellcheck shell=bash disable=SC2034,SC2154

# What each part is built with. The calibrator needs a LibTorch as well: the active Python's, or Debian's.
common_packages=(g++ cmake ninja-build libyaml-cpp-dev libeigen3-dev libcli11-dev libfmt-dev nlohmann-json3-dev)
simulator_packages=("${common_packages[@]}" pkg-config libsimgrid-dev libboost-dev libmimalloc-dev libsqlitecpp-dev
  libsqlite3-dev libxxhash-dev libjs-chart.js)
calibrator_packages=("${common_packages[@]}" zlib1g-dev)
debian_torch=(libtorch-dev libopenblas0-pthread)

# needs_build STAMP: whether a source is newer than the last build.
needs_build() {
  [[ ! -e $1 ]] || [[ -n $(find "$root"/{src,sim,calibrate,cmake,CMakeLists.txt,CMakePresets.json} \
    -newer "$1" -print -quit) ]]
}

# install_packages NAME...: installs Debian packages that are missing, or says how and exits 4.
install_packages() {
  command -v dpkg-query >/dev/null || return 0 # not Debian: CMake says what it misses
  local package missing=() as_root=()
  for package in "$@"; do
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] ||
      missing+=("$package")
  done
  ((${#missing[@]})) || return 0
  if ((EUID != 0)); then
    if ! sudo -n true 2>/dev/null; then
      echo "These packages are missing, and installing them needs root. Run this once:" >&2
      echo "  sudo apt-get install --yes --no-install-recommends ${missing[*]}" >&2
      exit 4
    fi
    as_root=(sudo -n)
  fi
  echo "Installing ${missing[*]}" >&2
  if ! { "${as_root[@]}" apt-get -qq update &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
      apt-get -qq install --yes --no-install-recommends "${missing[@]}"; } >&2; then
    echo "error: the packages could not be installed" >&2
    exit 4
  fi
}

# install_calibrator_packages: with Debian's LibTorch, unless Torch_DIR or the active Python has one.
install_calibrator_packages() {
  local packages=("${calibrator_packages[@]}")
  [[ -n ${Torch_DIR-} ]] || python3 -c "import torch" 2>/dev/null || packages+=("${debian_torch[@]}")
  install_packages "${packages[@]}"
}

# build_preset PRESET [TARGET...]: configures and builds, one launcher at a time. A preset that builds a program and the
# one that adds its tests share their folder, so that whoever runs both compiles the program once.
build_preset() {
  local preset=$1 folder=$1 started
  case $preset in
    test) folder=release ;;
    *-test) folder=${preset%-test} ;;
  esac
  folder=$root/build/$folder
  shift
  mkdir -p "$folder"
  exec 9>"$folder/.lock"
  flock 9
  # A source that changes during the build must look newer than the stamp.
  started=$(mktemp "$folder/.started.XXXXXX")
  [[ -e $folder/build.ninja ]] || echo "Building (once, a few minutes) in ${folder#"$root/"}" >&2
  if ! (cd "$root" && cmake --preset "$preset" && cmake --build --preset "$preset" ${1:+--target "$@"}) \
    >"$folder/build.log" 2>&1; then
    rm -f "$started"
    tail -n 40 "$folder/build.log" >&2
    echo "error: the build failed; ${folder#"$root/"}/build.log has all of it" >&2
    exit 70
  fi
  mv "$started" "$folder/.built"
  exec 9>&-
}
