# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
# A small everyday kernel: Debian 13 with Python, a Jupyter kernel and an SSH client, from Debian packages. Its base-distro is
# debian, a name that agents with prebuilt per-distribution binaries refuse.
IMAGE=agentd.local/python:3.13-trixie
SUITE=trixie
CHANGES=(
  'CMD ["/usr/bin/python3"]'
  'ENV LANG=C.UTF-8'
  'LABEL ai.backend.kernelspec=1 ai.backend.role=COMPUTE ai.backend.features="query batch user-input uid-match" ai.backend.base-distro=debian'
  'LABEL ai.backend.runtime-type=python ai.backend.runtime-path=/usr/bin/python3'
  'LABEL ai.backend.service-ports="web:http:8000,echo:tcp:[8081,8082]"'
  'LABEL ai.backend.envs.corecount="OPENBLAS_NUM_THREADS,OMP_NUM_THREADS,NPROC"'
  'LABEL ai.backend.resource.min.cpu=1 ai.backend.resource.min.mem=64m ai.backend.resource.preferred.shmem=64m'
)
inputs() { echo "$SUITE $(dpkg --print-architecture)"; }
make_root() {
  local mirror
  mirror=$(debian_mirror)
  # Before the first update apt knows none.
  [ -n "$mirror" ] || { apt-get update -qq && mirror=$(debian_mirror); }
  [ -n "$mirror" ] || die "apt has no Debian mirror: see /etc/apt/sources.list*"
  mmdebstrap --mode=root --variant=minbase \
    --include=python3,python3-ipykernel,openssh-client,procps,iproute2 \
    --aptopt='Acquire::Retries "3"' --aptopt='APT::Install-Recommends "false"' \
    --dpkgopt=force-unsafe-io --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/info/*' \
    "$SUITE" "$1" "$mirror"
  # The debugger and type stubs of ipykernel's dependencies, a third of the image, serve no kernel.
  rm -rf "$1"/usr/bin/gdb "$1"/usr/lib/python3/dist-packages/*-stubs "$1"/usr/share/{i18n,gdb} "$1"/var/cache/apt/* \
    "$1"/var/lib/apt/lists/* "$1"/var/log/*
  cp -a --no-preserve=ownership "$RECIPES/python/files/." "$1/"
}
