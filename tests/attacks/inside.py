"""Runs inside the container: attacks that no ready-made tool makes. `python3 - NAME ARGS...` on its standard input.

Each prints one line of JSON with what the client saw.
"""

import errno
import json
import os
import random
import socket
import ssl
import struct
import sys
import time


def tell(**fields):
    print(json.dumps(fields))


def receive_all(connection, seconds=5):
    connection.settimeout(seconds)
    data = b""
    try:
        while len(data) < 1 << 20:
            piece = connection.recv(65536)
            if not piece:
                return data, "closed"
            data += piece
    except socket.timeout:
        return data, "open"
    except OSError as error:
        return data, errno.errorcode.get(error.errno, str(error))
    return data, "long"


def raw(host, port, text):
    """Bytes as given to HOST:PORT, and everything that comes back."""
    try:
        connection = socket.create_connection((host, int(port)), 5)
        connection.sendall(text.encode("latin-1").decode("unicode_escape").encode("latin-1"))
    except OSError as error:
        return tell(error=errno.errorcode.get(error.errno, str(error)), answer="", end="")
    data, end = receive_all(connection, 4)
    tell(answer=data.decode("latin-1"), end=end, error=None)


def raw_tls(host, text):
    """The same inside TLS, SNI = HOST."""
    context = ssl.create_default_context()
    try:
        connection = context.wrap_socket(socket.create_connection((host, 443), 5), server_hostname=host)
        connection.sendall(text.encode("latin-1").decode("unicode_escape").encode("latin-1"))
    except OSError as error:
        return tell(error=str(error), answer="", end="")
    data, end = receive_all(connection, 4)
    tell(answer=data.decode("latin-1"), end=end, error=None)


def udp(host, port, text):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sender = socket.socket(family, socket.SOCK_DGRAM)
    started = time.monotonic()
    errors = []
    for _ in range(3):
        try:
            sender.sendto(text.encode(), (host, int(port)))
            errors.append(None)
        except OSError as error:
            errors.append(errno.errorcode.get(error.errno))
        time.sleep(0.05)
    tell(errors=errors, seconds=time.monotonic() - started)


def connect(host, port):
    started = time.monotonic()
    try:
        connection = socket.create_connection((host, int(port)), 5)
    except OSError as error:
        return tell(connected=False, error=errno.errorcode.get(error.errno, str(error)), seconds=time.monotonic() - started)
    # Redirected connections are accepted locally before they are judged: what counts is whether bytes come back.
    try:
        connection.sendall(b"hello from inside\r\n\r\n")
    except OSError:
        pass
    data, end = receive_all(connection, 2)
    tell(connected=True, answer=data.decode("latin-1"), end=end, seconds=time.monotonic() - started)


def sockets():
    """Which socket families open, by name."""
    kinds = {
        "vsock": (40, socket.SOCK_STREAM, 0), "alg": (38, socket.SOCK_SEQPACKET, 0), "tipc": (30, socket.SOCK_RDM, 0),
        "packet": (17, socket.SOCK_RAW, 3), "packet-dgram": (17, socket.SOCK_DGRAM, 0), "sctp": (2, socket.SOCK_STREAM, 132),
        "mptcp": (2, socket.SOCK_STREAM, 262), "udplite": (2, socket.SOCK_DGRAM, 136), "dccp": (2, 6, 33), "raw": (2, socket.SOCK_RAW, 255),
        "bluetooth": (31, socket.SOCK_RAW, 1), "can": (29, socket.SOCK_RAW, 1), "xdp": (44, socket.SOCK_RAW, 0), "nfc": (39, socket.SOCK_RAW, 0),
        "netlink-netfilter": (16, socket.SOCK_RAW, 12), "netlink-audit": (16, socket.SOCK_RAW, 9), "netlink-xfrm": (16, socket.SOCK_RAW, 6),
        "netlink-route": (16, socket.SOCK_RAW, 0), "inet": (2, socket.SOCK_STREAM, 0), "inet6": (10, socket.SOCK_STREAM, 0), "unix": (1, socket.SOCK_STREAM, 0),
    }
    seen = {}
    for name, (family, kind, protocol) in kinds.items():
        try:
            socket.socket(family, kind, protocol).close()
            seen[name] = "opened"
        except OSError as error:
            seen[name] = errno.errorcode.get(error.errno, str(error))
    seen["interfaces"] = [name for _, name in socket.if_nameindex()]
    tell(**seen)


def query(name, kind):
    packet = struct.pack("!HHHHHH", random.randrange(65536), 0x0100, 1, 0, 0, 0)
    for label in name.rstrip(".").split("."):
        packet += bytes([len(label)]) + label.encode()
    return packet + b"\0" + struct.pack("!HH", kind, 1)


