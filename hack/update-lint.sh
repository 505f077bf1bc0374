#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# update-lint.sh: repair what golangci-lint can repair by itself; the rest is printed.
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

cd "$ROOT"
"$ROOT/hack/tools.sh"
bin/golangci-lint run --fix ./...
