#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# update-format.sh: have gofumpt rewrite all Go files.
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

cd "$ROOT"
"$ROOT/hack/tools.sh"
sources '*.go' | xargs -0 -r bin/gofumpt -w
