#!/usr/bin/env bash
# Decode and prefill speed beside llama.cpp's Vulkan backend, on lavapipe, run by hand as root:
#   tests/bench/compare_llama.sh MODEL.gguf [CHROOT]
# CHROOT (default /tmp/peers/forky) is a Debian forky or newer with the packages llama.cpp-tools,
# libggml0-backend-vulkan and mesa-vulkan-drivers. The script builds this checkout inside it, so that
# both programs run on the same Mesa; for that it installs there: meson gcc libc6-dev pkg-config glslc
# spirv-tools libvulkan-dev libvulkan-volk-dev libpcre2-dev libjansson-dev.
# The programs take turns, ROUNDS (5) times; medians are printed. Both warm up first. Decode: one token's pass,
# ours with the choice of the token, which llama-bench doesn't make; generate: 16 of ours in a row. Prefill: 64
# tokens. Two threads for llama.cpp's host part; ours has no choice to make there.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ $# -ge 1 ] || {
    sed -n '2,4s/^# //p' "$0"
    exit 2
}
model=$(realpath "$1")
root=${2:-/tmp/peers/forky}
rounds=${ROUNDS:-5}

inside() {
    chroot "$root" env LC_ALL=C.UTF-8 OUTRIDER_CACHE_DIR=/outrider-build/cache \
        VK_DRIVER_FILES=/usr/share/vulkan/icd.d/lvp_icd.json "$@" </dev/null
}

unmount() {
    umount "$root/outrider-source" "$root/outrider-model.gguf" 2>/dev/null || true
}
mkdir -p "$root/outrider-source"
touch "$root/outrider-model.gguf"
trap unmount EXIT
mount --bind "$PWD" "$root/outrider-source"
mount --bind "$model" "$root/outrider-model.gguf"

packages="meson gcc libc6-dev pkg-config glslc spirv-tools libvulkan-dev libvulkan-volk-dev
    libpcre2-dev libjansson-dev"
# shellcheck disable=SC2086 # a list of words
inside dpkg-query -W $packages >/dev/null 2>&1 ||
    inside env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $packages
[ -f "$root/outrider-build/build.ninja" ] ||
    inside meson setup /outrider-build /outrider-source -Dapps=enabled -Dtests=disabled
inside ninja -C /outrider-build

results=$(mktemp)
trap 'rm -f "$results"; unmount' EXIT
ours() {
    inside /outrider-build/apps/outrider bench -m /outrider-model.gguf -n 17 -p 64 --rows 2 -r 1 \
        --json --quiet | tr '\n' ' ' | sed 's/^/outrider /'
    printf '\n'
}
for ((round = 1; round <= rounds; round++)); do
    printf 'round %d of %d\n' "$round" "$rounds" >&2
    {
        inside env GGML_VK_VISIBLE_DEVICES=0 llama-bench -m /outrider-model.gguf -ngl 99 -p 64 -n 16 \
            -r 1 -t 2 -o jsonl 2>/dev/null | sed 's/^/llama.cpp /'
        ours
    } >>"$results"
done

printf '%s, %s, load %s\n' "$(basename "$model")" \
    "$(inside dpkg-query -W -f '${Package} ${Version}, ' mesa-vulkan-drivers libllama0 |
        sed 's/, $//')" "$(cut -d ' ' -f 1 /proc/loadavg)"
python3 - "$results" <<'PYTHON'
import json
import statistics
import sys

speeds = {}
for line in open(sys.argv[1], encoding="utf-8"):
    who, value = line.split(" ", 1)
    value = json.loads(value)
    if who == "llama.cpp":
        found = [("prefill" if value["n_prompt"] else "decode", value["avg_ts"])]
    else:
        names = {("prefill", 64): "prefill", ("decode", 1): "decode", ("speculate", 0): "generate"}
        found = [(names[r["test"], r["rows"]], r["tokens_per_second"]) for r in value["results"]
                 if (r["test"], r["rows"]) in names]
    for what, speed in found:
        speeds.setdefault((who, what), []).append(speed)
for (who, what), values in sorted(speeds.items()):
    print("%-9s %-8s %7.2f tokens/s  (%.2f to %.2f, %d runs)" %
          (who, what, statistics.median(values), min(values), max(values), len(values)))
PYTHON
