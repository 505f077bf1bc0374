#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# dockerd.sh start|stop|restart|kill|status [ENGINE-FLAG…]
#   start     start a Docker engine unless one answers, and wait until it does
#   stop      SIGTERM the engine that start started, and wait until it is gone; its containers end with it
#   restart   stop, then start
#   kill      SIGKILL it, as a crash would: the containers live on, and the next start ends them
#   status    say whether an engine answers and whether it is ours
# Further arguments go to dockerd: `restart --live-restore` gives one that leaves containers running over its own stop.
# An engine that start did not start (another service's) is never stopped.
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

PIDFILE=${AGENTD_DOCKERD_PIDFILE:-/run/agentd-dockerd.pid}
LOG=${AGENTD_DOCKERD_LOG:-/var/log/agentd-dockerd.log}
CONTAINERD_PIDFILE=/var/run/docker/containerd/containerd.pid
START_LIMIT=60 # seconds
STOP_LIMIT=60  # containers get 10 s each to end, side by side

# process_of PIDFILE NAME: prints the process id in the file if that process has the name and runs. One that ended stays listed
# as a zombie (Z) until init looks, which may take seconds.
process_of() {
  local pid
  pid=$(cat "$1" 2>/dev/null) || return 1
  [[ $pid =~ ^[0-9]+$ && $(cat "/proc/$pid/stat" 2>/dev/null) =~ ^$pid\ \($2\)\ [^Z] ]] || return 1
  echo "$pid"
}

# ours: prints the process id of the engine that start started, if it runs.
ours() { process_of "$PIDFILE" dockerd; }
engine_gone() { ! ours >/dev/null; }
# dockerd runs a containerd of its own, which ends a moment after it.
all_gone() { engine_gone && ! process_of "$CONTAINERD_PIDFILE" containerd >/dev/null; }
answers_or_ended() { docker_answers || engine_gone; }

# No systemd here, so the engine keeps cgroups by itself (cgroupfs). The storage driver is its own choice: the one that has
# images already, else overlay2 where the file system can, else vfs. The log is appended to, so that a crash can be read later.
start() {
  if docker_answers; then
    (($# == 0)) || die "an engine runs already, so these flags have no effect: $* (use restart)"
    return
  fi
  need_root "starting dockerd"
  command -v dockerd >/dev/null || die "no dockerd on this machine: run hack/setup.sh"
  if ! engine_gone; then
    wait_until "$START_LIMIT" docker_answers && return
    die "dockerd runs as process $(ours) but does not answer: see $LOG, or run hack/dockerd.sh kill"
  fi
  mkdir -p "$(dirname "$LOG")" "$(dirname "$PIDFILE")"
  # What killed ones left would stop the next from starting: it takes a zombie for alive.
  process_of /var/run/docker.pid dockerd >/dev/null || rm -f /var/run/docker.pid
  process_of "$CONTAINERD_PIDFILE" containerd >/dev/null || rm -f "$CONTAINERD_PIDFILE"
  say "starting dockerd (log: $LOG)"
  setsid nohup dockerd --exec-opt native.cgroupdriver=cgroupfs "$@" >>"$LOG" 2>&1 </dev/null 9>&- &
  echo $! >"$PIDFILE"
  disown
  # setsid becomes dockerd only after a moment.
  wait_until 5 ours >/dev/null || failed "dockerd did not start"
  wait_until "$START_LIMIT" answers_or_ended || failed "dockerd does not answer after $START_LIMIT s"
  docker_answers || failed "dockerd ended"
  say "dockerd answers: $(docker info -f '{{.ServerVersion}}, storage {{.Driver}}, cgroup v{{.CgroupVersion}} by {{.CgroupDriver}}, live restore {{.LiveRestoreEnabled}}')"
}

failed() {
  tail -n 20 "$LOG" >&2 || true
  die "$1; log: $LOG"
}

# end SIGNAL
end() {
  local pid
  if ! pid=$(ours); then
    if docker_answers; then die "the engine that answers was not started by hack/dockerd.sh: not touching it"; fi
    return 0
  fi
  kill -"$1" "$pid"
  wait_until "$STOP_LIMIT" all_gone || die "dockerd (process $pid) is still there $STOP_LIMIT s after SIG$1; log: $LOG"
  rm -f "$PIDFILE"
}

status() {
  docker_answers || { say "no Docker engine answers"; return 1; }
  if ours >/dev/null; then say "dockerd answers, process $(ours), log $LOG"; else say "a Docker engine answers that this script did not start"; fi
}

usage() {
  sed -n '3,/^# shellcheck/{/^# shellcheck/d;s/^# //;p}' "${BASH_SOURCE[0]}" >&2
  exit 2
}

(($#)) || usage
command=$1
shift
if [ "$command" != status ] && [ "$(id -u)" = 0 ]; then
  exec 9>"${TMPDIR:-/tmp}/agentd-dockerd.lock"
  flock -w 120 9 || die "another hack/dockerd.sh is at work since two minutes"
fi
case $command in
  start) start "$@" ;;
  stop) end TERM ;;
  kill) end KILL ;;
  restart)
    end TERM
    start "$@"
    ;;
  status) status ;;
  *) usage ;;
esac
