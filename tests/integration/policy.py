#!/usr/bin/env python3
"""Where a container's policy comes from, what its words do, and what a wrong one says."""

import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from checks import *

EVIL = "203.0.113.9"


def curl(container, url, *flags):
    return container.exec("curl", "-s", "-m", "6", "-w", " %{http_code}", *flags, url)


@check("the bind mount at /etc/leash/policy.yaml is the policy, and is not in the container", leashed=True)
def _():
    with Container(*with_policy("allow: [other.test]\n"), TEST, "sleep", "600") as container:
        contains(curl(container, "https://other.test/").out, " 200")
        that(" 200" not in curl(container, "https://ok.test/").out)
        that(container.exec("cat", "/etc/leash/policy.yaml").code != 0)
        that("leash/policy" not in container.exec("cat", "/proc/self/mountinfo").out)


@check("without one the runtime's --policy holds", leashed=True)
def _():
    with Container(TEST, "sleep", "600") as container:
        contains(curl(container, "https://ok.test/").out, " 200")
        that(" 200" not in curl(container, "https://other.test/").out)


@check("without any policy the built-in profile holds, and hides the well-known keys", leashed=True)
def _():
    key = "sk-ant-api03-" + "K" * 80 + "-AAAAAAAA"
    origin = Records("origin")
    with Container("-e", f"ANTHROPIC_API_KEY={key}", TEST, "sleep", "600", runtime="leash-built-in") as container:
        that(key not in container.exec("env").out)
        contains(container.exec("sh", "-c", "curl -s -m6 -H \"x-api-key: $ANTHROPIC_API_KEY\" https://api.anthropic.com/v1/x -w ' %{http_code}'").out, " 200")
        that([o for o in origin.find(target="/v1/x") if ["x-api-key", key] in o["headers"]], origin.lines())
        that(" 200" not in curl(container, "https://ok.test/").out)


@check("nothing in the image or the environment chooses the policy", leashed=True)
def _():
    with Container("-e", "LEASH_POLICY=none", "-e", "LEASH_MODE=observe", "-l", "leash.policy=none", "-l", "leash.mode=observe", TEST, "sleep", "600") as container:
        that(" 200" not in curl(container, "https://other.test/").out)
        container.exec("sh", "-c", "mkdir -p /etc/leash; echo 'mode: observe' >/etc/leash/policy.yaml")
        docker("restart", "-t", "0", container.id).ok()
        that(" 200" not in curl(container, "https://other.test/").out)


@check("a policy that the container could write through another mount is refused", leashed=True)
def _():
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/policy.yaml"
        with open(path, "w") as file:
            file.write("allow: [ok.test]\n")
        ran = docker_run("-v", f"{path}:/etc/leash/policy.yaml:ro", "-v", f"{folder}:/work", BUSYBOX, "true")
        equal(ran.code, 125, ran)
        contains(ran.err, "policy")


BROKEN = {
    "an unknown key": ("mode: enforce\nalow: [ok.test]\n", ":2:1"),
    "a wrong type": ("allow: 7\n", ":1:8"),
    "an unknown mode": ("mode: maybe\n", ":1:7"),
    "an empty host": ("allow:\n  - ''\n", ":2:5"),
    "a bad regex": ("ignore_hosts:\n  - '(['\n", ":2:5"),
    "an unknown key in a rule": ("allow:\n  - host: ok.test\n    method: GET\n", ":3:5"),
    "a port that is none": ("allow:\n  - host: ok.test\n    ports: [70000]\n", ":3:13"),
    "broken YAML": ("allow: [ok.test\n", ":"),
    "a key twice": ("allow: [ok.test]\nallow: [evil.test]\n", ":2:"),
    "a control that is not there": ("delay:\n  - {host: ok.test, for: 1s}\n", ":2:"),
}


@check("a wrong policy stops the container: 125, with file, line and column", leashed=True)
def _():
    for what, (text, place) in BROKEN.items():
        path = policy_file(text, "broken")
        ran = docker_run("-v", f"{path}:/etc/leash/policy.yaml:ro", BUSYBOX, "echo", "ran")
        equal(ran.code, 125, what, ran)
        that("ran" not in ran.out, what, ran)
        contains(ran.err, path + place, what, ran)


@check("leash policy check says the same as the runtime", leashed=True)
def _():
    for what, (text, place) in BROKEN.items():
        path = policy_file(text, "broken")
        ran = run(f"{BIN}/leash", "policy", "check", path)
        that(ran.code != 0, what, ran)
        contains(ran.out + ran.err, path + place, what)
    for name in os.listdir(f"{SOURCE}/examples/policies"):
        run(f"{BIN}/leash", "policy", "check", f"{SOURCE}/examples/policies/{name}").ok()


