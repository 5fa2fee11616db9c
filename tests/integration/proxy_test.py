"""leash-proxy in its house (proxy_house.py): what a container's programs see, what the origin got,
what the logs say. Run as: proxy_test.py PATH_OF_LEASH_PROXY
"""
import base64
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import proxy_house as house

BINARY = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else ""
ADDRESS = "203.0.113.10"
PLACEHOLDER = "sk-fake-ZZZZZZZZZZZZZZZZ"
VALUE = "sk-real-0123456789abcdef"
GOOD = ["ok.test", "api.test", "sub.ok.test"]
BAD = ["expired.test", "wrong.test", "selfsigned.test", "untrusted.test"]
POLICY = """
mode: enforce
allow:
  - ok.test
  - api.test
  - host: narrow.test
    methods: [GET]
  - expired.test
  - wrong.test
  - selfsigned.test
  - untrusted.test
  - down.test
  - nowhere.test
  - inside.test
  - pinned.test
  - host: db.test
    ports: [5432]
    inspect: false
ignore_hosts:
  - pinned\\.test
log:
  body_preview: 64
"""


def lower_headers(head):
    return {line.split(b":")[0].lower(): line.split(b":", 1)[1].strip() for line in head.split(b"\r\n")[1:] if b":" in line}


def read_body(connection, head, rest):
    """The request's body, as the origin reads it, and what follows it."""
    headers = lower_headers(head)
    if b"content-length" in headers:
        length = int(headers[b"content-length"])
        parts, size = [rest], len(rest)
        while size < length:
            data = connection.recv(1 << 20)
            if not data:
                raise OSError("body is cut")
            parts.append(data)
            size += len(data)
        whole = b"".join(parts)
        return whole[:length], whole[length:]
    if headers.get(b"transfer-encoding") == b"chunked":
        while True:
            end = rest.find(b"0\r\n")
            if end >= 0 and rest.endswith(b"\r\n\r\n"):
                return rest, b""
            data = connection.recv(65536)
            if not data:
                raise OSError("body is cut")
            rest += data
    return b"", rest


def plain_answer(body, extra=b""):
    return b"HTTP/1.1 200 OK\r\nContent-Length: " + str(len(body)).encode() + b"\r\n" + extra + b"\r\n" + body


def script(origin, connection, head, rest):
    method, target = head.split(b" ")[:2]
    path = target.split(b"?")[0]
    if path == b"/103":
        connection.sendall(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")
    if path == b"/expect":
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    if path == b"/refuse":
        connection.sendall(b"HTTP/1.1 417 Expectation Failed\r\nContent-Length: 2\r\n\r\nno")
        return None
    body, rest = read_body(connection, head, rest)
    if path == b"/echo":
        connection.sendall(plain_answer(head + body))
    elif path == b"/mirror":  # the answer's headers and chunks, cut within the value
        value = lower_headers(head).get(b"authorization", b"none")
        text = b"you sent " + value + b" and base64 " + base64.b64encode(value) + b" end"
        half = len(text) // 3
        connection.sendall(b"HTTP/1.1 200 OK\r\nX-Seen: " + value + b"\r\nTransfer-Encoding: chunked\r\n\r\n")
        for part in (text[:half], text[half:half + 7], text[half + 7:]):
            connection.sendall(b"%x\r\n%s\r\n" % (len(part), part))
            time.sleep(0.05)
        connection.sendall(b"0\r\n\r\n")
    elif path == b"/trailers":
        connection.sendall(b"HTTP/1.1 200 OK\r\nTrailer: x-sum\r\nTransfer-Encoding: chunked\r\n\r\n"
                           b"5;ext=1\r\nhello\r\n0\r\nX-Sum: 42\r\n\r\n")
    elif path == b"/204":
        connection.sendall(b"HTTP/1.1 204 No Content\r\nX-A: 1\r\n\r\n")
    elif path == b"/until-close":
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\nuntil the end")
        if hasattr(connection, "unwrap"):
            connection.unwrap()
        return None
    elif path == b"/cut":
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this")
        connection.shutdown(socket.SHUT_RDWR)
        return None
    elif path == b"/cut-chunks":
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel")
        connection.shutdown(socket.SHUT_RDWR)
        return None
    elif path == b"/bye":
        connection.sendall(plain_answer(b"bye", b"Connection: close\r\n"))
        return None
    elif path == b"/sse":
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for i in range(5):
            connection.sendall(b"9\r\ndata: %d\n\n\r\n" % i)
            time.sleep(0.2)
        connection.sendall(b"0\r\n\r\n")
    elif path == b"/drip":
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
        for i in range(5):
            connection.sendall(b"x")
            time.sleep(0.2)
    elif path == b"/big":
        size = int(target.split(b"?")[1])
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        block = bytes(range(256)) * 256
        while size > 0:
            connection.sendall(block[:size])
            size -= len(block)
    elif path == b"/upload":
        connection.sendall(plain_answer(house.sha256(body).encode()))
    elif path == b"/large-head":
        connection.sendall(b"HTTP/1.1 200 OK\r\nX-Large: " + b"a" * 48000 + b"\r\nContent-Length: 2\r\n\r\nok")
    elif path == b"/hang":
        time.sleep(30)
    elif path == b"/bad":
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
    elif method == b"HEAD":
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    else:
        connection.sendall(plain_answer(b"hello from the origin\n"))
    return rest


def database(listener):
    """A server that speaks first."""
    while True:
        connection, _ = listener.accept()
        try:
            connection.sendall(b"SERVER FIRST\n")
            data = connection.recv(100)
            connection.sendall(b"got " + data)
        except OSError:
            pass
        connection.close()


class House:
    """Made once for all tests."""

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="leash-proxy-test-")
        self.leash = house.Authority(self.directory, "leash-ca")
        self.world = house.Authority(self.directory, "world-ca")
        other = house.Authority(self.directory, "other-ca")
        certificates = {name: self.world.certificate(name) for name in GOOD + ["narrow.test", "pinned.test", "evil.test"]}
        certificates["expired.test"] = self.world.certificate("expired.test", start=True)
        certificates["wrong.test"] = self.world.certificate("right.test", label="wrong")
        certificates["untrusted.test"] = other.certificate("untrusted.test")
        house.run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "9",
                  "-keyout", f"{self.directory}/self.key", "-out", f"{self.directory}/self.crt", "-subj", "/CN=selfsigned.test",
                  "-addext", "subjectAltName=DNS:selfsigned.test")
        certificates["selfsigned.test"] = (f"{self.directory}/self.crt", f"{self.directory}/self.key")
        self.tls = house.Origin(script, house.server_contexts(certificates))
        self.plain = house.Origin(script)
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen(10)
        threading.Thread(target=database, args=(listener,), daemon=True).start()
        hosts = {name: ADDRESS for name in certificates}
        hosts.update({"db.test": "203.0.113.54", "x.inside.test": "10.1.2.3", "down.test": "203.0.113.99"})
        self.resolver = house.Resolver(hosts)
        self.dialer = house.Dialer({443: self.tls.port, 80: self.plain.port, 5432: listener.getsockname()[1]},
                                   self.resolver.socket.getsockname()[1])
        self.count = 0

    def proxy(self, policy=POLICY, **kwargs):
        self.count += 1
        directory = f"{self.directory}/{self.count}"
        os.mkdir(directory)
        secrets = [{"name": "API_KEY", "placeholder": PLACEHOLDER, "value": VALUE, "hosts": ["api.test"],
                    "headers": [], "exclusive": False}]
        # A dialer for each: its socket is the proxy's from then on.
        dialer = house.Dialer(self.dialer.ports, self.dialer.resolver_port)
        proxy = house.Proxy(BINARY, directory, policy, self.leash, self.world.pem, dialer, secrets, **kwargs)
        dialer.proxys.close()
        proxy.dialer = dialer
        return proxy


