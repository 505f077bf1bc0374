#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# verify-tree.sh: the repository stands alone and has sources only: no paths of one machine, nothing beside the repository, no
# binaries, no files that are left over from a merge.
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

cd "$ROOT"
failed=
# report WHAT LINES
report() {
  if [ -n "$2" ]; then
    say "$1:"$'\n'"$2"
    failed=1
  fi
}

# foreign_paths PATTERN PATHSPEC…: prints what matches, each match by itself, so that a kernel's path does not excuse another on its
# line. A kernel's own paths are no machine's: /home/work, /home/config, /home/linuxbrew. Written so that this file does not match.
start='(^|[^[:alnum:]_./-])'
foreign_paths() {
  git grep --untracked -nIoE "($1)[^[:space:]\"'\`]*" -- "${@:2}" | grep -vE ":.?/h[o]me/(work|config|linuxbrew)([^[:alnum:]]|$)" || true
}
report "paths that exist on one machine only" "$(foreign_paths "$start/(r[o]ot|U[s]ers)/|$start/w[o]rk/(main|shared)|[.][.]/sh[a]red" .)"
# Tests may invent a user.
report "somebody's home directory" "$(foreign_paths "$start/h[o]me/[[:alnum:]]" . ':!:*_test.go' ':!:**/testdata/**')"

# Compared with the empty tree; of a binary file git counts no lines, and prints a dash.
binaries=$(git diff --cached --numstat "$(git hash-object -t tree /dev/null)" -- ':!:**/testdata/**' | awk -F '\t' '$1 == "-" { print $3 }')
report "binary files" "$binaries"
report "larger than 1 MB" "$(sources . | xargs -0 -r stat -c '%s %n' | awk '$1 > 1e6 { print $2 }')"
report "marks of a merge" "$(git grep --untracked -nIE '^(<<<<<<<|>>>>>>>) ' || true)"
report "scripts that are not executable" "$(sources '*.sh' .ci/run | xargs -0 -r grep -lE -m 1 '^#!' | while read -r file; do if [ ! -x "$file" ]; then echo "$file"; fi; done)"
[ -z "$failed" ] || exit 1
