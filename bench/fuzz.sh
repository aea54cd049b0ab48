#!/usr/bin/env bash
# Runs every fuzz target of the module, one after the other.
#
#   fuzz.sh [TIME]   how long each (default 20s)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export GOTOOLCHAIN=${GOTOOLCHAIN:-go1.27.3}
time=${1:-20s}

targets=0
failed=()
# Only the packages that have one: listing the targets of a package compiles its tests.
for dir in $(git grep -l --untracked '^func Fuzz' -- '*_test.go' | xargs -r -n1 dirname | sort -u); do
  names=$(go test -tags synctests -list '^Fuzz' "./$dir" | grep '^Fuzz' || true)
  for name in $names; do
    targets=$((targets + 1))
    echo "== $dir $name for $time"
    go test -tags synctests -run '^$' -fuzz "^$name\$" -fuzztime "$time" "./$dir" || failed+=("$dir $name")
  done
done
[ "$targets" -gt 0 ] || { echo "no fuzz target found" >&2; exit 1; }
if [ ${#failed[@]} -gt 0 ]; then
  printf 'failed: %s\n' "${failed[@]}" >&2
  echo "the input that failed is in the package's testdata/fuzz" >&2
  exit 1
fi
echo "$targets fuzz targets, none failed"
