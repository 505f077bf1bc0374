# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
# What the scripts of this repository share; sourced, never run.
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '%s\n' "$*" >&2; }
die() {
  say "error: $*"
  exit 1
}

# need_root WHAT: only root may go on.
need_root() { [ "$(id -u)" = 0 ] || die "$1 needs root: run it again as root"; }

docker_answers() { timeout 10 docker info >/dev/null 2>&1; }

# wait_until SECONDS COMMAND…: polls until the command succeeds; fails once the seconds have passed.
wait_until() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    ((SECONDS < end)) || return 1
    sleep 0.1
  done
}

# sources PATTERN…: prints the files of this repository that match, whether committed yet or not, with a zero byte after each.
# What tests read is data, not source.
sources() {
  (cd "$ROOT" && git ls-files -z --cached --others --exclude-standard --deduplicate -- "$@" ':!:**/testdata/**' |
    while IFS= read -r -d '' file; do if [ -f "$file" ]; then printf '%s\0' "$file"; fi; done)
}

# The files that are to name their licence.
LICENSED=('*.go' '*.sh' '*.bash' '*.c' '*.py' '*.yml' '*.yaml' '*.env' Makefile .ci/run)
