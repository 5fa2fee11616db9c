#!/usr/bin/env python3
"""The operator's command on real containers: leash ps, logs, policy explain, doctor."""

import json
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from checks import *

POLICY = "allow:\n  - host: ok.test\n    methods: [GET]\n"
LEASH = os.path.join(BIN, "leash")


def leash(*arguments, **options):
    return run(LEASH, *arguments, env=client_environment(), **options)


def named(suffix):
    return f"operator-{suffix}-{os.getpid()}"


@check("ps shows a running container by its id and its engine's name, locked in", leashed=True)
def _():
    name = named("ps")
    with Container("--name", name, *with_policy(POLICY), TEST, "sleep", "60") as container:
        line = next(l for l in leash("ps").ok().out.splitlines() if l.startswith(container.id[:12]))
        contains(line, name)
        contains(line, "locked in")
        contains(line, str(container.pid()))
        contains(leash("ps", "-q").ok().out.splitlines(), container.id)
    that(container.id[:12] not in leash("ps").ok().out, "an ended container is shown as running")


@check("logs show what was sent and what was refused, in order, by name and by prefix", leashed=True)
def _():
    name = named("logs")
    with Container("--name", name, *with_policy(POLICY), TEST, "sleep", "60") as container:
        container.sh("curl -s https://ok.test/first; curl -s https://evil.test/; curl -s -X POST https://ok.test/second")
        eventually(lambda: len(leash("logs", name).out.splitlines()) >= 3)
        lines = leash("logs", name).ok().out.splitlines()
        first = next(i for i, l in enumerate(lines) if "https://ok.test/first" in l)
        evil = next(i for i, l in enumerate(lines) if "evil.test" in l)
        second = next(i for i, l in enumerate(lines) if "https://ok.test/second" in l)
        that(first < evil < second, lines)
        contains(lines[first], "inspected  200 ")
        contains(lines[evil], "blocked ")
        contains(lines[second], "method_not_allowed")
        equal(leash("logs", container.id[:8]).ok().out.splitlines(), lines)
        for line in leash("logs", "--state", "blocked", name).ok().out.splitlines():
            contains(line, "  blocked ")
        for line in leash("logs", "--json", name).ok().out.splitlines():
            contains(json.loads(line), "state")


@check("logs of a container that is gone can still be read, by id and by name", leashed=True)
def _():
    name = named("gone")
    docker("run", "--name", name, "--runtime", RUNTIME, *with_policy(POLICY), TEST, "curl", "-s", "https://ok.test/gone").ok()
    container_id = docker("inspect", "-f", "{{.Id}}", name).ok().out.strip()
    docker("rm", "-f", name).ok()
    for wanted in (container_id, container_id[:10], name):
        contains(leash("logs", wanted).ok().out, "https://ok.test/gone")
    contains(leash("ps", "--all").ok().out, container_id[:12])


@check("logs -f shows lines as they come and ends with the container", leashed=True)
def _():
    name = named("follow")
    with Container("--name", name, *with_policy(POLICY), TEST, "sleep", "60") as container:
        follower = subprocess.Popen([LEASH, "logs", "-f", name], stdout=subprocess.PIPE, text=True)
        try:
            for number in range(3):
                container.exec("curl", "-s", f"https://ok.test/line{number}").ok()
                contains(follower.stdout.readline(), f"/line{number}")
            docker("rm", "-f", container.id).ok()
            equal(follower.wait(timeout=15), 0)
        finally:
            if follower.poll() is None:
                follower.send_signal(signal.SIGKILL)
                follower.wait()


@check("policy explain judges by the policy that the running container has", leashed=True)
def _():
    name = named("explain")
    path = policy_file(POLICY)
    with Container("--name", name, "-v", f"{path}:/etc/leash/policy.yaml:ro", TEST, "sleep", "60"):
        # The file changes; the container keeps what was read at create.
        with open(path, "w") as file:
            file.write("allow: [evil.test]\n")
        contains(leash("policy", "explain", "--container", name, "GET", "https://ok.test/x").ok().out, "allow[0] ok.test")
        refused = leash("policy", "explain", "--container", name, "POST", "https://ok.test/x")
        equal(refused.code, 3, refused)
        contains(refused.out, "method_not_allowed")
        equal(leash("policy", "explain", "--container", name, "GET", "https://evil.test/").code, 3)


@check("a renamed container is found by its new name", leashed=True)
def _():
    name = named("renamed")
    with Container("--name", named("before"), *with_policy(POLICY), TEST, "sleep", "60") as container:
        docker("rename", container.id, name).ok()
        leash("logs", name).ok()


@check("doctor finds nothing missing on the machine that runs these tests", leashed=True)
def _():
    ran = leash("doctor")
    that(not [l for l in ran.out.splitlines() if l.startswith("FAIL")], ran)
    equal(ran.code, 0, ran)
    contains(ran.out, "registered with Docker: ")


if __name__ == "__main__":
    main()
