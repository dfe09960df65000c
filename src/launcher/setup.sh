# What the launchers share: packages and builds. Sourced; expects `root`. All of its messages go to standard error,
# because standard output belongs to the program.
# shellcheck shell=bash disable=SC2034,SC2154

# macOS has bash 3.2, which knows neither `mapfile` nor empty arrays under `set -u`.
if ((BASH_VERSINFO[0] < 4)); then
  echo "error: bash $BASH_VERSION is too old: the launchers need bash 4 or later" >&2
  echo "remedy: install a newer bash (brew install bash), or use a Linux container (python/README.md, Containers)" >&2
  exit 4
fi

# What each part is built with. The calibrator needs a LibTorch as well: the active Python's, or Debian's.
common_packages=(g++ cmake ninja-build libyaml-cpp-dev libeigen3-dev libcli11-dev libfmt-dev nlohmann-json3-dev
  liblzma-dev zlib1g-dev)
simulator_packages=("${common_packages[@]}" pkg-config libsimgrid-dev libboost-dev libmimalloc-dev libsqlitecpp-dev
  libsqlite3-dev libxxhash-dev libcpp-httplib-dev libjs-chart.js libtomlplusplus-dev rapidjson-dev)
calibrator_packages=("${common_packages[@]}")
debian_torch=(libtorch-dev libopenblas0-pthread)

# needs_build STAMP: whether a source is newer than the last build.
needs_build() {
  [[ ! -e $1 ]] || [[ -n $(find "$root"/{src,sim,calibrate,CMakeLists.txt,CMakePresets.json} \
    -newer "$1" -print -quit) ]]
}

# missing_packages NAME...: those that are not installed, one a line.
missing_packages() {
  command -v dpkg-query >/dev/null || return 0 # not Debian: CMake says what it misses
  local package
  for package in "$@"; do
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || echo "$package"
  done
}

may_install() { ((EUID == 0)) || sudo -n true 2>/dev/null; }

# install_packages NAME...: installs Debian packages that are missing, or says how and exits 4.
install_packages() {
  local missing=() as_root=()
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]})) || return 0
  if ! may_install; then
    echo "These packages are missing, and installing them needs root. Run this once:" >&2
    echo "  sudo apt-get install --yes --no-install-recommends ${missing[*]}" >&2
    exit 4
  fi
  ((EUID == 0)) || as_root=(sudo -n)
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

# report_progress LOG NAME: how far a build is, while this launcher lives: in place on a terminal, else now and then.
report_progress() {
  local step last="" next=$((SECONDS + 30))
  while sleep 1 && kill -0 $$ 2>/dev/null; do
    step=$(grep -aoE '^ *\[[0-9]+/[0-9]+\]' "$1" 2>/dev/null | tail -n 1 | tr -d ' ') || true # nothing yet
    [[ -n $step && $step != "$last" ]] || continue
    if [[ -t 2 ]]; then
      printf '\r\033[KBuilding %s: %s' "$2" "$step" >&2
    elif ((SECONDS >= next)); then
      echo "Building $2: $step" >&2
      next=$((SECONDS + 30))
    else
      continue
    fi
    last=$step
  done
}

# compiler_name: what CMake found, as it calls itself.
compiler_name() {
  local compiler name
  compiler=$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' "$1/CMakeCache.txt" 2>/dev/null) || true
  name=$("${compiler:-c++}" --version 2>/dev/null | head -n 1) || true
  echo "${name:-no C++ compiler}"
}

# without_a_build PRESET: how this machine has the program without a build, as the first half of a remedy.
without_a_build() {
  [[ $1 == release ]] || return 0 # nothing else comes ready-made
  case $(uname -s)-$(uname -m) in
    Linux-x86_64) echo "pip install rehearse-sim needs no build; else " ;;
    *) echo "a Linux container needs no build (python/README.md, Containers); else " ;;
  esac
}

# check_tools PRESET: whether what builds is there, where no package manager of ours could tell.
check_tools() {
  local tool missing=()
  for tool in cmake ninja "${CXX:-c++}"; do
    command -v "$tool" >/dev/null || missing+=("$tool")
  done
  ((${#missing[@]})) || return 0
  echo "error: ${missing[*]} missing, which the build needs" >&2
  echo "remedy: $(without_a_build "$1")install ${missing[*]} by your package manager (pip has cmake and ninja, too)" >&2
  exit 4
}

# one_at_a_time FILE: waits for another launcher's build, where flock is there.
one_at_a_time() {
  exec 9>"$1"
  if command -v flock >/dev/null; then
    flock 9
  else
    echo "warning: without flock (util-linux) two builds at once disturb each other" >&2
  fi
}

# is_ci: true in continuous integration, where warnings are errors and nothing is left out.
is_ci() { [[ ${CI-} == 1 || ${CI-} == true ]]; }

# build_preset PRESET [TARGET...]: configures and builds, one launcher at a time. A preset that builds a program and the
# one that adds its tests share their folder, so that whoever runs both compiles the program once.
build_preset() {
  local preset=$1 folder=$1 started reporter built=1 name strict=()
  ! is_ci || strict=(-DCMAKE_COMPILE_WARNING_AS_ERROR=ON)
  case $preset in
    test) folder=release ;;
    *-test) folder=${preset%-test} ;;
  esac
  folder=$root/build/$folder
  shift
  check_tools "$preset"
  mkdir -p "$folder"
  one_at_a_time "$folder/.lock"
  # A source that changes during the build must look newer than the stamp.
  started=$(mktemp "$folder/.started.XXXXXX")
  name=${folder#"$root/"}
  [[ -e $folder/build.ninja ]] || echo "Building (once, a few minutes) in $name" >&2
  : >"$folder/build.log"
  report_progress "$folder/build.log" "$name" 9>&- &
  reporter=$!
  (cd "$root" && cmake --preset "$preset" "${strict[@]}" && cmake --build --preset "$preset" ${1:+--target "$@"}) \
    >>"$folder/build.log" 2>&1 || built=0
  kill "$reporter" 2>/dev/null || true
  wait "$reporter" 2>/dev/null || true
  [[ ! -t 2 ]] || printf '\r\033[K' >&2
  if ((!built)); then
    rm -f "$started"
    tail -n 40 "$folder/build.log" >&2
    echo "error: the build failed ($(compiler_name "$folder")); $name/build.log has all of it" >&2
    if command -v dpkg-query >/dev/null; then
      echo "remedy: GCC 12 to 14 build it; for another compiler: rm -r $name, then CXX=COMPILER ./rehearse ..." >&2
    else # nobody installed the libraries
      echo "remedy: $(without_a_build "$preset")install the libraries that src/launcher/setup.sh names, and GCC 12 to 14" >&2
    fi
    exit 4
  fi
  mv "$started" "$folder/.built"
  exec 9>&-
}
