#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Shows the main job on this machine: a cluster session of three containers in
# which "ssh sub1" works, what happens when one dies, and the repair of a node.
# KEEP=1 leaves the agent and the session running.
set -euo pipefail
cd "$(dirname "$0")/.."

KEEP=${KEEP:-0}
began=$(date +%s)
say() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
run() { printf '\033[2m$ %s\033[0m\n' "$*"; "$@"; }

say "Set up what is missing (Docker Engine, build tools, image)"
hack/setup.sh
make --no-print-directory -s build
kernel-images/build.sh busybox

dir=$(mktemp -d "${TMPDIR:-/tmp}/agentd-demo.XXXXXX")
export AGENTD_SOCKET=$dir/state/agentd.sock
export BACKEND_CPU_OVERCOMMIT_FACTOR=4 # three kernels fit on a machine of one core
PATH=$PWD/bin:$PATH
agent_id=i-demo-$$
cat >"$dir/agent.toml" <<CONF
[manager]
enabled = false
[agentd]
state-dir = "$dir/state"
[agent]
backend = "docker"
id = "$agent_id"
[container]
scratch-root = "$dir/scratches"
kernel-uid = 1000
kernel-gid = 1000
port-range = [31100, 31199]
[resource]
reserved-cpu = 0
CONF

pid=
start_daemon() {
  agentd run --config "$dir/agent.toml" >>"$dir/agentd.log" 2>&1 &
  pid=$!
  for _ in $(seq 100); do
    if agentd get nodes >/dev/null 2>&1 && [ -S "$AGENTD_SOCKET" ]; then return; fi
    kill -0 "$pid" 2>/dev/null || { cat "$dir/agentd.log" >&2; exit 1; }
    sleep 0.1
  done
  echo "agentd did not come up; see $dir/agentd.log" >&2
  exit 1
}
stop_daemon() {
  if [ -n "$pid" ]; then
    kill "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
    pid=
  fi
}
# container_of prints the engine's name of a host's container.
container_of() {
  docker ps -q --filter "label=ai.backend.agent-id=$agent_id" |
    xargs docker inspect -f '{{.Config.Hostname}} {{.Name}}' | sed -n "s|^$1 /||p"
}
finish() {
  code=$?
  if [ "$KEEP" = 1 ] && [ $code = 0 ]; then
    # shellcheck disable=SC2016 # the user's shell expands PATH
    printf '\nLeft running (process %s). Use it with:\n  export AGENTD_SOCKET=%s PATH=%s/bin:$PATH\nEnd it with: agentd delete session demo; kill %s; rm -rf %s\n' \
      "$pid" "$AGENTD_SOCKET" "$PWD" "$pid" "$dir"
    return
  fi
  if [ -n "$pid" ]; then agentd delete session demo >/dev/null 2>&1 || true; fi
  stop_daemon
  ids=$(docker ps -aq --filter "label=ai.backend.agent-id=$agent_id")
  # shellcheck disable=SC2086 # a list of IDs
  [ -z "$ids" ] || docker rm -f $ids >/dev/null
  if [ $code != 0 ]; then
    echo "the demo failed; the agent's log is $dir/agentd.log" >&2
  else
    rm -rf "$dir"
  fi
}
trap finish EXIT

say "Start the agent, stand-alone, and apply examples/cluster.yaml"
start_daemon
run agentd apply -f examples/cluster.yaml
run agentd get kernels -o wide
run docker ps --filter "label=ai.backend.agent-id=$agent_id" --format 'table {{.Names}}\t{{.Status}}\t{{.Ports}}'

say "The cluster, seen from main1"
run agentd exec demo/main1 -- sh -c 'env | grep ^BACKENDAI_CLUSTER_ | sort'
run agentd exec demo/main1 -- ssh sub1 hostname
run agentd exec demo/main1 -- ssh sub2 hostname
# shellcheck disable=SC2016 # main1's shell expands it
run agentd exec demo/sub1 -- ssh main1 'echo "$(hostname) answers $(id -un)"'
say "The log of sub1"
run agentd logs --tail 5 demo/sub1

if [ "$KEEP" = 1 ]; then exit 0; fi

say "A container is killed behind the agent's back: what is reported"
run docker kill "$(container_of sub2)"
for _ in $(seq 50); do
  agentd events | grep -q kernel_terminated && break
  sleep 0.1
done
agentd events | grep -E 'TIME|terminat' || true
run agentd get kernels

say "The agent is stopped and the node damaged by hand"
stop_daemon
main1_kernel=$(docker inspect -f '{{index .Config.Labels "ai.backend.kernel-id"}}' "$(container_of main1)")
run docker rm -f "$(container_of sub1)"
run docker create --name stray.$$ --label "ai.backend.agent-id=$agent_id" --label ai.backend.kernel-id=stray agentd.local/busybox:1 sleep 1
run rm "$dir/scratches/$main1_kernel/config/environ.txt"

say "What a repair would do, then the repair, then nothing is left to do"
run agentd reconcile --once --dry-run --config "$dir/agent.toml" || [ $? = 2 ]
run agentd reconcile --once --config "$dir/agent.toml"
run agentd reconcile --once --dry-run --config "$dir/agent.toml"

say "The agent starts again, takes main1 over, and the session is deleted"
start_daemon
run agentd get kernels
run agentd delete -f examples/cluster.yaml
echo "containers left: $(docker ps -aq --filter "label=ai.backend.agent-id=$agent_id" | wc -l)"
echo "networks left:   $(docker network ls -q --filter "label=ai.backend.agent-id=$agent_id" | wc -l)"
echo "scratches left:  $(find "$dir/scratches" -mindepth 1 -maxdepth 1 | wc -l)"
say "Done in $(($(date +%s) - began)) s"
