#!/usr/bin/env python3
"""What the proxy does with HTTP, plain and inside TLS, end to end: client in the container, origin in the test internet."""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from checks import *

_shared = []


def container():
    if not _shared:
        names = "ok.test, other.test, dual.test, six.test, many.test, redirect.test, alias.test, www.alias.test, expired.test, selfsigned.test, wronghost.test, untrusted.test"
        _shared.append(Container(*with_policy(f"allow: [{names}]\n"), TEST, "sleep", "3600"))
    return _shared[0]


def sh(script, **options):
    return container().exec("sh", "-c", script, timeout=120, **options)


def python(script, *arguments):
    return container().exec("python3", "-", *arguments, flags=["-i"], stdin=script, timeout=120)


@check("a GET gives the origin's answer, and the origin sees the request as it was sent", leashed=True)
def _():
    for scheme in ("http", "https"):
        origin = Records("origin")
        echo = json.loads(sh(f"curl -sm9 -A agent/1.0 -H 'X-Odd: a;b, c' '{scheme}://ok.test/path/a%20b?x=1&y=%2F'").ok().out)
        equal((echo["method"], echo["target"]), ("GET", "/path/a%20b?x=1&y=%2F"))
        headers = {k.lower(): v for k, v in echo["headers"]}
        equal((headers["user-agent"], headers["x-odd"], headers["host"]), ("agent/1.0", "a;b, c", "ok.test"))
        that(not [h for h in headers if "leash" in h or h in ("via", "x-forwarded-for", "forwarded")], headers)


@check("every status comes through as it is, with and without a body", leashed=True)
def _():
    for status in (200, 204, 301, 304, 400, 401, 404, 429, 500, 503, 529):
        equal(sh(f"curl -sm9 -o /dev/null -w '%{{http_code}}' https://ok.test/status/{status}").out, str(status))


@check("bodies of all framings arrive whole, up and down", leashed=True)
def _():
    for path in ("bytes", "chunked", "close", "trailers"):
        for size in (0, 1, 65537, 3_000_001):
            ran = sh(f"curl -sm20 https://ok.test/{path}/{size} | sha256sum")
            expected = sh(f"python3 -c 'import sys; b = bytes(range(256)) * 256; n = {size}; sys.stdout.buffer.write((b * (n // 65536 + 1))[:n])' | sha256sum")
            equal(ran.out, expected.out, path, size)
    origin = Records("origin")
    sh("head -c 3000001 /dev/urandom >/tmp/body; sha256sum /tmp/body")
    digest = sh("sha256sum /tmp/body").out.split()[0]
    for flags in ("--data-binary @/tmp/body", "-H 'Transfer-Encoding: chunked' --data-binary @/tmp/body", "-T /tmp/body", "-H 'Expect: 100-continue' --data-binary @/tmp/body"):
        equal(json.loads(sh(f"curl -sm20 {flags} https://ok.test/upload").ok().out)["body_sha256"], digest, flags)


@check("HEAD has no body and leaves the connection usable", leashed=True)
def _():
    ran = sh("curl -sm9 -I https://ok.test/bytes/1000; curl -sm9 -I https://ok.test/chunked/10 https://ok.test/status/200 -w '%{num_connects} '").ok()
    contains(ran.out, "Content-Length: 1000")


@check("connections are kept alive on both sides", leashed=True)
def _():
    tls = Records("tls")
    ran = sh("curl -sm20 -o /dev/null -w '%{num_connects} ' https://ok.test/a https://ok.test/b -o /dev/null https://ok.test/c -o /dev/null").ok()
    equal(ran.out, "1 0 0 ")
    that(len(tls.find(sni="ok.test")) <= 1, tls.lines())  # none: one of an earlier check is still open


@check("each request on a kept connection is judged on its own", leashed=True)
def _():
    script = """
import http.client, ssl
c = http.client.HTTPSConnection("ok.test", timeout=9)
c.request("GET", "/first"); print(c.getresponse().read()[:9] and 1)
c.request("GET", "/second", headers={"Host": "evil.test"}); r = c.getresponse(); print(r.status, b"leash_blocked" in r.read())
"""
    origin = Records("origin")
    equal(python(script).ok().out.split(), ["1", "403", "True"])
    equal([o["target"] for o in origin.lines()], ["/first"])


@check("100-continue comes from the origin, and an early answer reaches the client", leashed=True)
def _():
    ran = sh("head -c 5000000 /dev/zero >/tmp/zeros; curl -sm9 -H 'Expect: 100-continue' --data-binary @/tmp/zeros https://ok.test/early -o /dev/null -w '%{http_code}'")
    contains(ran.out, "413", ran)


@check("103 Early Hints and repeated Set-Cookie headers come through", leashed=True)
def _():
    contains(sh("curl -sm9 https://ok.test/hints").ok().out, "hinted")
    equal(sh("curl -sm9 -i https://ok.test/set-cookie").ok().out.lower().count("set-cookie: "), 2)


