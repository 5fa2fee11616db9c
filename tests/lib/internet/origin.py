"""The web servers of the test internet: HTTP on 80, TLS on 443, every name on both.

They keep the head of each request as the bytes that came, because tests ask what really reached the origin
(was the real key put in? was a second request smuggled?). The path says what they answer:

  /bytes/N /chunked/N /close/N   N bytes, three framings      /status/N        that status, an empty body
  /redirect?to=URL               302                          /trailers        chunked with a trailer
  /sse/N                         N events, 50 ms apart        /hang            accepts and says nothing
  /garbage                       not HTTP                     /early           answers before the body is read
  /set-cookie, /hints            headers worth a look         anything else    an echo of the request, in JSON
  /echo-in/PLACE                 the x-api-key header comes back in PLACE: gzip hints trailer extension header cut chunks

A folder www/NAME makes NAME a static site (the package registries of the trust tests).
"""

import gzip
import hashlib
import json
import os
import socket
import ssl
import threading
import time
import urllib.parse

import names

BLOCK = bytes(range(256)) * 256
TYPES = {".json": "application/json", ".html": "text/html", ".tgz": "application/octet-stream"}


class Connection:
    def __init__(self, raw, stream, scheme, sni, logs, www):
        self.raw, self.stream, self.scheme, self.sni = raw, stream, scheme, sni
        self.log, self.www, self.buffer = logs, www, b""
        self.to, self.port = raw.getsockname()[:2]
        self.peer = raw.getpeername()[0]

    def fill(self):
        data = self.stream.recv(65536)
        self.buffer += data
        return data

    def read_head(self):
        while b"\r\n\r\n" not in self.buffer:
            if len(self.buffer) > 1 << 20 or not self.fill():
                return None
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        return head

    def read_exactly(self, count, sink):
        while count:
            if not self.buffer and not self.fill():
                raise EOFError
            piece, self.buffer = self.buffer[:count], self.buffer[count:]
            sink(piece)
            count -= len(piece)

    def read_line(self):
        while b"\r\n" not in self.buffer:
            if not self.fill():
                raise EOFError
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line

    def read_body(self, headers):
        state = {"size": 0, "hash": hashlib.sha256(), "preview": b""}

        def sink(piece):
            state["size"] += len(piece)
            state["hash"].update(piece)
            if len(state["preview"]) < 4096:
                state["preview"] += piece[: 4096 - len(state["preview"])]

        lower = {k.lower(): v for k, v in headers}
        trailers = []
        if lower.get("expect", "").lower() == "100-continue":
            self.stream.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        if "chunked" in lower.get("transfer-encoding", "").lower():
            while True:
                size = int(self.read_line().split(b";")[0], 16)
                if size == 0:
                    break
                self.read_exactly(size, sink)
                self.read_line()
            while True:
                line = self.read_line()
                if not line:
                    break
                trailers.append(line.decode("latin-1"))
        elif "content-length" in lower:
            self.read_exactly(int(lower["content-length"]), sink)
        return state, trailers

    def serve(self):
        while True:
            head = self.read_head()
            if head is None:
                return
            lines = head.split(b"\r\n")
            parts = lines[0].decode("latin-1").split(" ")
            if len(parts) != 3:
                self.log["origin"].write(**self.where(), malformed=head.decode("latin-1"))
                return
            method, target, _ = parts
            headers = [tuple(x.strip() for x in l.decode("latin-1").split(":", 1)) for l in lines[1:] if b":" in l]
            path = urllib.parse.urlsplit(target).path
            if path == "/early":
                self.entry(method, target, headers, None, head, [])
                self.reply(413, b"too large\n", close=True)
                return
            body, trailers = self.read_body(headers)
            self.entry(method, target, headers, body, head, trailers)
            if not self.respond(method, target, path, headers, body):
                return
            if any(k.lower() == "connection" and v.lower() == "close" for k, v in headers):
                return

    def where(self):
        return {"scheme": self.scheme, "sni": self.sni, "to": self.to, "port": self.port, "peer": self.peer}

    def entry(self, method, target, headers, body, head, trailers):
        host = next((v for k, v in headers if k.lower() == "host"), "")
        self.log["origin"].write(
            **self.where(), method=method, target=target, host=host, headers=headers, raw=head.decode("latin-1"), trailers=trailers,
            body_size=body["size"] if body else -1, body_sha256=body["hash"].hexdigest() if body else "",
            body_preview=body["preview"].decode("latin-1") if body else "")

    def reply(self, status, body, kind="text/plain", extra=(), close=False, head_only=False):
        lines = [f"HTTP/1.1 {status} Test", f"Content-Type: {kind}", f"Content-Length: {len(body)}", *extra]
        if close:
            lines.append("Connection: close")
        self.stream.sendall(("\r\n".join(lines) + "\r\n\r\n").encode() + (b"" if head_only else body))

    def blocks(self, count):
        while count > 0:
            yield BLOCK[: min(count, len(BLOCK))]
            count -= len(BLOCK)

    def respond(self, method, target, path, headers, body):
        """False when the connection ends with this answer."""
        words = [w for w in path.split("/") if w]
        number = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
        send, head_only = self.stream.sendall, method == "HEAD"
        host = next((v for k, v in headers if k.lower() == "host"), "").split(":")[0]
        if os.path.isdir(os.path.join(self.www, host or "-")):
            return self.static(host, path, head_only)
        first = words[0] if words else ""
        if first == "bytes":
            send(f"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: {number}\r\n\r\n".encode())
            if not head_only:
                for block in self.blocks(number):
                    send(block)
        elif first in ("chunked", "trailers"):
            send(b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n")
            for block in self.blocks(number):
                send(b"%x\r\n" % len(block) + block + b"\r\n")
            send(b"0\r\nX-Sum: 42\r\n\r\n" if first == "trailers" else b"0\r\n\r\n")
        elif first == "close":
            send(b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nConnection: close\r\n\r\n")
            for block in self.blocks(number):
                send(block)
            if self.scheme == "https":
                # Without a goodbye a client cannot tell the end from a cut.
                self.stream.settimeout(5)
                self.stream.unwrap()
            return False
        elif first == "sse":
            send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
            for i in range(number):
                send(b"data: %d %.6f\n\n" % (i, time.time()))
                time.sleep(0.05)
            return False
        elif first == "status":
            self.reply(number, b"", head_only=head_only)
        elif first == "redirect":
            to = urllib.parse.parse_qs(urllib.parse.urlsplit(target).query).get("to", ["/"])[0]
            self.reply(302, b"", extra=[f"Location: {to}"])
        elif first == "hang":
            time.sleep(30)
            return False
        elif first == "garbage":
            send(b"\x00\x01this is not HTTP\r\n\r\n")
            return False
        elif first == "set-cookie":
            self.reply(200, b"cookies\n", extra=["Set-Cookie: a=1", "Set-Cookie: b=2"])
        elif first == "hints":
            send(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
            self.reply(200, b"hinted\n")
        elif first == "echo-in":
            return self.echo_in(words[1], {k.lower(): v for k, v in headers})
        else:
            echo = {"scheme": self.scheme, "sni": self.sni, "method": method, "target": target,
                    "headers": headers, "body_size": body["size"], "body_sha256": body["hash"].hexdigest(),
                    "body": body["preview"].decode("latin-1")}
            self.reply(200, (json.dumps(echo) + "\n").encode(), "application/json", head_only=head_only)
        return True

    def echo_in(self, place, headers):
        value, chunked = headers.get("x-api-key", "none"), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        if place == "gzip":
            # As servers that compress do: for those who ask for it, and a rude one for all.
            encoded = "gzip" in headers.get("accept-encoding", "") or "x-rude" in headers
            body = gzip.compress(value.encode()) if encoded else value.encode()
            self.reply(200, body, extra=["Content-Encoding: gzip"] if encoded else [])
        elif place == "hints":
            self.stream.sendall(f"HTTP/1.1 103 Early Hints\r\nLink: </{value}>\r\n\r\n".encode())
            self.reply(200, b"hinted\n")
        elif place == "trailer":
            self.stream.sendall(f"{chunked}2\r\nhi\r\n0\r\nX-Echo: {value}\r\n\r\n".encode())
        elif place == "extension":
            self.stream.sendall(f"{chunked}2;x={value}\r\nhi\r\n0\r\n\r\n".encode())
        elif place == "header":
            self.reply(200, b"see above\n", extra=[f"X-Echo: {value}"])
        elif place == "cut":
            self.reply(200, value[:-1].encode())
        elif place == "chunks":
            self.stream.sendall((chunked + "".join(f"1\r\n{c}\r\n" for c in value) + "0\r\n\r\n").encode())
        return True

    def static(self, host, path, head_only):
        root = os.path.join(self.www, host)
        file = os.path.normpath(os.path.join(root, urllib.parse.unquote(path).lstrip("/")))
        if os.path.isdir(file):
            file = os.path.join(file, "index.html")
        if not file.startswith(root) or not os.path.isfile(file):
            self.reply(404, b"not found\n", head_only=head_only)
            return True
        with open(file, "rb") as f:
            data = f.read()
        self.reply(200, data, TYPES.get(os.path.splitext(file)[1], "application/octet-stream"), head_only=head_only)
        return True


def contexts(folder):
    """One TLS context per certificate; the good one switches to the others by SNI."""
    made = {}
    for name in ("good", "expired", "selfsigned", "wronghost", "untrusted"):
        made[name] = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made[name].load_cert_chain(f"{folder}/{name}.pem", f"{folder}/{name}.key")
        made[name].set_alpn_protocols(["http/1.1"])

    def by_name(connection, sni, _):
        connection.leash_sni = sni
        kind = names.CERTIFICATES.get(sni or "", "good")
        if kind != "good":
            connection.context = made[kind]

    made["good"].sni_callback = by_name
    return made["good"]


def one(raw, context, logs, www):
    raw.settimeout(60)
    sni, stream, scheme = None, raw, "http"
    where = {"to": raw.getsockname()[0], "port": raw.getsockname()[1], "peer": raw.getpeername()[0]}
    try:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context:
            scheme = "https"
            try:
                stream = context.wrap_socket(raw, server_side=True)
            except (ssl.SSLError, OSError) as error:
                logs["tls"].write(**where, error=str(error))
                return
            sni = getattr(stream, "leash_sni", None)
            logs["tls"].write(**where, sni=sni, version=stream.version(), alpn=stream.selected_alpn_protocol(), resumed=stream.session_reused)
        else:
            logs["tls"].write(**where, plain=True)
        Connection(raw if not context else stream, stream, scheme, sni, logs, www).serve()
    except (OSError, EOFError, ValueError):
        pass
    finally:
        try:
            stream.close()
        except OSError:
            pass


def serve(family, port, context, logs, www):
    server = socket.socket(family, socket.SOCK_STREAM)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    server.bind(("", port))
    server.listen(512)
    while True:
        raw, _ = server.accept()
        threading.Thread(target=one, args=(raw, context, logs, www), daemon=True).start()


def start(certificates, www, logs):
    context = contexts(certificates)
    for family in (socket.AF_INET, socket.AF_INET6):
        threading.Thread(target=serve, args=(family, 80, None, logs, www), daemon=True).start()
        threading.Thread(target=serve, args=(family, 443, context, logs, www), daemon=True).start()
