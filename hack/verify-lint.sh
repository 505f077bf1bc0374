#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# verify-lint.sh: golangci-lint with the rules of .golangci.yml, the direction of imports among them.
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

cd "$ROOT"
"$ROOT/hack/tools.sh"
bin/golangci-lint config verify || die ".golangci.yml does not fit the linter's schema"
bin/golangci-lint run ./...
