#!/usr/bin/env bash
# Installs what a build needs, builds in build/, and writes text with the demo pair: the target
# generates, the draft runs ahead, and the last lines say what that earned on this machine.
# Arguments go to `outrider run`: apps/demo.sh -p 'static int' -n 200 --temp 0.8
set -euo pipefail
cd "$(dirname "$0")/.."
. tests/packages.sh

install_packages "$build_packages"
configure build -Dapps=enabled
compile build

export OUTRIDER_CACHE_DIR="${OUTRIDER_CACHE_DIR:-$PWD/build/cache}"
export XDG_CACHE_HOME="$PWD/build/cache" # of Mesa
arguments=("$@")
if [ $# -eq 0 ]; then
    arguments=(-n 160 --temp 0.8 --seed 1 -p $'/* Returns the number of words in a string. */\nint count_words(const char *s)\n{\n')
fi
say "outrider run$(printf ' %q' "${arguments[@]}")"
exec build/apps/outrider run "${arguments[@]}" </dev/null
