# What the wheel's program is linked with, built from the sources of Debian's packages and of SimGrid by Zig's compilers
# (zig.cmake), once for each processor. Sourced by `package`; expects `root`, `python`, `jobs`, `processor` and fail().
# shellcheck shell=bash disable=SC2154

# SimGrid's source as PyPI has it. The wheel holds it, too, as the LGPL asks.
simgrid=simgrid-4.1
simgrid_sha256=23ac24cb5b2467f1f051c992ec921b4a9f8f5ac2df16c489bd01bf1c44e6e817
# Debian's packages: sources that are built, and headers that are taken as they are.
source_packages=(yaml-cpp fmtlib sqlitecpp mimalloc xz-utils xxhash zlib cpp-httplib)
header_packages=(libcli11-dev nlohmann-json3-dev libeigen3-dev rapidjson-dev libtomlplusplus-dev)
# The oldest C library that the wheel runs with: RHEL, Rocky and Alma 8.
glibc=2.28

libraries=$root/build/wheel-libraries
sources=$libraries/sources
prefix=$libraries/$processor/prefix

# shown LOG NAME COMMAND...: runs it, its output into a log, and shows how far it is.
shown() {
  local log=$1 name=$2 reporter ended=0
  shift 2
  echo "Building $name" >&2
  : >"$log"
  report_progress "$log" "$name" &
  reporter=$!
  "$@" >>"$log" 2>&1 || ended=$?
  kill "$reporter" 2>/dev/null || true
  wait "$reporter" 2>/dev/null || true
  [[ ! -t 2 ]] || printf '\r\033[K' >&2
  ((ended == 0)) || {
    tail -n 30 "$log" >&2
    fail "$name did not build" "read $log"
  }
}

# make_compilers: programs named cc, c++, ar and ranlib that call Zig's.
make_compilers() {
  local zig tool target=$processor-linux-gnu.$glibc
  zig=$("$python/python" -c 'import os, ziglang; print(os.path.dirname(ziglang.__file__))')/zig
  export REHEARSE_ZIG=$libraries/$processor/bin REHEARSE_ZIG_PREFIX=$prefix REHEARSE_ZIG_PROCESSOR=$processor
  export ZIG_GLOBAL_CACHE_DIR=$libraries/cache ZIG_LOCAL_CACHE_DIR=$libraries/cache
  mkdir -p "$REHEARSE_ZIG"
  for tool in cc c++ ar ranlib; do
    case $tool in
      c*) printf '#!/bin/sh\nexec %q %s -target %s "$@"\n' "$zig" "$tool" "$target" ;;
      *) printf '#!/bin/sh\nexec %q %s "$@"\n' "$zig" "$tool" ;;
    esac >"$REHEARSE_ZIG/$tool"
    chmod +x "$REHEARSE_ZIG/$tool"
  done
}

# get_sources: of the packages, as this Debian's own archive signs them, and SimGrid's.
get_sources() {
  local file=$sources/$simgrid.tar.gz state=$libraries/apt
  mkdir -p "$sources" "$state/lists/partial"
  [[ -e $file ]] || "$python/pip" download --quiet --no-deps --no-build-isolation --no-binary simgrid \
    --dest "$sources" "${simgrid/-/==}" >&2
  echo "$simgrid_sha256  $file" | sha256sum --check --quiet >&2 ||
    fail "$file is not the source that this was made with" "rm $file, and run it again"
  [[ ! -e $sources/.complete ]] || return 0
  # shellcheck disable=SC2016
  apt-get indextargets --format '$(SITE) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' |
    sort -u | sed 's/^/deb-src /' >"$state/sources.list"
  local options=(-qq -o "Dir::Etc::SourceList=$state/sources.list" -o Dir::Etc::SourceParts=/dev/null
    -o "Dir::State::Lists=$state/lists" -o APT::Sandbox::User=root)
  (cd "$sources" && apt-get "${options[@]}" update &&
    apt-get "${options[@]}" source "${source_packages[@]}") >"$libraries/sources.log" 2>&1 ||
    fail "the sources of ${source_packages[*]} could not be had" "read $libraries/sources.log"
  touch "$sources/.complete"
}

# take_headers: of packages that are headers alone; what finds them there finds them here.
take_headers() {
  local package
  mkdir -p "$prefix/include"
  for package in "${header_packages[@]}"; do
    dpkg -L "$package" | grep -E '^/usr/(include|share/eigen3|share/cmake|lib/cmake|lib/[^/]*/cmake|share/pkgconfig)/' |
      sed 's|^/usr/||' | while read -r file; do [[ -d /usr/$file ]] || echo "$file"; done |
      tar -C /usr --create --files-from=- | tar -C "$prefix" --extract
  done
  ln -sfn /usr/include/boost "$prefix/include/boost"
}

# with_cmake NAME SOURCE OPTION...: builds it, and installs it into the prefix.
with_cmake() {
  local build=$libraries/$processor/$1 source=$2
  shift 2
  cmake -S "$source" -B "$build" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$root/src/launcher/zig.cmake" \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR=lib -DBUILD_SHARED_LIBS=OFF \
    -DBUILD_TESTING=OFF -DCMAKE_POSITION_INDEPENDENT_CODE=ON "$@" &&
    cmake --build "$build" -j "$jobs" && cmake --install "$build"
}

