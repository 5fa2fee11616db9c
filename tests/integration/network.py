#!/usr/bin/env python3
"""The ways in which an engine wires a container, each under the leash: bridge, none, host, container:X, own networks."""

import difflib
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from checks import *

EVIL = "203.0.113.9"
PROBE = f"curl -s -m4 http://ok.test/ -o /dev/null -w 'ok=%{{http_code}} '; curl -s -m4 --resolve evil.test:80:{EVIL} http://evil.test/ -o /dev/null -w 'evil=%{{http_code}} '"


def allow(*hosts):
    return with_policy("allow: [" + ", ".join(hosts) + "]\n")


class Network:
    def __init__(self, name, *flags):
        self.name, self.flags = name, flags

    def __enter__(self):
        docker("network", "rm", self.name)
        docker("network", "create", *self.flags, self.name).ok()
        return self.name

    def __exit__(self, *_):
        docker("network", "rm", self.name)


@check("bridge: the container sees the address, the route and the resolver that the engine gave it", leashed=True)
def _():
    with Container(*allow("ok.test"), TEST, "sleep", "600") as container:
        address = container.inspect("{{.NetworkSettings.IPAddress}}")
        six = container.inspect("{{.NetworkSettings.GlobalIPv6Address}}")
        out = container.sh("ip -o addr show eth0; ip route; ip -6 route").ok().out
        contains(out, address + "/")
        contains(out, six + "/")
        contains(out, "default")
        contains(container.sh("python3 -c 'import socket; print(socket.gethostbyname(socket.gethostname()))'").ok().out, address)


@check("bridge: an allowed request goes out from the engine's own address and network", leashed=True)
def _():
    origin = Records("origin")
    with Container(*allow("ok.test"), TEST, "sleep", "600") as container:
        equal(container.sh(PROBE).out, "ok=200 evil=403 ")
        that(origin.find(host="ok.test", to="203.0.113.20"), origin.lines())


@check("--network none: no way out, and it says so at once", leashed=True)
def _():
    wire = Wire()
    ran = docker_run("--network", "none", *allow("ok.test"), TEST, "sh", "-c", f"curl -s -m4 http://203.0.113.20/ -w '%{{http_code}}'; echo; curl -sS -m4 http://ok.test/")
    that(ran.code != 0 and ran.seconds < 20, ran)
    that("scheme" not in ran.out, ran)
    equal(wire.towards("203.0.113.20"), [])


@check("--network host: the policy holds there too", leashed=True)
def _():
    wire = Wire()
    ran = docker_run("--network", "host", *allow("ok.test"), TEST, "sh", "-c", f"curl -s -m4 --resolve ok.test:80:203.0.113.20 http://ok.test/ -o /dev/null -w 'ok=%{{http_code}} '; curl -s -m4 http://{EVIL}/; curl -s -m4 http://127.0.0.1:2375/; true")
    if ran.code == 125:
        contains(ran.err, "host", ran)
        return
    that('"scheme"' not in ran.out, ran)
    equal(wire.towards(EVIL), [])


@check("--network host: the host's own rules and addresses are the same afterwards", leashed=True)
def _():
    def state():
        inside = ("nsenter", f"--net=/run/netns/{LAB}-engine")
        texts = [run(*inside, *what).out for what in (("nft", "list", "ruleset"), ("ip", "-o", "addr"), ("ip", "route"), ("ip", "-6", "route"))]
        # Without what moves by itself: counters, and what an earlier container leaves for a moment.
        return [re.sub(r"counter packets \d+ bytes \d+| *linkdown| *valid_lft.*| *(?:tentative|dadfailed)", "", "\n".join(line.rstrip() for line in text.splitlines() if "veth" not in line)) for text in texts]
    before = state()
    docker_run("--network", "host", *allow("ok.test"), TEST, "true")
    try:
        eventually(lambda: state() == before, 5)
    except Failed:
        that(False, "the host's network is not as it was", *difflib.unified_diff("\n".join(before).splitlines(), "\n".join(state()).splitlines(), lineterm="", n=0))


