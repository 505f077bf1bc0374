#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# setup.sh [--with-state-services]: give a Debian machine what building and testing agentd takes, and start a Docker engine.
#   --with-state-services   also start etcd and redis-server on 127.0.0.1, at their usual ports
# Installs only packages that are missing and starts only what does not answer, so a second run changes nothing.
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

STATE_DIR=${AGENTD_STATE_SERVICES_DIR:-/var/tmp/agentd-state-services}

PACKAGES=(
  ca-certificates git make procps
  gcc libc6-dev musl-tools          # go test -race; the musl image
  iptables tini                     # of the engine: its networks; --init
  mmdebstrap debian-archive-keyring # the Python image
  busybox-static                    # the busybox image
  openssh-client                    # a client to test the SSH server with
  shellcheck
  etcd-server redis-server # what a node shares with a manager
)

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

missing_packages() {
  local package
  for package in "${PACKAGES[@]}"; do
    if ! installed "$package"; then echo "$package"; fi
  done
  # An engine from another source than Debian serves as well.
  if ! command -v dockerd >/dev/null; then
    echo docker.io
  elif ! command -v docker >/dev/null; then
    echo docker-cli
  fi
}

# Three tries: a mirror that hiccups once must not fail a build.
retry() {
  local try
  for try in 1 2 3; do
    "$@" && return
    say "failed (try $try of 3): $*"
    sleep $((try * 5))
  done
  return 1
}

install_packages() {
  local packages policy=/usr/sbin/policy-rc.d own_policy='' failed=''
  mapfile -t packages < <(missing_packages)
  ((${#packages[@]})) || return 0
  command -v apt-get >/dev/null || die "missing: ${packages[*]}. Without apt-get, install what these Debian packages hold yourself"
  need_root "installing ${packages[*]}"
  say "installing ${packages[*]}"
  export DEBIAN_FRONTEND=noninteractive
  retry apt-get update -qq >/dev/null || die "apt-get update failed: check the network and /etc/apt/sources.list*"
  # Packages start no services: this script starts what is wanted.
  if [ ! -e "$policy" ]; then
    own_policy=1
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
  fi
  retry apt-get -o DPkg::Lock::Timeout=120 install -y -qq --no-install-recommends "${packages[@]}" >/dev/null || failed=1
  # From Debian 13 on, the client is a package of its own.
  if [ -z "$failed" ] && ! command -v docker >/dev/null; then retry apt-get -o DPkg::Lock::Timeout=120 install -y -qq --no-install-recommends docker-cli >/dev/null || failed=1; fi
  if [ -n "$own_policy" ]; then rm -f "$policy"; fi
  [ -z "$failed" ] || die "could not install ${packages[*]}: the lines above say why"
}

check_go() {
  local want have
  want=$(sed -n 's/^go //p' "$ROOT/go.mod")
  command -v go >/dev/null || die "no go on PATH: install Go $want or newer from https://go.dev/dl/"
  have=$(cd "$ROOT" && go env GOVERSION) || die "go does not run in $ROOT"
  [ "$(printf '%s\n' "$want" "${have#go}" | sort -V | head -n 1)" = "$want" ] ||
    die "go is $have, agentd needs $want: install a newer one from https://go.dev/dl/"
}

check_engine() {
  command -v docker-init >/dev/null || die "no docker-init beside dockerd: kernels start with --init. Install Debian's tini, or docker.io"
  "$ROOT/hack/dockerd.sh" start
}

port_open() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

start_state_services() {
  if ! port_open 2379; then
    mkdir -p "$STATE_DIR/etcd"
    say "starting etcd (log: $STATE_DIR/etcd.log)"
    setsid nohup etcd --data-dir "$STATE_DIR/etcd" --unsafe-no-fsync >"$STATE_DIR/etcd.log" 2>&1 </dev/null &
    wait_until 30 port_open 2379 || die "etcd does not answer on port 2379; log: $STATE_DIR/etcd.log"
  fi
  if ! port_open 6379; then
    mkdir -p "$STATE_DIR"
    say "starting redis-server (log: $STATE_DIR/redis.log)"
    setsid nohup redis-server --bind 127.0.0.1 --save '' --appendonly no --dir "$STATE_DIR" >"$STATE_DIR/redis.log" 2>&1 </dev/null &
    wait_until 30 port_open 6379 || die "redis-server does not answer on port 6379; log: $STATE_DIR/redis.log"
  fi
}

state_services=
for argument; do
  case $argument in
    --with-state-services) state_services=1 ;;
    *) die "usage: hack/setup.sh [--with-state-services]" ;;
  esac
done

install_packages
check_go
check_engine
if [ -n "$state_services" ]; then start_state_services; fi
