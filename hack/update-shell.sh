#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# update-shell.sh: repair what shellcheck can repair by itself; verify-shell.sh prints the rest.
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

cd "$ROOT"
command -v shellcheck >/dev/null || die "no shellcheck: run hack/setup.sh"
patch=$(sources '*.sh' '*.bash' .ci/run | xargs -0 -r shellcheck -x -f diff 2>/dev/null || true)
[ -z "$patch" ] || git apply <<<"$patch"
