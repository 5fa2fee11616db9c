#!/usr/bin/env bash
# Installs the Debian or Ubuntu packages that building and testing need, and only those that are missing.
#
#   packages.sh build     compiler and libraries
#   packages.sh lab       what the private engine, its images and its internet need
#   packages.sh test      build + lab + what only tests use
#   packages.sh bench     the peers of the benchmarks
set -euo pipefail
. "$(dirname "$0")/common.sh"

installed() { dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null | grep -qx installed; }
known() { apt-cache show "$1" >/dev/null 2>&1; }

# The first of the names that is installed or that this release has.
one_of() {
  local name
  for name in "$@"; do installed "$name" && { echo "$name"; return; }; done
  for name in "$@"; do known "$name" && { echo "$name"; return; }; done
  echo "$1"
}

build_packages() {
  echo g++ cmake ninja-build pkg-config catch2 libssl-dev libseccomp-dev libmnl-dev libnftnl-dev
  echo libyaml-cpp-dev nlohmann-json3-dev libcli11-dev
  one_of libboost1.81-dev libboost1.83-dev libboost-dev
}
lab_packages() {
  echo docker.io runc iproute2 iptables nftables util-linux openssl ca-certificates curl python3 debootstrap busybox-static
  # A package of its own in newer releases.
  if known docker-cli; then echo docker-cli; fi
}
test_packages() { echo curl git procps bsdutils dpkg-dev podman crun golang-go; }
bench_packages() { echo runc crun wrk mitmproxy curl nginx-light; }

wanted() {
  local set
  for set in "$@"; do
    case $set in
      build) build_packages ;;
      lab) lab_packages ;;
      test) build_packages; lab_packages; test_packages ;;
      bench) build_packages; lab_packages; bench_packages ;;
    esac
  done
}
sets=("$@")
for set in "${sets[@]}"; do
  case $set in build | lab | test | bench) ;; *) die "unknown set of packages '$set' (build, lab, test, bench)" ;; esac
done

missing() {
  local name
  for name in $(wanted "${sets[@]}"); do
    installed "$name" && continue
    # Another packaging of the same tool serves as well (an upstream docker-ce, a bundled node ...).
    case $name in
      docker.io) command -v dockerd >/dev/null && continue ;;
      docker-cli) command -v docker >/dev/null && continue ;;
      golang-go) command -v go >/dev/null && continue ;;
      runc) command -v runc >/dev/null && continue ;;
    esac
    echo "$name"
  done | sort -u
}

mapfile -t todo < <(missing)
if [ ${#todo[@]} = 0 ]; then
  note "packages: all there"
  exit 0
fi
need_root
note "packages to install: ${todo[*]}"
export DEBIAN_FRONTEND=noninteractive
# Services that packages bring (an engine, a web server) must not start: the lab runs its own.
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
  printf '#!/bin/sh\nexit 101\n' >$policy
  chmod 755 $policy
  trap 'rm -f $policy' EXIT
fi
apt-get update -qq
# With fresh lists other names may have become known.
mapfile -t todo < <(missing)
apt-get install -y --no-install-recommends -o Dpkg::Use-Pty=0 "${todo[@]}" |
  awk '/^(Get|Unpacking|Setting up)/ { n++; if (n % 25 == 0) { print "   ... " $0; fflush() } }'
# A library that packages bring for a peer program must not leave half an installation behind.
mapfile -t todo < <(missing)
[ ${#todo[@]} = 0 ] || die "not installable here: ${todo[*]}"
note "packages: installed"
