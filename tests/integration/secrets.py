#!/usr/bin/env python3
"""Keys: taken out of the environment at create and at exec, put in by the proxy for their hosts and nowhere else."""

import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from checks import *

KEY = "sk-ant-api03-" + "RealRealReal0123456789" * 4 + "-TailAA"
OTHER = "gho_" + "Abcdefghij0123456789" * 2
POLICY = """
allow: [ok.test, other.test, api.anthropic.com]
secrets:
  - env: ANTHROPIC_API_KEY
    hosts: [api.anthropic.com]
  - env: MY_TOKEN
    hosts: [other.test]
    headers: [authorization]
  - env: STRICT
    hosts: [ok.test]
    headers: [x-api-key]
    exclusive: true
"""


def leashed(*more):
    return Container(*with_policy(POLICY), "-e", f"ANTHROPIC_API_KEY={KEY}", "-e", f"MY_TOKEN={OTHER}", "-e", "STRICT=strict-0123456789-abcdefghij", "-e", "PLAIN=visible", *more,
                     TEST, "sleep", "3600")


def headers_of(origin, target):
    found = eventually(lambda: origin.find(target=target), 5, f"nothing reached the origin for {target}")
    return {k.lower(): v for k, v in found[-1]["headers"]}


@check("the container sees a placeholder of the same shape, the host sees the key", leashed=True)
def _():
    origin = Records("origin")
    with leashed() as container:
        shown = container.sh("echo $ANTHROPIC_API_KEY").ok().out.strip()
        that(shown != KEY and shown.startswith("sk-ant-api03-") and len(shown) == len(KEY), shown)
        that(re.fullmatch(r"[A-Za-z0-9_-]+", shown), shown)
        equal(container.sh("echo $PLAIN").ok().out.strip(), "visible")
        container.sh('curl -sm9 -H "x-api-key: $ANTHROPIC_API_KEY" https://api.anthropic.com/1; curl -sm9 -H "Authorization: Bearer $ANTHROPIC_API_KEY" https://api.anthropic.com/2').ok()
        equal(headers_of(origin, "/1")["x-api-key"], KEY)
        equal(headers_of(origin, "/2")["authorization"], f"Bearer {KEY}")
        flow = eventually(lambda: [f for f in container.flows() if f["path"] == "/1"], 5)[0]
        equal(flow["secrets"], ["ANTHROPIC_API_KEY"])


@check("two containers get different placeholders", leashed=True)
def _():
    with leashed() as one, leashed() as two:
        that(one.sh("echo $ANTHROPIC_API_KEY").out != two.sh("echo $ANTHROPIC_API_KEY").out)


@check("exec hides the key as create did: inherited, given again, and given for the first time", leashed=True)
def _():
    with leashed() as container:
        first = container.sh("echo $ANTHROPIC_API_KEY").out
        equal(docker("exec", "-e", f"ANTHROPIC_API_KEY={KEY}", container.id, "sh", "-c", "echo $ANTHROPIC_API_KEY").ok().out, first)
        late = "sk-ant-api03-" + "LateLateLate9876543210" * 4 + "-TailAA"
        ran = docker("exec", "-e", f"ANTHROPIC_API_KEY={late}", container.id, "sh", "-c", "echo $ANTHROPIC_API_KEY; curl -sm9 -H \"x-api-key: $ANTHROPIC_API_KEY\" https://api.anthropic.com/late").ok()
        that(late not in ran.out.split("\n")[0], ran)
    origin = Records("origin")
    with Container(*with_policy(POLICY), TEST, "sleep", "600") as container:
        ran = docker("exec", "-e", f"ANTHROPIC_API_KEY={KEY}", container.id, "sh", "-c", "echo $ANTHROPIC_API_KEY; curl -sm9 -H \"x-api-key: $ANTHROPIC_API_KEY\" https://api.anthropic.com/first").ok()
        that(KEY not in ran.out.split("\n")[0], ran)
        equal(headers_of(origin, "/first")["x-api-key"], KEY)


@check("a key goes only into the headers that the policy names", leashed=True)
def _():
    origin = Records("origin")
    with leashed() as container:
        container.sh('curl -sm9 -H "Authorization: token $MY_TOKEN" https://other.test/named; curl -sm9 -H "X-Other: $MY_TOKEN" https://other.test/unnamed; true')
        equal(headers_of(origin, "/named")["authorization"], f"token {OTHER}")
        that(OTHER not in json.dumps(origin.find(target="/unnamed")))


@check("a key never goes into a body or a path, and never over plain HTTP", leashed=True)
def _():
    origin = Records("origin")
    with leashed() as container:
        container.sh('curl -sm9 -d "key=$ANTHROPIC_API_KEY" https://api.anthropic.com/body; curl -sm9 "https://api.anthropic.com/path/$ANTHROPIC_API_KEY"; '
                     'curl -sm9 -H "x-api-key: $ANTHROPIC_API_KEY" http://api.anthropic.com/plain; true')
        that(KEY not in json.dumps(origin.lines()), origin.lines())


@check("Basic authentication with a placeholder inside is filled in", leashed=True)
def _():
    origin = Records("origin")
    with leashed() as container:
        container.sh('curl -sm9 -u "user:$ANTHROPIC_API_KEY" https://api.anthropic.com/basic')
        import base64
        equal(base64.b64decode(headers_of(origin, "/basic")["authorization"].split()[1]).decode(), f"user:{KEY}")


@check("exclusive: a request with another credential is refused", leashed=True)
def _():
    origin = Records("origin")
    with leashed() as container:
        ran = container.sh("curl -sm9 -H 'x-api-key: sk-of-an-attacker' https://ok.test/theirs -w ' %{http_code}'")
        contains(ran.out, "foreign_credential", ran)
        container.sh('curl -sm9 -H "x-api-key: $STRICT" https://ok.test/ours').ok()
        equal(headers_of(origin, "/ours")["x-api-key"], "strict-0123456789-abcdefghij")
        equal(origin.find(target="/theirs"), [])


@check("the key is in no preview and no hash of the logs, sent in a body or as itself", leashed=True)
def _():
    with leashed() as container:
        container.sh(f'curl -sm9 -H "x-api-key: $ANTHROPIC_API_KEY" https://api.anthropic.com/logged -d "my key is {KEY}"')
        eventually(lambda: [f for f in container.flows() if f["path"] == "/logged"], 5)
        for name in os.listdir(log_directory(container.id)):
            that(KEY not in open(f"{log_directory(container.id)}/{name}", errors="replace").read(), name)


@check("the key is in no process that the container's root could read, and the shim is not dumpable", leashed=True)
def _():
    with leashed() as container:
        that(KEY not in container.sh("cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline").out)
        for pid in os.listdir("/proc"):
            try:
                if pid.isdigit() and os.path.basename(os.readlink(f"/proc/{pid}/exe")) in ("leash-shim", "leash-proxy"):
                    data = open(f"/proc/{pid}/cmdline", "rb").read() + open(f"/proc/{pid}/environ", "rb").read()
                    that(KEY.encode() not in data, pid)
            except OSError:
                pass


main()
