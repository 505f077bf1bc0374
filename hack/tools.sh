#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools.sh: build the tools of hack/tools.env into bin/, at exactly their pinned versions; what is there already is kept.
# They come through the Go module proxy and stay out of go.mod, which they would fill with some hundred modules.
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=hack/tools.env
. "$ROOT/hack/tools.env"

# built_version FILE: the version that the Go toolchain wrote into the binary.
built_version() { go version -m "$1" 2>/dev/null | awk '$1 == "mod" { print $3 }'; }

# install_tool MODULE VERSION
install_tool() {
  local file started=$SECONDS
  file=$ROOT/bin/$(basename "$1")
  [ "$(built_version "$file")" != "$2" ] || return 0
  say "building $(basename "$1") $2 (once; golangci-lint takes one to three minutes on two cores)"
  # Away from go.mod, whose versions are not those of the tool.
  (cd / && GOBIN=$ROOT/bin GOFLAGS='' go install -trimpath "$1@$2") || die "could not build $1@$2: is the Go module proxy reachable?"
  say "built $(basename "$1") in $((SECONDS - started)) s"
}

mkdir -p "$ROOT/bin"
exec 9>"$ROOT/bin/.tools.lock"
flock 9
install_tool "$GOFUMPT_MODULE" "$GOFUMPT_VERSION"
install_tool "$GOLANGCI_LINT_MODULE" "$GOLANGCI_LINT_VERSION"
