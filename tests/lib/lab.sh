#!/usr/bin/env bash
# The lab by hand: a private Docker engine with the leash runtime and a small internet, each in a network namespace.
#
#   lab.sh up [IMAGE...]     start (default images: busybox test)
#   lab.sh down              stop and remove everything but the image cache
#   lab.sh docker ARGS...    the docker command, for this engine
#   lab.sh restart-engine | kill-engine | start-engine
#   lab.sh shell             a shell in the engine's network namespace
#
# LEASH_LAB=name keeps several apart; LEASH_PRESET or LEASH_BIN says which build is the runtime "leash".
set -euo pipefail
. "$(dirname "$0")/common.sh"
. "$LAB_LIB/internet.sh"
. "$LAB_LIB/engine.sh"
. "$LAB_LIB/image.sh"
need_root

lab_down() {
  engine_down
  internet_down
  rm -rf --one-file-system "$LEASH_LAB_RUN"
}

lab_up() {
  lab_down
  mkdir -p "$LEASH_LAB_RUN"
  # A first half that fails must not leave the second behind.
  trap 'lab_down' EXIT
  trap 'exit 130' INT TERM
  internet_up
  engine_up "$LAB_SOURCE/${LEASH_LAB_POLICY:-tests/integration/policies/default.yaml}"
  image_load "$@"
  trap - EXIT INT TERM
}

command=${1:-help}
[ $# = 0 ] || shift
case $command in
  up) [ $# -gt 0 ] || set -- busybox test; lab_up "$@" ;;
  down) lab_down ;;
  docker) engine_docker "$@" ;;
  start-engine) engine_start ;;
  kill-engine) kill -KILL "$(cat "$LEASH_LAB_RUN/engine.pid")" ;;
  restart-engine) end_by_pid_file "$LEASH_LAB_RUN/engine.pid" 20; engine_start ;;
  shell) in_ns "$LAB_ENGINE_NS" "${SHELL:-/bin/sh}" ;;
  images) image_make_busybox; image_make_demo; image_make_test ;;
  *) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" ;;
esac
