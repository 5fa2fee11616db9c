# A private Docker engine: own data root, exec root, socket, pid file, bridge and network namespace. Sourced.
#
# It runs in a network namespace of the lab, so its bridges and its iptables rules end with that namespace and the
# machine's own are never touched. Everything it started ends by pid.

engine_docker() {
  local client=/usr/bin/docker
  [ -x $client ] || client=docker
  env -u DOCKER_CONTEXT DOCKER_HOST="unix://$LEASH_LAB_RUN/docker.sock" DOCKER_CONFIG="$LEASH_LAB_RUN/docker-config" "$client" "$@"
}

# engine_config POLICY: daemon.json as examples/daemon.json has it, with this lab's paths.
engine_config() {
  local policy=$1
  cat >"$LEASH_LAB_RUN/daemon.json" <<JSON
{
  "data-root": "$LEASH_LAB_DATA",
  "exec-root": "$LEASH_LAB_RUN/exec",
  "pidfile": "$LEASH_LAB_RUN/dockerd.pid",
  "hosts": ["unix://$LEASH_LAB_RUN/docker.sock"],
  "bip": "172.30.0.1/24",
  "ipv6": true,
  "fixed-cidr-v6": "fd00:1ea5::/64",
  "default-address-pools": [{ "base": "172.30.128.0/17", "size": 24 }],
  "dns": ["203.0.113.53"],
  "storage-driver": "overlay2",
  "live-restore": ${LEASH_LAB_LIVE_RESTORE:-true},
  "shutdown-timeout": 5,
  "log-driver": "json-file",
  "cgroup-parent": "/$LEASH_LAB",
  "exec-opts": ["native.cgroupdriver=cgroupfs"],
  "runtimes": {
    "leash": {
      "path": "$LEASH_BIN/leash-runtime",
      "runtimeArgs": ["--policy", "$policy", "--trust-store", "$LEASH_LAB_RUN/certificates/ca.pem"]
    },
    "leash-built-in": {
      "path": "$LEASH_BIN/leash-runtime",
      "runtimeArgs": ["--trust-store", "$LEASH_LAB_RUN/certificates/ca.pem"]
    },
    "leash-none": { "path": "$LEASH_BIN/leash-runtime", "runtimeArgs": ["--policy", "none"] },
    "crun": { "path": "/usr/bin/crun" }
  }
}
JSON
}

engine_start() {
  mkdir -p "$LEASH_LAB_RUN/docker-config" "$LEASH_LAB_DATA"
  [ -e "$LEASH_LAB_RUN/docker-config/config.json" ] || echo '{}' >"$LEASH_LAB_RUN/docker-config/config.json"
  local attempt
  # On a busy machine dockerd may give up on the containerd that it starts (15 seconds): again, then.
  for attempt in 1 2 3; do
    rm -f "$LEASH_LAB_RUN/dockerd.pid"
    # nsenter and not `ip netns exec`: the latter hides /sys/fs/cgroup behind a fresh sysfs.
    start_in_ns "$LAB_ENGINE_NS" "$LEASH_LAB_RUN/engine.pid" "$LEASH_LAB_RUN/dockerd.log" \
      dockerd --config-file "$LEASH_LAB_RUN/daemon.json"
    wait_until 90 engine_answered_or_ended || true
    engine_docker version >/dev/null 2>&1 && return
    end_by_pid_file "$LEASH_LAB_RUN/engine.pid" 5
    end_by_pid_file "$LEASH_LAB_RUN/exec/containerd/containerd.pid" 5
  done
  tail -20 "$LEASH_LAB_RUN/dockerd.log" >&2
  die "the private engine does not answer"
}

engine_answered_or_ended() {
  engine_docker version || ! kill -0 "$(cat "$LEASH_LAB_RUN/engine.pid")"
}

engine_up() {
  engine_config "$1"
  engine_start
}

# Ends whatever of the engine is left: containers, then dockerd (which ends its containerd), then the mounts.
engine_down() {
  if [ -S "$LEASH_LAB_RUN/docker.sock" ] && timeout 10 env bash -c '. "$1"; . "$2"; engine_docker version' _ \
    "$LAB_LIB/common.sh" "$LAB_LIB/engine.sh" >/dev/null 2>&1; then
    local ids
    ids=$(engine_docker ps -aq)
    [ -z "$ids" ] || engine_docker rm -f $ids >/dev/null 2>&1 || true
  fi
  local containerd=$LEASH_LAB_RUN/exec/containerd/containerd.pid
  end_by_pid_file "$LEASH_LAB_RUN/engine.pid" 20
  # killed hard, dockerd leaves its containerd and the containers' shims behind
  end_by_pid_file "$containerd" 10
  engine_orphans | while read -r pid; do kill -KILL "$pid" 2>/dev/null || true; done
  engine_mounts | while read -r mount; do umount -l "$mount" 2>/dev/null || true; done
  local directory
  for directory in /sys/fs/cgroup/"$LEASH_LAB" /sys/fs/cgroup/*/"$LEASH_LAB"; do
    [ ! -d "$directory" ] || find "$directory" -depth -type d -exec rmdir {} + 2>/dev/null || true
  done
  rm -rf --one-file-system "$LEASH_LAB_DATA" "$LEASH_LAB_RUN/exec"
}

# Processes that belong to this engine alone: their command line names its run directory.
engine_orphans() {
  local file
  # one grep for all processes: a fork for each takes a busy machine many seconds
  { grep -lsF -- "$LEASH_LAB_RUN/" /proc/[0-9]*/cmdline || true; } | while read -r file; do
    case $(tr '\0' ' ' 2>/dev/null <"$file") in
      *containerd-shim*"$LEASH_LAB_RUN/exec/"* | *docker-proxy*"$LEASH_LAB_RUN/"*) basename "$(dirname "$file")" ;;
    esac
  done
}

engine_mounts() {
  awk -v run="$LEASH_LAB_RUN/" -v data="$LEASH_LAB_DATA" '$5 == data || index($5, run) == 1 || index($5, data "/") == 1 { print $5 }' \
    /proc/self/mountinfo | sort -r
}