@check("methods and paths narrow a rule", leashed=True)
def _():
    policy = "allow:\n  - host: ok.test\n    exact: true\n    methods: [GET, HEAD]\n    paths: ['/public/**']\n"
    with Container(*with_policy(policy), TEST, "sleep", "600") as container:
        contains(curl(container, "https://ok.test/public/a?b=c").out, " 200")
        for url, flags, reason in (("https://ok.test/private", (), "path_not_allowed"), ("https://ok.test/public/a", ("-X", "POST"), "method_not_allowed"),
                                   ("https://ok.test/public/a", ("-X", "get"), None), ("https://ok.test/public/a", ("-X", "PROPFIND"), None)):
            ran = curl(container, url, *flags)
            that(" 403" in ran.out or " 400" in ran.out, url, flags, ran)
            if reason:
                contains(ran.out, reason)
        that(" 200" not in curl(container, "https://sub.ok.test/public/a").out, "exact: true allowed a subdomain")


@check("a string allows the host and its subdomains on 80 and 443 alone", leashed=True)
def _():
    with Container(*with_policy("allow: [ok.test]\n"), TEST, "sleep", "600") as container:
        for url in ("https://ok.test/", "https://sub.ok.test/", "http://ok.test/"):
            contains(curl(container, url).out, " 200", url)
        for url in ("https://notok.test/", "http://ok.test:8080/", "https://ok.test.evil.test/"):
            that(" 200" not in curl(container, url).out, url)


@check("deny wins over allow", leashed=True)
def _():
    with Container(*with_policy("allow: [ok.test]\ndeny: [{host: secret.ok.test}]\n"), TEST, "sleep", "600") as container:
        contains(curl(container, "https://ok.test/").out, " 200")
        ran = curl(container, "https://secret.ok.test/", "--resolve", "secret.ok.test:443:203.0.113.20")
        contains(ran.out, "host_denied", ran)


@check("observe passes what enforce would block, says `observed`, and never `blocked`", leashed=True)
def _():
    with Container(*with_policy("mode: observe\nallow: [ok.test]\n"), TEST, "sleep", "600") as container:
        contains(curl(container, "https://ok.test/known").out, " 200")
        contains(curl(container, "https://other.test/unknown").out, " 200")
        flows = eventually(lambda: [f for f in container.flows() if f.get("path") == "/unknown"], 5)
        that(flows[0]["observed"] is True and flows[0]["state"] == "inspected", flows)
        equal([f["observed"] for f in container.flows() if f.get("path") == "/known"], [False])
        equal([b for b in container.blocked() if b["layer"] in ("http", "tls", "dns", "tcp")], [])


@check("ignore_hosts passes a host without decrypting it: its own certificate, counted, `passed`", leashed=True)
def _():
    tls = Records("tls")
    with Container(*with_policy("allow: [ok.test]\nignore_hosts: ['pinned\\.test']\n"), TEST, "sleep", "600") as container:
        ran = container.sh("openssl s_client -connect pinned.test:443 -servername pinned.test </dev/null 2>/dev/null | openssl x509 -noout -issuer")
        contains(ran.out, "Leash test internet", ran)
        that(tls.find(sni="pinned.test"))
        flow = eventually(lambda: [f for f in container.flows() if f["host"] == "pinned.test"], 5, container.flows())[0]
        equal(flow["state"], "passed")
        that(flow["bytes_up"] > 100 and flow["bytes_down"] > 500, flow)
        # the name in the ClientHello must still be that host's
        ran = container.sh("openssl s_client -connect pinned.test:443 -servername evil.test </dev/null 2>/dev/null | openssl x509 -noout -issuer")
        that("Leash test internet" not in ran.out, ran)


@check("inspect: false passes plain TCP to a port of a host, both ways", leashed=True)
def _():
    with Container(*with_policy("allow:\n  - {host: db.test, ports: [5432], inspect: false}\n"), TEST, "sleep", "600") as container:
        equal(container.sh("(printf 'select 1'; sleep 0.3) | timeout 5 nc -q1 db.test 5432").out, "select 1")
        flow = eventually(lambda: [f for f in container.flows() if f["host"] == "db.test"], 5, container.flows())[0]
        equal((flow["state"], flow["port"], flow["bytes_up"], flow["bytes_down"]), ("passed", 5432, 8, 8), flow)
        that(container.sh("timeout 5 nc -q1 db.test 5433 </dev/null").out == "")


@check("private: a rule that names the host opens a private destination, nothing else does", leashed=True)
def _():
    with Container(*with_policy("allow:\n  - {host: 10.0.0.5}\n  - mixed.test\n"), TEST, "sleep", "600") as container:
        ran = curl(container, "http://10.0.0.5/")
        contains(ran.out, " 200", ran)
        that(" 200" not in curl(container, "http://10.0.0.6/").out)



@check("leash policy explain says which rule decides and why", leashed=True)
def _():
    policy = "allow:\n  - host: ok.test\n    methods: [GET]\n"
    with Container(*with_policy(policy), TEST, "sleep", "600") as container:
        ran = run(f"{BIN}/leash", "policy", "explain", "--container", container.id[:12], "GET", "https://ok.test/x")
        contains(ran.out, "ok.test", ran)
        contains(ran.out.lower(), "allow", ran)
        ran = run(f"{BIN}/leash", "policy", "explain", "--container", container.id[:12], "POST", "https://ok.test/x")
        contains(ran.out, "method_not_allowed", ran)
        ran = run(f"{BIN}/leash", "policy", "explain", "--container", container.id[:12], "GET", "https://evil.test/")
        contains(ran.out, "host_not_allowed", ran)


main()
