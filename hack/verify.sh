#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# verify.sh: run every hack/verify-*.sh, then say which failed. A tool that is missing is a failure.
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

passed=() failed=()
for script in "$ROOT"/hack/verify-*.sh; do
  name=$(basename "$script" .sh)
  name=${name#verify-}
  started=$SECONDS
  echo "== verify $name"
  if "$script"; then passed+=("$name"); else failed+=("$name"); fi
  if ((SECONDS - started > 5)); then echo "   $((SECONDS - started)) s"; fi
done
echo "verified: ${passed[*]:-nothing}"
if ((${#failed[@]})); then
  echo "failed: ${failed[*]}"
  for name in "${failed[@]}"; do
    if [ -x "$ROOT/hack/update-$name.sh" ]; then echo "  hack/update-$name.sh repairs what a machine can"; fi
  done
  exit 1
fi
