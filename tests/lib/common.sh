# What every script of the lab shares: where things lie, how it talks, how it ends processes. Sourced.
#
# A "lab" is a private Docker engine and a small internet, each in a network namespace of its own, so that nothing
# of the machine's own network, iptables or engine is touched. LEASH_LAB names it; two labs with different names
# can run side by side.

LAB_LIB=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
LAB_SOURCE=$(cd "$LAB_LIB/../.." && pwd)

: "${LEASH_LAB:=leash-lab}"
: "${LEASH_LAB_CACHE:=/var/cache/leash-lab}"    # images and packages: survives
LEASH_LAB_RUN=/run/$LEASH_LAB                   # sockets, pid files, records: removed at the end
LEASH_LAB_DATA=/var/lib/$LEASH_LAB              # the engine's data root: removed at the end
: "${LEASH_PRESET:=release}"
: "${LEASH_BIN:=$LAB_SOURCE/build/$LEASH_PRESET/bin}"

LAB_ENGINE_NS=$LEASH_LAB-engine
LAB_INTERNET_NS=$LEASH_LAB-internet

# The distribution's own python: version managers put slow wrappers first in PATH.
LAB_PYTHON=/usr/bin/python3
[ -x "$LAB_PYTHON" ] || LAB_PYTHON=python3
export LEASH_LAB LEASH_LAB_CACHE LEASH_PRESET LEASH_BIN LAB_PYTHON

say() { printf '%s\n' "$*"; }
note() { printf '   %s\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

need_root() { [ "$(id -u)" = 0 ] || die "this needs root: sudo $0"; }

# Ends the process of a pid file and waits for it; SIGKILL after the given seconds.
end_by_pid_file() {
  local file=$1 seconds=${2:-10} pid
  [ -s "$file" ] || return 0
  pid=$(cat "$file")
  if kill -TERM "$pid" 2>/dev/null; then
    local tick
    for ((tick = 0; tick < seconds * 20; tick++)); do
      kill -0 "$pid" 2>/dev/null || break
      sleep 0.05
    done
    kill -KILL "$pid" 2>/dev/null || true
  fi
  rm -f "$file"
}

# wait_until SECONDS COMMAND...: until the command succeeds.
wait_until() {
  local seconds=$1 tick
  shift
  for ((tick = 0; tick < seconds * 20; tick++)); do
    "$@" >/dev/null 2>&1 && return 0
    sleep 0.05
  done
  return 1
}

# start_in_ns NAMESPACE PID-FILE LOG COMMAND...: in the background, in a session of its own; the pid is the command's.
start_in_ns() {
  local ns=$1 pid_file=$2 log=$3
  shift 3
  (exec nsenter --net="/run/netns/$ns" -- setsid "$@") >>"$log" 2>&1 </dev/null &
  echo $! >"$pid_file"
  disown
}

in_ns() { local ns=$1; shift; nsenter --net="/run/netns/$ns" -- "$@"; }