# with_configure NAME SOURCE OPTION...: the same, by a `configure`.
with_configure() {
  local build=$libraries/$processor/$1 source=$2
  shift 2
  rm -rf "$build"
  cp -a "$source" "$build"
  (cd "$build" && CC=$REHEARSE_ZIG/cc AR=$REHEARSE_ZIG/ar RANLIB=$REHEARSE_ZIG/ranlib CFLAGS="-O2 -fPIC" \
    ./configure "$@" --prefix="$prefix" &&
    # The archive has what these would make; times of its files may say otherwise.
    make -j "$jobs" install ACLOCAL=: AUTOCONF=: AUTOHEADER=: AUTOMAKE=:)
}

# source_of PATTERN: the one folder among the sources.
source_of() { compgen -G "$sources/$1" | while read -r one; do [[ ! -d $one ]] || echo "$one"; done | head -n 1; }

build_small_libraries() {
  with_cmake fmt "$(source_of 'fmtlib-*')" -DFMT_TEST=OFF -DFMT_DOC=OFF &&
    with_cmake yaml-cpp "$(source_of 'yaml-cpp-*')" -DYAML_CPP_BUILD_TESTS=OFF -DYAML_CPP_BUILD_TOOLS=OFF &&
    with_cmake mimalloc "$(source_of 'mimalloc-*')" -DMI_BUILD_TESTS=OFF -DMI_BUILD_SHARED=OFF -DMI_BUILD_OBJECT=OFF &&
    with_cmake xxhash "$(source_of 'xxhash-*')/cmake_unofficial" -DXXHASH_BUILD_XXHSUM=OFF &&
    with_cmake sqlitecpp "$(source_of 'sqlitecpp-*')" -DSQLITECPP_RUN_CPPLINT=OFF -DSQLITECPP_INTERNAL_SQLITE=ON &&
    # `serve` is plain HTTP on this machine alone.
    with_cmake httplib "$(source_of 'cpp-httplib-*')" -DHTTPLIB_USE_OPENSSL_IF_AVAILABLE=OFF \
      -DHTTPLIB_USE_BROTLI_IF_AVAILABLE=OFF -DHTTPLIB_USE_ZLIB_IF_AVAILABLE=OFF &&
    with_configure zlib "$(source_of 'zlib-*')" --static &&
    with_configure xz "$(source_of 'xz-utils-*')" --host="$processor-linux-gnu" --disable-shared --disable-nls \
      --disable-xz --disable-xzdec --disable-lzmadec --disable-lzmainfo --disable-scripts --disable-doc &&
    package_config cpp-httplib
}

# package_config NAME [LIBS]: for pkg-config.
package_config() {
  mkdir -p "$prefix/lib/pkgconfig"
  printf 'Name: %s\nDescription: of the wheel\nVersion: 1\nLibs: -L%s/lib %s\nCflags: -I%s/include\n' \
    "$1" "$prefix" "${2-}" "$prefix" >"$prefix/lib/pkgconfig/$1.pc"
}

# build_simgrid: the core alone: no ns-3, SMPI, model checker, Java or Python.
build_simgrid() {
  local build=$libraries/$processor/simgrid
  mkdir -p "$build"
  # Its configuration leaves a program in the folder that it is called from. -Bsymbolic: SimGrid and the program have a
  # libc++ each, and neither may take parts of the other's.
  cmake -E chdir "$build" cmake -S "$sources/$simgrid" -B . -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_TOOLCHAIN_FILE="$root/src/launcher/zig.cmake" -DCMAKE_INSTALL_PREFIX=/usr \
    -DCMAKE_CXX_FLAGS_RELEASE="-O2 -g0 -DNDEBUG" -DCMAKE_C_FLAGS_RELEASE="-O2 -g0 -DNDEBUG" \
    -DCMAKE_CXX_FLAGS="-ffile-prefix-map=$root=. -D_LIBCPP_ENABLE_CXX17_REMOVED_UNARY_BINARY_FUNCTION" \
    -DCMAKE_C_FLAGS="-ffile-prefix-map=$root=." \
    -DCMAKE_SHARED_LINKER_FLAGS=-Wl,-Bsymbolic -DDL_LIBRARY:STRING=-ldl \
    -Dminimal-bindings=ON -DEIGEN3_HINT=OFF -Denable_java=OFF -Denable_python=OFF -Denable_ns3=OFF \
    -Denable_smpi=OFF -Denable_sthread=OFF -Denable_model-checking=OFF -Denable_documentation=OFF \
    -Denable_lto=OFF &&
    cmake --build "$build" --target simgrid -j "$jobs" &&
    # SimGrid's own install wants all of its targets.
    cp -P "$build"/lib/libsimgrid.so* "$prefix/lib/" &&
    cp -R "$sources/$simgrid/include/." "$build/include/." "$prefix/include/" &&
    package_config simgrid -lsimgrid
}

# build_libraries: all of them, once.
build_libraries() {
  make_compilers
  [[ ! -e $prefix/.complete ]] || return 0
  get_sources
  rm -rf "${libraries:?}/$processor"
  make_compilers
  tar -xzf "$sources/$simgrid.tar.gz" -C "$sources"
  shown "$libraries/headers.log" "what is headers alone" take_headers
  shown "$libraries/small.log" "the libraries (once, some minutes)" build_small_libraries
  shown "$libraries/simgrid.log" "$simgrid (once, some minutes)" build_simgrid
  touch "$prefix/.complete"
}