@check("--network container:X of a leashed X shares its leash", leashed=True)
def _():
    wire = Wire()
    with Container(*allow("ok.test"), TEST, "sh", "-c", "echo served >/tmp/index.html; cd /tmp; python3 -m http.server 8000") as first:
        with Container("--network", f"container:{first.id}", TEST, "sleep", "600") as second:
            equal(second.sh(PROBE).out, "ok=200 evil=403 ")
            eventually(lambda: second.sh("curl -s -m4 http://127.0.0.1:8000/index.html").out == "served\n")
            equal(second.sh("readlink /proc/self/ns/net").out, first.sh("readlink /proc/self/ns/net").out)
        equal(first.sh(PROBE).out, "ok=200 evil=403 ")
    equal(wire.towards(EVIL), [])


@check("--network container:X of an unleashed X is refused and names it", leashed=True)
def _():
    with Container(BUSYBOX, "sleep", "600", runtime="runc") as plain:
        ran = docker_run("--network", f"container:{plain.id}", *allow("ok.test"), BUSYBOX, "echo", "ran")
        equal(ran.code, 125, ran)
        that("ran" not in ran.out, ran)
        contains(ran.err, "leash", ran)


@check("a plain runc container that joins a leashed one's network gets no way out of it", leashed=True)
def _():
    wire = Wire()
    with Container(*allow("ok.test"), TEST, "sleep", "600") as leashed:
        docker_run("--network", f"container:{leashed.id}", TEST, "sh", "-c", f"curl -sk -m3 https://{EVIL}/; curl -s -m3 http://{EVIL}:8080/", runtime="runc")
    equal(wire.towards(EVIL), [])


@check("user network: a neighbour is reached by name when a rule names it, and only then", leashed=True)
def _():
    with Network("leash-names") as network, \
         Container("--network", network, "--name", "neighbour", TEST, "sh", "-c", "echo from-neighbour >/tmp/x; cd /tmp; python3 -m http.server 80", runtime="runc") as neighbour:
        with Container("--network", network, *allow("neighbour"), TEST, "sleep", "600") as allowed:
            eventually(lambda: allowed.sh("curl -s -m4 http://neighbour/x").out == "from-neighbour\n", 10, allowed.sh("curl -sS -m4 -v http://neighbour/x"))
        with Container("--network", network, *allow("ok.test"), TEST, "sleep", "600") as other:
            that(other.sh("curl -s -m4 http://neighbour/x").code != 0)
            equal(other.sh("curl -s -m4 http://ok.test/ -o /dev/null -w '%{http_code}'").out, "200")
            address = neighbour.inspect("{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}")
            that("from-neighbour" not in other.sh(f"curl -s -m4 http://{address}/x").out)


@check("user network: plain TCP to a neighbour works with inspect: false, and is logged as passed", leashed=True)
def _():
    with Network("leash-tcp") as network, \
         Container("--network", network, "--name", "db", BUSYBOX, "sh", "-c", "while :; do echo row | nc -l -p 5432; done", runtime="runc"):
        policy = with_policy("allow:\n  - {host: db, ports: [5432], inspect: false}\n")
        with Container("--network", network, *policy, TEST, "sleep", "600") as container:
            eventually(lambda: "row" in container.sh("echo hello | timeout 4 nc db 5432").out, 10)
            eventually(lambda: [f for f in container.flows() if f["state"] == "passed" and f["host"] == "db" and f["port"] == 5432], 5, container.flows())


@check("two leashed containers reach each other when both policies say so", leashed=True)
def _():
    with Network("leash-both") as network, \
         Container("--network", network, "--name", "web", "-p", "18081:8000", *allow("ok.test"), TEST, "sh", "-c", "echo leashed-web >/tmp/x; cd /tmp; python3 -m http.server 8000"):
        policy = with_policy("allow:\n  - {host: web, ports: [8000]}\n")
        with Container("--network", network, *policy, TEST, "sleep", "600") as client:
            eventually(lambda: client.sh("curl -s -m4 http://web:8000/x").out == "leashed-web\n", 10, client.sh("curl -sS -m4 -v http://web:8000/x"))


