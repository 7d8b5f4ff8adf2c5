# Sourced by apps/demo.sh, tests/run.sh and .ci/run: the Debian packages that a build and its tests
# need. Installs what is missing, and nothing else outside the checkout.

build_packages="meson ninja-build gcc libc6-dev pkg-config glslc spirv-tools libvulkan-dev
    libvulkan-volk-dev mesa-vulkan-drivers libpcre2-dev libjansson-dev"
test_packages="check vulkan-validationlayers chromium-common"

say() {
    printf '==> %s\n' "$*"
}

die() {
    printf '%s: %s\n' "$0" "$*" >&2
    exit 1
}

# True when a build can go on without the package manager. Prints what is missing.
have_build_tools() {
    local missing="" tool module
    for tool in meson ninja cc pkg-config glslc; do
        command -v "$tool" >/dev/null || missing="$missing $tool"
    done
    for module in libpcre2-8 jansson vulkan "$@"; do
        pkg-config --exists "$module" 2>/dev/null || missing="$missing $module"
    done
    [ -z "$missing" ] || printf 'missing:%s\n' "$missing" >&2
    [ -z "$missing" ]
}

# install_packages "PACKAGES" [PKG-CONFIG MODULES that the packages bring]
install_packages() {
    local packages=$1 missing="" package sudo=""
    shift
    if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
        say "this is not a Debian system (no apt-get): using the tools that are there"
        have_build_tools "$@" ||
            die "install what is missing with your package manager; README.md says what for"
        return
    fi
    for package in $packages; do
        dpkg-query -W -f '${Status}\n' "$package" 2>/dev/null | grep -q '^install ok installed' ||
            missing="$missing $package"
    done
    if [ -z "$missing" ]; then
        say "all packages are installed"
        return
    fi
    if [ "$(id -u)" != 0 ]; then
        sudo=sudo
        if ! command -v sudo >/dev/null; then
            have_build_tools "$@" && say "not installed (no sudo):$missing" && return
            die "as root, run: apt-get install$missing"
        fi
    fi
    say "installing with ${sudo:+sudo }apt-get:$missing"
    # shellcheck disable=SC2086 # lists of words
    if ! { $sudo apt-get update -q &&
        $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
            $missing; } </dev/null; then
        have_build_tools "$@" || die "apt-get could not install:$missing"
        say "apt-get could not install:$missing; going on, since a build needs none of them"
    fi
}

# configure FOLDER [MESON OPTIONS]: sets a build folder up, or gives an old one these options. Does
# nothing when they were given before, since that alone would run meson again.
configure() {
    local folder=$1 option given="$1/meson-private/outrider-options"
    shift
    if [ ! -f "$folder/build.ninja" ]; then
        say "meson setup $folder $*"
        meson setup "$folder" "$@" || die "meson setup failed"
    else
        for option in "$@"; do
            grep -qsxF -e "$option" "$given" && continue
            say "meson configure $folder $*"
            meson configure "$folder" "$@"
            break
        done
    fi
    printf '%s\n' "$@" >>"$given"
    sort -u -o "$given" "$given"
}

# compile FOLDER [TARGET ...]
compile() {
    say "ninja -C $*"
    ninja -C "$@"
}
