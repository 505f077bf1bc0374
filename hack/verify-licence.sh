#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# verify-licence.sh: every source file names its licence in the first line, or in the second after #!.
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

cd "$ROOT"
missing=$(sources "${LICENSED[@]}" | xargs -0 -r awk '
  FNR == 1 { shebang = /^#!/ }
  FNR == 1 + shebang && !/^(\/\/|#) SPDX-License-Identifier: Apache-2\.0$/ { print FILENAME }
  FNR == 1 + shebang { nextfile }')
[ -z "$missing" ] || die "without the line 'SPDX-License-Identifier: Apache-2.0' (hack/update-licence.sh adds it):"$'\n'"$missing"