@check("an internal network has no way out, and says so at once", leashed=True)
def _():
    with Network("leash-internal", "--internal") as network:
        wire = Wire()
        with Container("--network", network, *allow("ok.test"), TEST, "sleep", "600") as container:
            ran = container.sh("curl -s -m8 --resolve ok.test:80:203.0.113.20 http://ok.test/ -w ' %{http_code}'")
            that('"scheme"' not in ran.out, ran)
            equal([f for f in wire.frames() if f.get("interface") == "wan" and f.get("dst") == "203.0.113.20"], [])


@check("docker network connect to a running container: the new address appears, the leash stays shut", leashed=True)
def _():
    with Network("leash-later") as network, Container(*allow("ok.test"), TEST, "sleep", "600") as container:
        docker("network", "connect", network, container.id).ok()
        address = container.inspect("{{(index .NetworkSettings.Networks \"leash-later\").IPAddress}}")
        eventually(lambda: address in container.sh("ip -o addr").out, 5, "the new address does not appear")
        wire = Wire()
        equal(container.sh(PROBE).out, "ok=200 evil=403 ")
        equal(wire.towards(EVIL), [])
        docker("network", "disconnect", network, container.id).ok()
        eventually(lambda: address not in container.sh("ip -o addr").out, 5, "the old address stays")
        equal(container.sh(PROBE).out, "ok=200 evil=403 ")


@check("-p: a published port is relayed, an unpublished one is not reachable, and a reply leaks nothing", leashed=True)
def _():
    server = "echo relayed >/tmp/x; cd /tmp; python3 -m http.server 8000 & python3 -m http.server 9000 --bind 0.0.0.0 & wait"
    with Container("-p", "18082:8000", *allow("ok.test"), TEST, "sh", "-c", server) as container:
        address = container.inspect("{{.NetworkSettings.IPAddress}}")
        def get(url, namespace="internet"):
            return run("nsenter", f"--net=/run/netns/{LAB}-{namespace}", "curl", "-s", "-m", "3", url, env={"no_proxy": "*"})
        eventually(lambda: get("http://203.0.113.1:18082/x").out == "relayed\n", 10, get("http://203.0.113.1:18082/x"))
        equal(get("http://127.0.0.1:18082/x", "engine").out, "relayed\n")
        that(get(f"http://{address}:9000/x", "engine").code != 0, "an unpublished port answers")


@check("the engine's resolver answers 127.0.0.11 on port 53 alone", leashed=True)
def _():
    with Network("leash-dns") as network, Container("--network", network, *allow("ok.test"), TEST, "sleep", "600") as container:
        contains(container.sh("cat /etc/resolv.conf").out, "127.0.0.11")
        equal(container.sh("dig +short +tries=1 +time=3 ok.test").out.strip(), "203.0.113.20")
        script = "import socket\nfor p in range(30000, 61000):\n  s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n  try: s.sendto(b'x', ('127.0.0.11', p)); print(p)\n  except OSError: pass\n  s.close()\n"
        equal(container.exec("python3", "-c", script).out, "")


@check("loopback inside the container works as ever, TCP and UDP", leashed=True)
def _():
    script = """
import socket, threading
for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    server = socket.create_server((host, 7777), family=family)
    threading.Thread(target=lambda s=server: s.accept()[0].sendall(b"tcp"), daemon=True).start()
    print(socket.create_connection((host, 7777), 3).recv(9).decode())
    a = socket.socket(family, socket.SOCK_DGRAM); a.bind((host, 7778)); a.settimeout(3)
    b = socket.socket(family, socket.SOCK_DGRAM); b.sendto(b"udp", (host, 7778)); print(a.recv(9).decode())
"""
    with Container(*allow("ok.test"), TEST, "sleep", "600") as container:
        equal(container.exec("python3", "-c", script).ok().out.split(), ["tcp", "udp", "tcp", "udp"])


main()
