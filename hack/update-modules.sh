#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# update-modules.sh: tidy go.mod and go.sum.
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

cd "$ROOT"
go mod tidy
