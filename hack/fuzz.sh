#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# fuzz.sh [DURATION]: run every fuzz target of the repository for that long (30s), one after another.
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

cd "$ROOT"
duration=${1:-30s}
targets=$(sources '*_test.go' | xargs -0 -r grep -HoE '^func Fuzz[A-Za-z0-9_]+' | sed 's/:func /:/')
[ -n "$targets" ] || die "no fuzz targets in this repository"
while IFS=: read -r file target; do
  package=./$(dirname "$file")
  echo "== $target in $package for $duration"
  go test -run '^$' -fuzz "^$target\$" -fuzztime "$duration" "$package"
done <<<"$targets"
