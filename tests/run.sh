#!/usr/bin/env bash
# Installs what the tests need, builds, and runs the suites. The last line is
# "N passed, N failed, N skipped", counted from what ran.
#   tests/run.sh             suites unit, device and model, in build/
#   tests/run.sh --slow      the slow suite, in build/
#   tests/run.sh --sanitize  the host tests (suite unit) with the address and undefined-behaviour
#                            sanitizers, in build-sanitize/
#   tests/run.sh --threads   the tests of scheduling with the thread sanitizer, on a mock device (suite
#                            threads), in build-threads/
set -euo pipefail
cd "$(dirname "$0")/.."
. tests/packages.sh

folder=build targets=()
suites=(--suite unit --suite device --suite model)
options=(-Dapps=enabled -Dtests=enabled)
for argument in "$@"; do
    case $argument in
    --slow)
        suites=(--suite slow)
        ;;
    --sanitize)
        folder=build-sanitize
        suites=(--suite unit)
        options+=(-Db_sanitize=address,undefined -Db_lundef=false
            "-Dc_args=-fno-sanitize-recover=all -fno-omit-frame-pointer")
        export UBSAN_OPTIONS=print_stacktrace=1 ASAN_OPTIONS=detect_stack_use_after_return=1
        ;;
    --threads)
        folder=build-threads
        suites=(--suite threads)
        targets=(tests/runtime/test_schedules tests/runtime/test_soak tests/runtime/libmock_vulkan.so)
        options+=(-Db_sanitize=thread -Db_lundef=false)
        ;;
    *)
        die "unknown option $argument (there are --slow, --sanitize and --threads)"
        ;;
    esac
done

install_packages "$build_packages $test_packages" check
configure "$folder" "${options[@]}"
compile "$folder" "${targets[@]}"

export OUTRIDER_CACHE_DIR="$PWD/$folder/cache"
export XDG_CACHE_HOME="$PWD/$folder/cache" # of Mesa and the validation layers
rm -f "$folder/meson-logs/testlog.json"
say "meson test -C $folder ${suites[*]}"
result=0
meson test -C "$folder" --no-rebuild --print-errorlogs "${suites[@]}" </dev/null || result=$?
python3 tests/count.py "$folder/meson-logs/testlog.json" || result=1
exit "$result"
