#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# verify-modules.sh: go.mod and go.sum list what the code imports, no more, and what was downloaded is what go.sum says.
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

cd "$ROOT"
go mod tidy -diff || die "go.mod or go.sum is not tidy: hack/update-modules.sh"
go mod verify >/dev/null || die "a downloaded module was changed: go clean -modcache, then try again"