def setUpModule():
    global HOUSE
    HOUSE = House()


def tearDownModule():
    shutil.rmtree(HOUSE.directory)


class Case(unittest.TestCase):
    policy = POLICY

    @classmethod
    def setUpClass(cls):
        cls.proxy = HOUSE.proxy(cls.policy)

    @classmethod
    def tearDownClass(cls):
        if cls.proxy.process.poll() not in (None, 0, -9):
            raise AssertionError(f"the proxy died: {cls.proxy.process.returncode} {open(cls.proxy.log_path).read()}")
        cls.proxy.stop()

    def client(self, name="ok.test", port=443, address=ADDRESS, **kwargs):
        return house.Client(address, port, name, HOUSE.leash.pem, **kwargs)

    def plain(self, port=80, address=ADDRESS):
        return house.Client(address, port)

    def blocked(self, **wanted):
        return self.proxy.wait_line(self.proxy.blocked, lambda line: all(line.get(k) == v for k, v in wanted.items()))

    def flow(self, **wanted):
        return self.proxy.wait_line(self.proxy.flows, lambda line: all(line.get(k) == v for k, v in wanted.items()))


class Inspection(Case):
    def test_the_origin_gets_the_very_bytes_of_the_request(self):
        client = self.client()
        text = (b"GET /echo?one HTTP/1.1\r\nhOsT: ok.test\r\nX-b: 2\r\nx-A: 1\r\nX-b: 3\r\nAccept:   */*  \r\n\r\n")
        status, _, body = client.request(text)
        self.assertEqual(status, 200)
        self.assertEqual(body, text)
        client.close()
        line = self.flow(path="/echo?one")
        self.assertEqual((line["state"], line["method"], line["host"], line["status"]), ("inspected", "GET", "ok.test", 200))
        self.assertEqual(line["dst_ip"], ADDRESS)

    def test_paths_are_forwarded_as_sent(self):
        client = self.client()
        text = b"GET /echo?x%2Fy/../%41 HTTP/1.1\r\nHost: ok.test\r\n\r\n"
        self.assertEqual(client.request(text)[2], text)
        client.close()

    def test_what_is_dialled_is_what_our_resolver_answered(self):
        client = self.client(address="198.51.100.7")
        self.assertEqual(client.request("GET / HTTP/1.1\r\nHost: ok.test\r\n\r\n")[0], 200)
        client.close()
        self.assertNotIn("198.51.100.7", [address for address, _ in self.proxy.dialer.dialled])

    def test_a_connection_is_kept_and_each_request_judged(self):
        client = self.client("narrow.test")
        for _ in range(3):
            self.assertEqual(client.request("GET / HTTP/1.1\r\nHost: narrow.test\r\n\r\n")[0], 200)
        self.assertEqual(client.request("DELETE / HTTP/1.1\r\nHost: narrow.test\r\n\r\n")[0], 403)
        self.assertEqual(client.request("GET / HTTP/1.1\r\nHost: narrow.test\r\n\r\n")[0], 200)
        client.close()
        self.assertEqual(self.blocked(host="narrow.test")["reason"], "method_not_allowed")

    def test_origin_connections_are_pooled_and_sessions_resumed(self):
        before = HOUSE.tls.connections
        for _ in range(10):
            client = self.client("sub.ok.test")
            self.assertEqual(client.request("GET / HTTP/1.1\r\nHost: sub.ok.test\r\nConnection: close\r\n\r\n")[0], 200)
            client.close()
        self.assertLessEqual(HOUSE.tls.connections - before, 2)
        resumed = HOUSE.tls.resumed
        for _ in range(3):
            client = self.client("sub.ok.test")
            client.request("GET /bye HTTP/1.1\r\nHost: sub.ok.test\r\n\r\n")
            client.close()
        self.assertGreater(HOUSE.tls.resumed, resumed)

    def test_pipelined_requests_are_answered_in_order(self):
        client = self.client()
        client.send(b"".join(b"GET /echo?%d HTTP/1.1\r\nHost: ok.test\r\n\r\n" % i for i in range(5)))
        for i in range(5):
            self.assertIn(b"/echo?%d " % i, client.answer()[2])
        client.close()

    def test_a_pipelined_request_to_a_denied_path_is_judged_itself(self):
        client = self.client("narrow.test")
        client.send(b"GET / HTTP/1.1\r\nHost: narrow.test\r\n\r\nPOST /pipelined HTTP/1.1\r\nHost: narrow.test\r\nContent-Length: 0\r\n\r\n")
        self.assertEqual(client.answer()[0], 200)
        self.assertEqual(client.answer()[0], 403)
        client.close()
        self.assertFalse([head for head in HOUSE.tls.requests if b"/pipelined" in head])

    def test_bodies_come_whole_and_are_hashed(self):
        client = self.client()
        data = os.urandom(3_000_000)
        status, _, body = client.request(b"PUT /upload HTTP/1.1\r\nHost: ok.test\r\nContent-Length: 3000000\r\n\r\n" + data)
        self.assertEqual((status, body.decode()), (200, house.sha256(data)))
        self.assertEqual(client.request("GET / HTTP/1.1\r\nHost: ok.test\r\n\r\n")[0], 200)
        client.close()
        line = self.flow(method="PUT", req_size=3_000_000)
        self.assertEqual(line["req_body_sha256"], house.sha256(data))

    def test_chunked_requests_keep_chunks_and_trailers(self):
        client = self.client()
        head = b"POST /echo HTTP/1.1\r\nHost: ok.test\r\nTransfer-Encoding: chunked\r\n\r\n"
        body = b"5;a=b\r\nhello\r\n1\r\n!\r\n0\r\nX-Sum: 1\r\n\r\n"
        client.send(head)
        time.sleep(0.1)
        client.send(body[:10])
        time.sleep(0.1)
        client.send(body[10:])
        self.assertEqual(client.answer()[2], head + body)
        client.close()
        line = self.flow(method="POST", req_size=6)
        self.assertEqual(line["req_body_sha256"], house.sha256(b"hello!"))
        self.assertEqual(line["req_body_preview"], "hello!")

    def test_response_trailers_hints_and_empty_answers(self):
        client = self.client()
        self.assertEqual(client.request("GET /trailers HTTP/1.1\r\nHost: ok.test\r\n\r\n")[2], b"hello")
        self.assertIn(b"X-Sum: 42", client.trailers)
        status, head, _ = client.request("GET /103 HTTP/1.1\r\nHost: ok.test\r\n\r\n")
        self.assertEqual((status, b"Link: </x>" in head), (103, True))
        self.assertEqual(client.answer()[0], 200)
        self.assertEqual(client.request("GET /204 HTTP/1.1\r\nHost: ok.test\r\n\r\n")[0], 204)
        client.send(b"HEAD / HTTP/1.1\r\nHost: ok.test\r\n\r\n")
        self.assertIn(b"Content-Length: 1000", client.answer(head_only=True)[1])
        self.assertEqual(client.request("GET / HTTP/1.1\r\nHost: ok.test\r\n\r\n")[0], 200)
        client.close()

    def test_expectations_are_answered_by_the_origin(self):
        client = self.client()
        client.send(b"PUT /expect HTTP/1.1\r\nHost: ok.test\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
        self.assertEqual(client.answer()[0], 100)
        client.send(b"hello")
        self.assertEqual(client.answer()[0], 200)
        client.send(b"PUT /refuse HTTP/1.1\r\nHost: ok.test\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
        self.assertEqual(client.answer()[0], 417)
        client.close()

    def test_an_answer_until_close_ends_cleanly_and_a_cut_one_does_not(self):
        client = self.client()
        self.assertEqual(client.request("GET /until-close HTTP/1.1\r\nHost: ok.test\r\n\r\n")[2], b"until the end")
        client.close()
        for path in ("/cut", "/cut-chunks"):
            client = self.client()
            with self.assertRaises((EOFError, OSError, ssl.SSLError), msg=path):
                client.request(f"GET {path} HTTP/1.1\r\nHost: ok.test\r\n\r\n")
            client.socket.close()
            self.assertEqual(self.flow(path=path)["error"], "origin_protocol")

    def test_the_origins_connection_close_does_not_end_the_clients(self):
        client = self.client()
        status, head, body = client.request("GET /bye HTTP/1.1\r\nHost: ok.test\r\n\r\n")
        self.assertEqual((status, body), (200, b"bye"))
        self.assertNotIn(b"close", head.lower())
        self.assertEqual(client.request("GET / HTTP/1.1\r\nHost: ok.test\r\n\r\n")[0], 200)
        client.close()

    def test_a_client_that_wants_to_close_is_told_that_it_is_closed(self):
        client = self.client()
        head = client.request("GET / HTTP/1.1\r\nHost: ok.test\r\nConnection: close\r\n\r\n")[1]
        self.assertIn(b"\r\nConnection: close\r\n", head)
        self.assertEqual(client.rest(), b"")
        client.close()

    def test_events_and_drips_are_not_buffered(self):
        for path, first in (("/sse", b"data: 0"), ("/drip", b"x")):
            client = self.client()
            start = time.monotonic()
            client.send(f"GET {path} HTTP/1.1\r\nHost: ok.test\r\n\r\n".encode())
            client.until(b"\r\n\r\n")
            client.until(first)
            self.assertLess(time.monotonic() - start, 0.7, path)
            client.socket.close()

    def test_large_heads_pass_both_ways(self):
        client = self.client()
        status, head, _ = client.request(b"GET /large-head HTTP/1.1\r\nHost: ok.test\r\nX: " + b"a" * 30000 + b"\r\n\r\n")
        self.assertEqual((status, len(head) > 48000), (200, True))
        client.close()

    def test_tls_12_and_13_and_a_hello_in_single_bytes(self):
        for kwargs in ({"maximum": ssl.TLSVersion.TLSv1_2}, {"maximum": ssl.TLSVersion.TLSv1_3}, {"split": 1},
                       {"alpn": ["h2", "http/1.1"]}):
            client = self.client(**kwargs)
            self.assertEqual(client.request("GET / HTTP/1.1\r\nHost: ok.test\r\n\r\n")[0], 200, kwargs)
            if "alpn" in kwargs:
                self.assertEqual(client.tls.selected_alpn_protocol(), "http/1.1")
            client.close()

    def test_curl_and_openssl_accept_the_leaf(self):
        out = house.run("curl", "-sS", "--max-time", "20", "--cacert", HOUSE.leash.pem, "--resolve", f"ok.test:443:{ADDRESS}",
                        "https://ok.test/")
        self.assertEqual(out, "hello from the origin\n")
        out = house.run("openssl", "s_client", "-connect", f"{ADDRESS}:443", "-servername", "ok.test", "-CAfile", HOUSE.leash.pem,
                        "-x509_strict", "-verify_return_error", "-verify_hostname", "ok.test", "-brief", input=b"")
        self.assertIn("Verification: OK", out)

    def test_ipv6_is_redirected_too(self):
        client = self.client(address="2001:db8::7")
        self.assertEqual(client.request("GET / HTTP/1.1\r\nHost: ok.test\r\n\r\n")[0], 200)
        client.close()

    def test_a_bad_answer_of_the_origin_is_a_502(self):
        client = self.client()
        status, head, body = client.request("GET /bad HTTP/1.1\r\nHost: ok.test\r\n\r\n")
        self.assertEqual((status, json.loads(body)["reason"]), (502, "origin_protocol"))
        self.assertIn(b"x-leash: error", head)
        client.close()

    def test_a_client_that_goes_away_is_logged(self):
        client = self.client()
        client.send(b"POST /upload HTTP/1.1\r\nHost: ok.test\r\nContent-Length: 1000\r\nX-Leaves: 1\r\n\r\nhello")
        time.sleep(0.2)
        client.socket.close()
        self.assertEqual(self.flow(path="/upload", error="client_closed")["state"], "inspected")


    def test_a_client_that_cancels_a_silent_answer_ends_it(self):
        client = self.client()
        client.send(b"GET /hang?cancel HTTP/1.1\r\nHost: ok.test\r\n\r\n")
        time.sleep(0.2)
        client.socket.close()
        self.assertLess(self.flow(path="/hang?cancel", error="client_closed")["duration_ms"], 10000)


class Refusals(Case):
    def refused(self, client, text, status, reason):
        got, head, body = client.request(text)
        self.assertEqual(got, status, body)
        self.assertIn(f"x-leash: blocked; reason={reason}".encode(), head)
        document = json.loads(body)
        self.assertEqual((document["error"], document["reason"]), ("leash_blocked", reason))
        self.assertTrue(document["advice"])
        return document

    def test_a_denied_host_gets_a_page_and_no_packet_leaves(self):
        dialled = len(self.proxy.dialer.dialled)
        client = self.client("evil.test")
        document = self.refused(client, "GET /x HTTP/1.1\r\nHost: evil.test\r\n\r\n", 403, "host_not_allowed")
        self.assertEqual(document["host"], "evil.test")
        client.close()
        line = self.blocked(host="evil.test", path="/x")
        self.assertEqual((line["state"], line["layer"], line["event"] is not None), ("blocked", "http", True))
        self.assertEqual(len(self.proxy.dialer.dialled), dialled)

    def test_no_name_is_refused(self):
        client = self.client(None)
        self.refused(client, "GET / HTTP/1.1\r\nHost: 203.0.113.10\r\n\r\n", 403, "no_name")
        client.close()
        self.blocked(reason="no_name")

    def test_names_must_agree(self):
        seen = len(HOUSE.tls.requests) + len(HOUSE.plain.requests)
        for text in ("GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", "GET / HTTP/1.1\r\nHost: api.test\r\n\r\n",
                     "GET / HTTP/1.1\r\nHost: ok.test:444\r\n\r\n", "GET https://evil.test/ HTTP/1.1\r\nHost: ok.test\r\n\r\n",
                     "GET http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\n\r\n"):
            client = self.client()
            self.refused(client, text, 403, "host_mismatch")
            client.close()
        client = self.plain()
        self.refused(client, "GET http://evil.test/ HTTP/1.1\r\nHost: ok.test\r\n\r\n", 403, "host_mismatch")
        client.close()
        self.assertEqual(len(HOUSE.tls.requests) + len(HOUSE.plain.requests), seen)

    def test_ambiguous_requests_are_400_and_close_and_nothing_is_forwarded(self):
        seen = len(HOUSE.tls.requests)
        rows = ["POST / HTTP/1.1\r\nHost: ok.test\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                "POST / HTTP/1.1\r\nHost: ok.test\r\nTransfer-Encoding: xchunked\r\n\r\n",
                "POST / HTTP/1.1\r\nHost: ok.test\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
                "POST / HTTP/1.1\r\nHost: ok.test\r\nContent-Length: 4\r\nContent-Length: 4\r\n\r\nabcd",
                "POST / HTTP/1.1\r\nHost: ok.test\r\nContent-Length: +4\r\n\r\nabcd",
                "GET / HTTP/1.1\r\nHost : ok.test\r\n\r\n", "GET / HTTP/1.1\r\nHost: ok.test\r\n X: 1\r\n\r\n",
                "GET / HTTP/1.1\nHost: ok.test\n\n", "GET / HTTP/1.1\r\nHost: ok.test\r\nX: a\0b\r\n\r\n",
                "GET / HTTP/1.1\r\nHost: ok.test\r\nHost: ok.test\r\n\r\n", "GET / HTTP/1.1\r\n\r\n",
                "get / HTTP/1.1\r\nHost: ok.test\r\n\r\n", "GET /\xe4 HTTP/1.1\r\nHost: ok.test\r\n\r\n",
                "POST / HTTP/1.1\r\nHost: ok.test\r\nTransfer-Encoding: chunked\r\n\r\n5 \r\nhello\r\n0\r\n\r\n"]
        for text in rows:
            client = self.client()
            status, head, body = client.request(text)
            self.assertIn(status, (400, 501), text)
            self.assertEqual(json.loads(body)["reason"], "bad_request")
            self.assertEqual(client.rest(), b"", text)
            client.close()
        self.assertEqual(len(HOUSE.tls.requests), seen)
        self.blocked(reason="bad_request")
        self.assertGreaterEqual(len([line for line in self.proxy.blocked() if line["reason"] == "bad_request"]), len(rows))

    def test_a_body_that_turns_bad_never_looks_whole_to_the_origin(self):
        client = self.client()
        client.send(b"POST /upload HTTP/1.1\r\nHost: ok.test\r\nX-Turns: 1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
        time.sleep(0.2)
        client.send(b"5\nhello\r\n0\r\n\r\n")
        self.assertEqual(client.answer()[0], 400)
        client.close()
        self.blocked(reason="bad_request", path="/upload")

    def test_a_refused_upload_gets_its_page(self):
        client = self.client("evil.test")
        size = 5 << 20
        client.send(f"POST / HTTP/1.1\r\nHost: evil.test\r\nContent-Length: {size}\r\n\r\n".encode() + bytes(size))
        self.assertEqual(client.answer()[0], 403)
        client.close()

    def test_upgrades_and_connect_are_refused_with_a_page(self):
        client = self.client()
        self.refused(client, "GET /ws HTTP/1.1\r\nHost: ok.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", 403,
                     "upgrade_not_allowed")
        client.close()
        client = self.plain()
        self.refused(client, "CONNECT evil.test:443 HTTP/1.1\r\nHost: ok.test\r\n\r\n", 403, "connect_not_allowed")
        client.close()

    def test_an_offer_of_cleartext_http2_is_ignored(self):
        client = self.plain()
        status, _, body = client.request("GET /echo HTTP/1.1\r\nHost: ok.test\r\nConnection: Upgrade, HTTP2-Settings\r\n"
                                         "Upgrade: h2c\r\nHTTP2-Settings: AAA\r\nX-Kept: 1\r\n\r\n")
        self.assertEqual(status, 200)
        self.assertEqual(body, b"GET /echo HTTP/1.1\r\nHost: ok.test\r\nX-Kept: 1\r\n\r\n")
        client.close()

    def test_connection_cannot_strike_out_host_or_framing(self):
        client = self.plain()
        status, _, body = client.request("POST /echo HTTP/1.1\r\nHost: ok.test\r\nConnection: host, content-length, x-mine\r\n"
                                         "X-Mine: 1\r\nContent-Length: 2\r\n\r\nhi")
        self.assertEqual((status, body), (200, b"POST /echo HTTP/1.1\r\nHost: ok.test\r\nContent-Length: 2\r\n\r\nhi"))
        client.close()

    def test_what_is_neither_tls_nor_http_is_refused_at_once(self):
        for port in (443, 80):
            for data in (b"SSH-2.0-OpenSSH_9.2\r\n", b"root:x:0:0:root:/root:/bin/bash\n", b"\x16\x03\x01\x00\x00", b"\0\1\2\3"):
                client = self.plain(port)
                client.send(data)
                start = time.monotonic()
                with self.assertRaises((EOFError, OSError)):
                    client.exactly(1)
                self.assertLess(time.monotonic() - start, 3)
                client.socket.close()
        self.assertEqual(self.blocked(reason="unknown_protocol")["layer"], "tcp")

    def test_a_silent_client_of_a_port_that_no_rule_names_is_not_waited_for(self):
        client = self.plain(2222)
        start = time.monotonic()
        with self.assertRaises((EOFError, OSError)):
            client.exactly(1)
        self.assertLess(time.monotonic() - start, 5)
        client.socket.close()
        self.assertEqual(self.blocked(port=2222)["layer"], "tcp")

    def test_a_client_that_speaks_only_h2_is_told_so(self):
        with self.assertRaises(ssl.SSLError):
            self.client(alpn=["h2"])
        self.blocked(reason="unknown_protocol", layer="tls")

    def test_a_client_that_refuses_our_ca_is_reported(self):
        for maximum in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            with self.assertRaises(ssl.SSLError):
                house.Client(ADDRESS, 443, "ok.test", HOUSE.world.pem, maximum=maximum)
        self.assertEqual(self.blocked(reason="client_refused_ca")["host"], "ok.test")

    def test_bad_origins_give_502_with_the_reason(self):
        words = {"expired.test": "expired", "wrong.test": "mismatch", "selfsigned.test": "self", "untrusted.test": "issuer"}
        for name, word in words.items():
            client = self.client(name)
            status, _, body = client.request(f"GET / HTTP/1.1\r\nHost: {name}\r\n\r\n")
            document = json.loads(body)
            self.assertEqual((status, document["error"], document["reason"]), (502, "leash_origin_error", "origin_certificate"))
            self.assertIn(word, document["detail"])
            client.close()
            self.assertEqual(self.flow(host=name)["error"], "origin_certificate")
        for name, reason in (("nowhere.test", "origin_unresolved"), ("down.test", "origin_unreachable")):
            client = self.client(name, port=443)
            status, _, body = client.request(f"GET / HTTP/1.1\r\nHost: {name}\r\n\r\n")
            if name == "nowhere.test":
                self.assertEqual((status, json.loads(body)["reason"]), (502, reason))
            client.close()

    def test_private_addresses_are_refused(self):
        client = self.client("x.inside.test")
        self.refused(client, "GET / HTTP/1.1\r\nHost: x.inside.test\r\n\r\n", 403, "private_address")
        client.close()
        self.assertNotIn(("10.1.2.3", 443), self.proxy.dialer.dialled)

    def test_plain_http_is_judged_the_same(self):
        client = self.plain()
        self.assertEqual(client.request("GET / HTTP/1.1\r\nHost: ok.test\r\n\r\n")[0], 200)
        self.refused(client, "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", 403, "host_not_allowed")
        client.close()


class Secrets(Case):
    def test_a_placeholder_becomes_the_value_only_for_its_host(self):
        client = self.client("api.test")
        status, _, _ = client.request(f"GET /x1 HTTP/1.1\r\nHost: api.test\r\nX-Api-Key: {PLACEHOLDER}\r\n\r\n")
        self.assertEqual(status, 200)
        basic = base64.b64encode(f"user:{PLACEHOLDER}".encode()).decode()
        client.request(f"GET /x2 HTTP/1.1\r\nHost: api.test\r\nAuthorization: Basic {basic}\r\n\r\n")
        client.close()
        heads = [head for head in HOUSE.tls.requests if b"GET /x" in head]
        self.assertIn(f"X-Api-Key: {VALUE}\r\n".encode(), heads[-2])
        self.assertIn(b"Basic " + base64.b64encode(f"user:{VALUE}".encode()), heads[-1])
        self.assertEqual(self.flow(path="/x1")["secrets"], ["API_KEY"])
        client = self.client("ok.test")
        status, _, body = client.request(f"GET /x3 HTTP/1.1\r\nHost: ok.test\r\nAuthorization: Bearer {PLACEHOLDER}\r\n\r\n")
        self.assertEqual((status, json.loads(body)["reason"]), (403, "placeholder_misused"))
        client.close()
        self.blocked(path="/x3")
        self.assertFalse([head for head in HOUSE.tls.requests if b"/x3" in head])

    def test_never_over_plain_http(self):
        client = self.plain()
        status, _, body = client.request(f"GET /x4 HTTP/1.1\r\nHost: api.test\r\nX-Api-Key: {PLACEHOLDER}\r\n\r\n")
        self.assertEqual((status, json.loads(body)["reason"]), (403, "placeholder_misused"))
        client.close()

    def test_the_value_does_not_come_back(self):
        for authorization in (f"Bearer {PLACEHOLDER}", PLACEHOLDER):
            client = self.client("api.test")
            status, head, body = client.request(f"GET /mirror HTTP/1.1\r\nHost: api.test\r\nAuthorization: {authorization}\r\n\r\n")
            self.assertEqual(status, 200)
            self.assertIn(f"X-Seen: {authorization}".encode(), head)
            self.assertIn(f"you sent {authorization} and base64 ".encode(), body)
            self.assertNotIn(VALUE[8:].encode(), head + body)
            encoded = body.split(b"base64 ")[1].split(b" ")[0]
            self.assertNotIn(VALUE[8:].encode(), base64.b64decode(encoded))
            client.close()

    def test_the_value_is_in_no_log(self):
        client = self.client("api.test")
        client.request(f"POST /echo HTTP/1.1\r\nHost: api.test\r\nX-Api-Key: {PLACEHOLDER}\r\nContent-Length: {len(PLACEHOLDER)}\r\n\r\n"
                       f"{PLACEHOLDER}")
        client.close()
        line = self.flow(path="/echo", host="api.test")
        self.assertEqual(line["req_body_sha256"], house.sha256(PLACEHOLDER.encode()))
        for name in os.listdir(self.proxy.directory):
            with open(f"{self.proxy.directory}/{name}", "rb") as file:
                self.assertNotIn(VALUE.encode(), file.read(), name)


class Tunnels(Case):
    def test_a_server_that_speaks_first_passes_where_a_rule_says_so(self):
        # A program asks for the name first; that is how the proxy knows whose address it is.
        self.assertEqual(self.proxy.lookup("db.test"), "203.0.113.54")
        client = self.plain(5432, "203.0.113.54")
        text = client.until(b"\n")
        self.assertEqual(text, b"SERVER FIRST\n")
        client.send(b"query")
        self.assertEqual(client.rest(), b"got query")
        client.close()
        line = self.flow(state="passed", host="db.test")
        self.assertEqual(line["reason"], "inspect_false")
        self.assertEqual((line["bytes_up"], line["bytes_down"]), (client.sent, client.received))

    def test_a_name_that_is_inspected_does_not_pass_through_a_tunnel(self):
        self.proxy.lookup("db.test")
        with self.assertRaises((EOFError, OSError, ssl.SSLError)):
            house.Client("203.0.113.54", 5432, "evil.test", HOUSE.world.pem)
        self.blocked(reason="host_mismatch", sni="evil.test")

    def test_a_hello_that_cannot_be_read_does_not_pass_through_a_tunnel(self):
        self.proxy.lookup("db.test")
        client = self.plain(5432, "203.0.113.54")
        client.until(b"\n")
        client.send(b"\x16\x03\x01\x00\x06\x01\x00\x00\x01\x03\x03")
        with self.assertRaises((EOFError, OSError)):
            client.exactly(1)
        client.socket.close()
        self.blocked(reason="unknown_protocol", layer="tls", host="db.test")

    def test_an_ignored_host_is_tunnelled_with_the_origins_own_certificate(self):
        client = house.Client(ADDRESS, 443, "pinned.test", HOUSE.world.pem)
        self.assertEqual(client.request("GET / HTTP/1.1\r\nHost: pinned.test\r\nConnection: close\r\n\r\n")[0], 200)
        client.close()
        line = self.flow(state="passed", host="pinned.test")
        self.assertEqual((line["reason"], line["bytes_up"], line["bytes_down"]), ("ignore_hosts", client.sent, client.received))


class Bytes(Case):
    def test_the_lines_of_a_connection_add_up_to_what_crossed(self):
        # Its own proxy: lines of other tests' connections may still be on their way.
        type(self).proxy.stop()
        type(self).proxy = HOUSE.proxy()
        up = down = 0
        for kind in ("tls", "tls", "plain"):
            client = self.client("narrow.test") if kind == "tls" else self.plain()
            host = "narrow.test" if kind == "tls" else "ok.test"
            for i in range(3):
                client.request(f"GET /big?{i * 40000} HTTP/1.1\r\nHost: {host}\r\n\r\n")
            client.request(f"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n")
            time.sleep(0.8)  # beyond the time a line waits for the close
            client.request(f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")
            time.sleep(0.8)
            client.close()
            up += client.sent
            down += client.received
        for probe in (b"SSH-2.0-x\r\n",):
            client = self.plain()
            client.send(probe)
            with self.assertRaises((EOFError, OSError)):
                client.exactly(1)
            client.socket.close()
            up += client.sent
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            lines = self.proxy.flows() + self.proxy.blocked()
            if sum(line["bytes_up"] for line in lines) == up:
                break
            time.sleep(0.05)
        self.assertEqual(sum(line["bytes_up"] for line in lines), up)
        self.assertEqual(sum(line["bytes_down"] for line in lines), down)
        self.assertTrue(all(line["state"] in ("inspected", "passed", "blocked") for line in lines))

    def test_seq_has_no_holes(self):
        for lines in (self.proxy.flows(), self.proxy.blocked()):
            self.assertEqual([line["seq"] for line in lines], list(range(1, len(lines) + 1)))

    def test_large_bodies_pass_in_little_memory(self):
        size = 200 << 20
        client = self.client()
        client.send(f"GET /big?{size} HTTP/1.1\r\nHost: ok.test\r\n\r\n".encode())
        client.until(b"\r\n\r\n")
        left = size - len(client.pending)
        while left > 0:
            left -= len(client.receive())
        client.close()
        self.assertLess(self.proxy.resident_kb("VmHWM"), 64 << 10)


class Observe(Case):
    policy = POLICY.replace("enforce", "observe")

    def test_misses_pass_and_are_never_called_blocked(self):
        client = self.client("evil.test")
        self.assertEqual(client.request("GET /seen HTTP/1.1\r\nHost: evil.test\r\n\r\n")[0], 200)
        client.close()
        line = self.flow(path="/seen")
        self.assertEqual((line["observed"], line["reason"], line["state"]), (True, "host_not_allowed", "inspected"))
        client = self.client("ok.test")
        self.assertEqual(client.request("GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n")[0], 200)
        self.assertEqual(client.request("GET / HTTP/1.1\r\n\r\n")[0], 400)
        client.close()
        self.flow(reason="bad_request", observed=True)
        self.assertEqual(self.proxy.blocked(), [])


class Failures(unittest.TestCase):
    def test_a_killed_proxy_leaves_its_exchanges_in_the_table(self):
        proxy = HOUSE.proxy()
        client = house.Client(ADDRESS, 443, "ok.test", HOUSE.leash.pem)
        client.send(b"GET /hang HTTP/1.1\r\nHost: ok.test\r\n\r\n")
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline and not [slot for slot in proxy.slots() if slot[11].startswith(b"/hang")]:
            time.sleep(0.02)
        proxy.process.send_signal(signal.SIGKILL)
        proxy.process.wait()
        slots = proxy.slots()
        self.assertEqual(len(slots), 1)
        self.assertEqual(slots[0][10].split(b"\0")[0], b"ok.test")
        self.assertEqual(slots[0][4], client.sent)
        client.socket.close()

    def test_nothing_is_served_while_the_log_cannot_be_written(self):
        proxy = HOUSE.proxy(flows_path="/dev/full")
        client = house.Client(ADDRESS, 443, "ok.test", HOUSE.leash.pem)
        client.request(b"GET / HTTP/1.1\r\nHost: ok.test\r\n\r\n")
        time.sleep(1)
        seen = len(HOUSE.tls.requests)
        with self.assertRaises((EOFError, OSError, ssl.SSLError)):
            client.request(b"GET /unlogged HTTP/1.1\r\nHost: ok.test\r\n\r\n")
        client.socket.close()
        late = socket.create_connection((ADDRESS, 443))
        late.settimeout(1)
        late.sendall(b"\0")
        with self.assertRaises(OSError):  # nobody answers, not even with a reset
            if late.recv(1) == b"":
                raise OSError
        self.assertEqual(len(HOUSE.tls.requests), seen)
        fresh = os.open(f"{proxy.directory}/flows.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        proxy.control.send("rotated", {"log": "flows"}, [fresh])
        os.close(fresh)
        proxy.flows_path = f"{proxy.directory}/flows.jsonl"
        proxy.wait_line(proxy.flows, lambda line: line["seq"] == 1)
        client = house.Client(ADDRESS, 443, "ok.test", HOUSE.leash.pem)
        self.assertEqual(client.request(b"GET / HTTP/1.1\r\nHost: ok.test\r\n\r\n")[0], 200)
        client.close()
        proxy.stop()
        self.assertEqual([line["seq"] for line in proxy.flows()], list(range(1, len(proxy.flows()) + 1)))

    def test_the_proxy_ends_with_its_shim_and_cannot_be_dumped(self):
        proxy = HOUSE.proxy()
        self.assertEqual(os.stat(f"/proc/{proxy.process.pid}/environ").st_uid, 0)
        with open(f"/proc/{proxy.process.pid}/limits"):
            pass
        with open(f"/proc/{proxy.process.pid}/status") as status:
            self.assertIn("Seccomp:\t2", status.read())  # proxy/confine.h
        proxy.stop()
        self.assertEqual(proxy.process.returncode, 0)


if __name__ == "__main__":
    if os.environ.get("LEASH_TEST_NAMESPACE") != "1":
        if os.geteuid() != 0:
            print("skipped: needs root for a network namespace of its own")
            sys.exit(77)
        os.environ["LEASH_TEST_NAMESPACE"] = "1"
        os.execvp("unshare", ["unshare", "-n", sys.executable, *sys.argv])
    house.prepare_namespace()
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=1, warnings="ignore")
