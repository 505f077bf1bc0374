#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# verify-shell.sh: shellcheck finds nothing in any script.
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

cd "$ROOT"
command -v shellcheck >/dev/null || die "no shellcheck: run hack/setup.sh"
sources '*.sh' '*.bash' .ci/run | xargs -0 -r shellcheck -x || die "hack/update-shell.sh repairs part of it"
