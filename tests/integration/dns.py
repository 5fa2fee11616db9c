#!/usr/bin/env python3
"""Names: what is answered, what is NXDOMAIN, and what is asked of the real resolver."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from checks import *

_shared = []


def container():
    if not _shared:
        _shared.append(Container(*with_policy("allow: [ok.test, dual.test, six.test, alias.test, private.test]\n"), TEST, "sleep", "3600"))
    return _shared[0]


def dig(*words):
    return container().exec("dig", "+tries=1", "+time=4", *words)


@check("allowed names have their addresses, v4 and v6", leashed=True)
def _():
    equal(dig("+short", "ok.test").ok().out, "203.0.113.20\n")
    equal(dig("+short", "dual.test", "AAAA").ok().out, "2001:db8:1::22\n")
    ran = dig("ok.test", "AAAA").ok()
    contains(ran.out, "status: NOERROR")
    contains(ran.out, "ANSWER: 0")
    equal(dig("+short", "sub.ok.test").ok().out, "203.0.113.20\n")


@check("an alias is followed to its end", leashed=True)
def _():
    contains(dig("+short", "alias.test").out, "203.0.113.29")


@check("a denied name is NXDOMAIN with the extended error 15, at once, and never asked", leashed=True)
def _():
    dns = Records("dns")
    ran = dig("denied-name.test").ok()
    contains(ran.out, "status: NXDOMAIN")
    contains(ran.out, "EDE: 15")
    that(ran.seconds < 2, ran)
    equal([d for d in dns.lines() if "denied-name" in d.get("name", "")], [])
    eventually(lambda: [b for b in container().blocked() if b["layer"] == "dns" and b["host"] == "denied-name.test"], 5)


@check("glibc and musl-style clients fail at once for a denied name", leashed=True)
def _():
    ran = container().exec("getent", "ahosts", "denied-name.test")
    that(ran.code != 0 and ran.seconds < 3, ran)
    ran = container().exec("python3", "-c", "import socket; socket.getaddrinfo('denied-name.test', 443)")
    contains(ran.err, "gaierror")


@check("types other than A and AAAA are not answered", leashed=True)
def _():
    dns = Records("dns")
    for kind in ("TXT", "MX", "NS", "SOA", "SRV", "HTTPS", "SVCB", "ANY", "NULL", "CAA"):
        ran = dig("ok.test", kind)
        contains(ran.out, "ANSWER: 0", kind)
    equal([d for d in dns.lines() if d.get("type") not in ("A", "AAAA")], [])


@check("a name below an allowed one that resolves to a private address has none inside", leashed=True)
def _():
    for name, kind in (("private.ok.test", "A"), ("metadata.ok.test", "A"), ("loopback.ok.test", "A"), ("mapped.ok.test", "AAAA")):
        contains(dig(name, kind).out, "ANSWER: 0", name)


@check("answers over TCP are the same", leashed=True)
def _():
    equal(dig("+short", "+tcp", "ok.test").ok().out, "203.0.113.20\n")
    contains(dig("+tcp", "denied-name.test").out, "status: NXDOMAIN")


@check("malformed questions are refused and crash nothing", leashed=True)
def _():
    script = """
import os, socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(0.05)
for i in range(300):
    s.sendto(os.urandom(1 + i % 600), ("8.8.8.8", 53))
    try: s.recv(999)
    except OSError: pass
s.sendto(b"\\0\\7\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\xc0\\x0c\\0\\1\\0\\1", ("8.8.8.8", 53))
t = socket.create_connection(("8.8.8.8", 53), 3); t.sendall(b"\\xff\\xff" + os.urandom(3000)); t.close()
"""
    container().exec("python3", "-c", script, timeout=60).ok()
    time.sleep(1)
    equal(dig("+short", "ok.test").ok().out, "203.0.113.20\n")


@check("the answer keeps the question's spelling and id", leashed=True)
def _():
    contains(dig("oK.TeSt").ok().out, "oK.TeSt.")


try:
    main()
finally:
    for shared in _shared:
        docker("rm", "-f", "-v", shared.id)
