#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# update-licence.sh: add the licence line to source files that lack it.
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

cd "$ROOT"
sources "${LICENSED[@]}" | while IFS= read -r -d '' file; do
  if head -n 2 "$file" | grep -q SPDX-License-Identifier; then continue; fi
  case $file in
    # A blank line keeps it out of the package's documentation.
    *.go) sed -i '1i // SPDX-License-Identifier: Apache-2.0\n' "$file" ;;
    *.c) sed -i '1i // SPDX-License-Identifier: Apache-2.0' "$file" ;;
    *) if [[ $(head -c 2 "$file") = '#!' ]]; then
      sed -i '1a # SPDX-License-Identifier: Apache-2.0' "$file"
    else
      sed -i '1i # SPDX-License-Identifier: Apache-2.0' "$file"
    fi ;;
  esac
  say "$file"
done