def dns_flood(suffix, count):
    """COUNT queries for made-up names below SUFFIX: how many were answered with an address."""
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.settimeout(0.001)
    answers = {}

    def receive():
        try:
            while True:
                reply = sender.recv(4096)
                code, number = reply[3] & 15, struct.unpack_from("!H", reply, 6)[0]
                word = "address" if number else f"code {code}"
                answers[word] = answers.get(word, 0) + 1
        except OSError:
            pass

    for _ in range(int(count)):
        sender.sendto(query(f"x{random.randrange(10**9)}{random.randrange(10**9)}.{suffix}", 1), ("8.8.8.8", 53))
        receive()
    sender.settimeout(1)
    receive()
    tell(answers=answers)


def http_flood(suffix, address, count):
    """COUNT requests for made-up names below SUFFIX, each by its Host header: the answers by status."""
    answers = {}
    for _ in range(int(count)):
        connection = socket.create_connection((address, 80), 5)
        name = f"x{random.randrange(10**6)}.{suffix}"
        connection.sendall(f"GET / HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n".encode())
        data, _ = receive_all(connection, 5)
        status = data[9:12].decode("latin-1")
        answers[status] = answers.get(status, 0) + 1
    tell(answers=answers)


def large_heads(address, count, size):
    """COUNT connections, each with SIZE bytes of a head that does not end; then the first words of what came back."""
    connections, answers = [], {}
    for _ in range(int(count)):
        connection = socket.create_connection((address, 80), 10)
        connection.settimeout(0.05)
        try:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: ok.test\r\nX-A: " + b"a" * int(size))
        except OSError:  # it has been answered and closed
            pass
        connections.append(connection)
    for connection in connections:
        try:
            word = connection.recv(12).decode("latin-1")
        except OSError as error:
            word = type(error).__name__
        answers[word] = answers.get(word, 0) + 1
    tell(answers=answers)


def extension(kind, data):
    return struct.pack("!HH", kind, len(data)) + data


def client_hello(name, padding=0, ech=False, sni_last=True):
    sni = extension(0, struct.pack("!HBH", len(name) + 3, 0, len(name)) + name.encode()) if name else b""
    rest = extension(10, b"\x00\x02\x00\x1d") + extension(13, b"\x00\x08\x04\x03\x08\x04\x04\x01\x05\x03") + extension(11, b"\x01\x00")
    rest += extension(43, b"\x04\x03\x04\x03\x03") + extension(51, b"\x00\x24\x00\x1d\x00\x20" + os.urandom(32)) + extension(45, b"\x01\x01")
    if ech:
        rest += extension(0xFE0D, b"\x00\x00\x01\x00\x01\x07\x00\x20" + os.urandom(32) + b"\x00\x90" + os.urandom(144))
    if padding:
        rest = extension(21, b"\0" * padding) + rest
    extensions = rest + sni if sni_last else sni + rest
    body = b"\x03\x03" + os.urandom(32) + b"\x20" + os.urandom(32)
    body += b"\x00\x06\x13\x01\x13\x02\xc0\x2b" + b"\x01\x00" + struct.pack("!H", len(extensions)) + extensions
    return b"\x01" + struct.pack("!I", len(body))[1:] + body


def records(handshake, size):
    out = b""
    while handshake:
        piece, handshake = handshake[:size], handshake[size:]
        out += b"\x16\x03\x01" + struct.pack("!H", len(piece)) + piece
    return out


def hello(address, name, shape):
    """A hand-made ClientHello in one of several shapes: what the other side answers first."""
    message = client_hello(name, padding=2500 if shape in ("big", "big-bytes") else 0, ech=shape == "ech")
    size = {"records": 40, "tiny-records": 1}.get(shape, 16000)
    data = records(message, size)
    connection = socket.create_connection((address, 443), 5)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        if shape in ("bytes", "big-bytes"):
            for i in range(len(data)):
                connection.send(data[i : i + 1])
                if i % 50 == 0:
                    time.sleep(0.001)
        elif shape == "stall":
            connection.send(data[: len(data) - 3])
        else:
            connection.sendall(data)
    except OSError as error:
        return tell(first="", end=errno.errorcode.get(error.errno, str(error)))
    answer, end = receive_all(connection, 1.5)
    first = {0x16: "handshake", 0x15: "alert"}.get(answer[0], answer[:20].hex()) if answer else ""
    tell(first=first, end=end, size=len(answer))


if __name__ == "__main__":
    {f.__name__: f for f in (raw, raw_tls, udp, connect, sockets, dns_flood, http_flood, large_heads, hello)}[sys.argv[1]](*sys.argv[2:])
