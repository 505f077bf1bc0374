# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
# The smallest image with a shell; made in a second, so most tests use it.
IMAGE=agentd.local/busybox:1
CHANGES=(
  'CMD ["/bin/sh"]'
  'LABEL ai.backend.kernelspec=1 ai.backend.role=COMPUTE ai.backend.features="batch uid-match" ai.backend.base-distro=debian'
  'LABEL ai.backend.runtime-type=app ai.backend.runtime-path=/bin/sh'
  'LABEL ai.backend.resource.min.cpu=1 ai.backend.resource.min.mem=16m'
)
inputs() { package_version busybox-static; }
make_root() { busybox_root "$1"; }
