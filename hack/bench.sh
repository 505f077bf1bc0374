#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Figures of the README: agentd against the bare engine in one run, medians of
# five; then the benchmarks of the packages.
set -euo pipefail
cd "$(dirname "$0")/.."

go run ./test/bench -bin bin -rounds "${ROUNDS:-5}" -many "${MANY:-50}"
echo
go test -run '^$' -bench . -benchtime "${BENCHTIME:-1s}" ./pkg/controller ./pkg/reconciler ./pkg/slots ./pkg/netplan ./pkg/runtime/scratch
