#!/usr/bin/env bash
# Tests of tier 3 on a machine whose glslc or drivers have no cooperative matrices, run by hand as root:
#   tests/tier3.sh [CHROOT]
# CHROOT (default /tmp/peers/forky) is a Debian forky or newer with mesa-vulkan-drivers, whose lavapipe
# offers VK_KHR_cooperative_matrix. The script builds this checkout inside it, and for that installs
# there what tests/packages.sh lists, without SwiftShader. The last line is "N passed, N failed, N skipped".
set -euo pipefail
cd "$(dirname "$0")/.."
. tests/packages.sh
root=${1:-/tmp/peers/forky}
[ -d "$root/usr" ] || die "no chroot at $root (mmdebstrap or debootstrap forky, then mesa-vulkan-drivers)"

inside() {
    chroot "$root" env LC_ALL=C.UTF-8 OUTRIDER_CACHE_DIR=/outrider-tier3/build/cache \
        VK_DRIVER_FILES=/usr/share/vulkan/icd.d/lvp_icd.json "$@" </dev/null
}

mkdir -p "$root/outrider-tier3/source" "$root/outrider-tier3/build"
trap 'umount "$root/outrider-tier3/source" 2>/dev/null || true' EXIT
mount --bind "$PWD" "$root/outrider-tier3/source"

# shellcheck disable=SC2086 # lists of words
{
    packages="$build_packages ${test_packages/chromium-common/}"
    inside dpkg-query -W $packages >/dev/null 2>&1 ||
        inside env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $packages
}
[ -f "$root/outrider-tier3/build/build.ninja" ] ||
    inside meson setup /outrider-tier3/build /outrider-tier3/source -Dapps=enabled -Dtests=enabled
inside ninja -C /outrider-tier3/build

log=meson-logs/testlog.json
result=0
inside rm -f "/outrider-tier3/build/$log"
inside meson test -C /outrider-tier3/build --no-rebuild --print-errorlogs \
    'device*lavapipe*' 'kernels*lavapipe*' 'loop budget*' 'self-test *lavapipe*' 'cooperative*' \
    'program devices*lavapipe*' 'golden logits, tier 3*' 'invariants, tier 3*' \
    'tuning bits, tier 3*' 'tier limit*lavapipe*' 'MXFP4*lavapipe*' || result=$?
python3 tests/count.py "$root/outrider-tier3/build/$log" || result=1
exit "$result"
