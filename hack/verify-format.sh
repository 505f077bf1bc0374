#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# verify-format.sh: all Go files are as gofumpt writes them.
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

cd "$ROOT"
"$ROOT/hack/tools.sh"
unformatted=$(sources '*.go' | xargs -0 -r bin/gofumpt -l)
[ -z "$unformatted" ] || die "not formatted (hack/update-format.sh does it):"$'\n'"$unformatted"
