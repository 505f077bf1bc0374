# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
# One static program and nothing else: no shell, no /etc/passwd, no /tmp. It has no base-distro label either, and no ldd to ask.
IMAGE=agentd.local/noshell:1
CHANGES=(
  'CMD ["/noshell", "wait"]'
  'LABEL ai.backend.kernelspec=1 ai.backend.role=COMPUTE ai.backend.features="batch uid-match"'
  'LABEL ai.backend.runtime-type=app ai.backend.runtime-path=/noshell'
  'LABEL ai.backend.resource.min.cpu=1 ai.backend.resource.min.mem=16m'
)
inputs() { go env GOVERSION GOARCH; }
make_root() {
  mkdir -p "$1"
  (cd "$RECIPES/noshell" && CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '-s -w' -o "$1/noshell" .)
}
