#!/bin/sh
# Checks that the shared library shows the functions that the public header declares, and nothing else.
# exports.sh NM LIBRARY HEADER
set -eu
shown=$("$1" -D --defined-only "$2" | awk '{ print $3 }' | sort)
declared=$(grep -o '\botr_[a-z0-9_]*(' "$3" | tr -d '(' | sort -u)
strange=$(printf '%s\n' "$shown" | grep -vxF "$declared" || true)
missing=$(printf '%s\n' "$declared" | grep -vxF "$shown" || true)
[ -z "$strange" ] || printf 'shown, but not public: %s\n' $strange
[ -z "$missing" ] || printf 'public, but not shown: %s\n' $missing
[ -z "$strange$missing" ] && [ -n "$shown" ]