@check("server-sent events arrive one by one, not at the end", leashed=True)
def _():
    script = """
import http.client, time
c = http.client.HTTPSConnection("ok.test", timeout=20)
c.request("GET", "/sse/20"); r = c.getresponse(); times = []
while True:
    line = r.readline()
    if not line: break
    if line.startswith(b"data"): times.append(time.monotonic())
print(len(times), times[-1] - times[0] > 0.5)
"""
    equal(python(script).ok().out.split(), ["20", "True"])


@check("an upgrade is refused with a typed answer", leashed=True)
def _():
    origin = Records("origin")
    ran = sh("curl -sm9 -H 'Connection: Upgrade' -H 'Upgrade: websocket' -H 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==' -H 'Sec-WebSocket-Version: 13' https://ok.test/ws -w ' %{http_code}'")
    contains(ran.out, "upgrade_not_allowed", ran)
    equal(origin.find(target="/ws"), [])


@check("a refusal is 403 with a typed JSON body and the x-leash header", leashed=True)
def _():
    ran = sh("curl -sim9 --resolve evil.test:443:203.0.113.9 https://evil.test/x")
    contains(ran.out, "HTTP/1.1 403")
    that("x-leash: blocked; reason=host_not_allowed" in ran.out.lower(), ran)
    body = json.loads(ran.out.split("\r\n\r\n", 1)[1])
    equal((body["error"], body["reason"], body["host"]), ("leash_blocked", "host_not_allowed", "evil.test"))
    that(body["advice"] and "rule" in body, body)


@check("the origin's certificate is verified before a leaf vouches for its name", leashed=True)
def _():
    for host in ("expired.test", "selfsigned.test", "wronghost.test", "untrusted.test"):
        origin = Records("origin")
        ran = sh(f"curl -sm9 https://{host}/secret -w ' %{{http_code}}'")
        that(" 502" in ran.out or ran.code in (35, 60), host, ran)
        equal(origin.find(target="/secret"), [], host)
        flow = eventually(lambda: [f for f in container().flows() + container().blocked() if f["host"] == host], 5, "no line")[0]
        that("origin_certificate" in json.dumps(flow), flow)


@check("TLS 1.2 and 1.3 clients both work, older ones do not", leashed=True)
def _():
    for version in ("1.2", "1.3"):
        ran = sh(f"curl -sm9 --tlsv{version} --tls-max {version} https://ok.test/ -o /dev/null -w '%{{http_code}}'")
        equal(ran.out, "200", ran)
    that(sh("curl -sm9 --tlsv1.0 --tls-max 1.1 --ciphers DEFAULT@SECLEVEL=0 https://ok.test/").code != 0)


@check("HTTP/1.1 is what ALPN offers", leashed=True)
def _():
    ran = sh("openssl s_client -alpn h2,http/1.1 -connect ok.test:443 -servername ok.test </dev/null 2>/dev/null | grep ALPN")
    contains(ran.out, "http/1.1", ran)


@check("a host with IPv6, with both, with several addresses and with an alias is reached", leashed=True)
def _():
    for host in ("dual.test", "six.test", "many.test", "alias.test", "www.alias.test"):
        equal(sh(f"curl -sm9 https://{host}/ -o /dev/null -w '%{{http_code}}'").out, "200", host)


@check("a host that does not answer is 502 with the reason, in time", leashed=True)
def _():
    ran = sh("curl -sm40 https://ok.test/garbage -w ' %{http_code}'")
    contains(ran.out, "502", ran)


@check("40 clients at once each get their own answer", leashed=True)
def _():
    script = """
import concurrent.futures, json, urllib.request
def one(i):
    return json.load(urllib.request.urlopen(f"https://ok.test/number/{i}", data=str(i).encode(), timeout=30))["body"] == str(i)
with concurrent.futures.ThreadPoolExecutor(40) as pool:
    print(sum(pool.map(one, range(200))))
"""
    equal(python(script).ok().out.strip(), "200")


@check("a large body is streamed in bounded memory", leashed=True)
def _():
    size = int(os.environ.get("LEASH_LARGE_BODY", 1 << 30))
    sh("true")
    proxies = [p for p in os.listdir("/proc") if p.isdigit() and command_line(p).startswith("leash-proxy") and container().id in command_line(p)]
    equal(len(proxies), 1, proxies)
    ran = container().exec("sh", "-c", f"curl -sm300 https://ok.test/bytes/{size} | wc -c", timeout=320)
    equal(ran.ok().out.strip(), str(size))
    peak = int(next(l.split()[1] for l in open(f"/proc/{proxies[0]}/status") if l.startswith("VmHWM")))
    that(peak < 64 * 1024, f"the proxy's peak resident size is {peak} KiB")


def command_line(pid):
    try:
        return open(f"/proc/{pid}/cmdline").read().replace("\0", " ")
    except OSError:
        return ""


try:
    main()
finally:
    for shared in _shared:
        docker("rm", "-f", "-v", shared.id)
