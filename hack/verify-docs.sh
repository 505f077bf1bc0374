#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# verify-docs.sh: every package says what it is for.
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

cd "$ROOT"
missing=$(go list -f '{{if not .Doc}}{{.ImportPath}}{{end}}' ./...)
[ -z "$missing" ] || die "without a package comment:"$'\n'"$missing"
