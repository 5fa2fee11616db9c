# The images that demo and tests run, built from the distribution's own packages once and kept. Sourced.
#
#   leash/busybox   one static program
#   leash/demo      curl, python3, node, ca-certificates
#   leash/test      demo + git, pip, npm, requests, DNS and network tools
LAB_DEMO_PACKAGES=ca-certificates,curl,python3,nodejs
LAB_TEST_PACKAGES="python3-requests python3-pip git npm bind9-dnsutils netcat-openbsd iproute2 iputils-ping openssl procps nftables"

image_release() { . /etc/os-release; echo "$VERSION_CODENAME"; }

# The mirror and the components that this machine's own apt uses.
image_mirror() {
  apt-get indextargets --format '$(SITE) $(CODENAME) $(COMPONENT)' "Codename: $(image_release)" "Created-By: Packages" |
    awk '$3 == "main" { print $1; exit }'
}
image_components() { . /etc/os-release; [ "$ID" = ubuntu ] && echo main,universe || echo main; }

image_root() { echo "$LEASH_LAB_CACHE/$1-$(image_release)"; }

# Runs a command, shows one line in forty of what it says, all of it when it fails.
with_progress() {
  local log
  log=$(mktemp)
  if ! "$@" 2>&1 | tee "$log" | awk 'NR % 40 == 0 { print "   ... " substr($0, 1, 90); fflush() }'; then
    tail -30 "$log"
    rm -f "$log"
    return 1
  fi
  rm -f "$log"
}

image_make_demo() {
  local root
  root=$(image_root demo)
  [ -s "$root.tar" ] && return
  note "image leash/demo: debootstrap of ${LAB_DEMO_PACKAGES//,/, } (once, about a minute)"
  mkdir -p "$LEASH_LAB_CACHE"
  rm -rf "$root.work"
  with_progress debootstrap --variant=minbase --components="$(image_components)" --include="$LAB_DEMO_PACKAGES" \
    "$(image_release)" "$root.work" "$(image_mirror)" || die "debootstrap failed"
  image_finish "$root"
}

image_make_test() {
  local root demo
  root=$(image_root test) demo=$(image_root demo)
  [ -s "$root.tar" ] && return
  image_make_demo
  note "image leash/test: adding $LAB_TEST_PACKAGES (once, about two minutes)"
  rm -rf "$root.work"
  mkdir "$root.work"
  tar -C "$root.work" -xf "$demo.tar"
  mkdir -p "$root.work/dev"
  mknod -m 666 "$root.work/dev/null" c 1 3
  mknod -m 666 "$root.work/dev/urandom" c 1 9
  cp /etc/resolv.conf "$root.work/etc/resolv.conf"
  printf 'deb %s %s %s\n' "$(image_mirror)" "$(image_release)" "$(image_components | tr , ' ')" >"$root.work/etc/apt/sources.list"
  printf '#!/bin/sh\nexit 101\n' >"$root.work/usr/sbin/policy-rc.d"
  chmod 755 "$root.work/usr/sbin/policy-rc.d"
  with_progress chroot "$root.work" env DEBIAN_FRONTEND=noninteractive sh -c "apt-get update -qq && apt-get install -y --no-install-recommends $LAB_TEST_PACKAGES" ||
    die "apt-get in the test image failed"
  # The package that the trust tests install again inside a container, served by the test internet.
  mkdir -p "$LEASH_LAB_CACHE/deb"
  (cd "$root.work/tmp" && chroot "$root.work" sh -c 'cd /tmp && apt-get download -q ca-certificates openssl' && mv ./*.deb "$LEASH_LAB_CACHE/deb/")
  : >"$root.work/etc/resolv.conf"
  image_finish "$root"
}

image_finish() {
  local root=$1
  rm -rf "$root.work"/var/cache/apt/archives/*.deb "$root.work"/var/lib/apt/lists/* "$root.work"/usr/share/{doc,man,locale}/* "$root.work"/var/log/*.log
  : >"$root.work/etc/apt/sources.list"
  tar -C "$root.work" --numeric-owner --exclude=./dev -cf "$root.tar.part" .
  mv "$root.tar.part" "$root.tar"
  rm -rf --one-file-system "$root.work"
}

image_make_busybox() {
  local root=$LEASH_LAB_CACHE/busybox tool
  [ -s "$root.tar" ] && return
  mkdir -p "$root"/{bin,dev,etc,proc,root,sys,tmp,usr}
  cp "$(command -v busybox)" "$root/bin/busybox"
  for tool in $("$root/bin/busybox" --list | grep -vx busybox); do ln -sf busybox "$root/bin/$tool"; done
  printf 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\nuser:x:1000:1000:user:/tmp:/bin/sh\n' >"$root/etc/passwd"
  printf 'root:x:0:\nnogroup:x:65534:\nuser:x:1000:\nextra:x:2000:user\n' >"$root/etc/group"
  chmod 1777 "$root/tmp"
  tar -C "$root" --numeric-owner -cf "$root.tar" .
}

# image_load NAME...: builds what is not cached and imports what the engine does not have.
image_load() {
  local name tar
  for name in "$@"; do
    case $name in
      busybox) image_make_busybox; tar=$LEASH_LAB_CACHE/busybox.tar ;;
      demo) image_make_demo; tar=$(image_root demo).tar ;;
      test) image_make_test; tar=$(image_root test).tar ;;
    esac
    engine_docker image inspect "leash/$name" >/dev/null 2>&1 && continue
    engine_docker import --change 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' "$tar" "leash/$name" >/dev/null
  done
}
