"""The resolver of the test internet: answers for every address that is asked, over UDP and TCP, and writes down
each question. Its answers to TXT and NULL are long, so that a channel through them would show."""

import ipaddress
import socket
import struct
import threading

import names

TYPES = {1: "A", 2: "NS", 5: "CNAME", 6: "SOA", 10: "NULL", 12: "PTR", 15: "MX", 16: "TXT", 28: "AAAA", 65: "HTTPS", 255: "ANY"}
IP_PKTINFO = 8
IPV6_RECVPKTINFO = 49
IPV6_PKTINFO = 50


def encode_name(name):
    out = b""
    for label in name.rstrip(".").split("."):
        raw = label.encode("latin-1")
        out += bytes([len(raw)]) + raw
    return out + b"\0"


def parse_question(packet):
    labels, offset = [], 12
    while packet[offset]:
        length = packet[offset]
        labels.append(packet[offset + 1 : offset + 1 + length].decode("latin-1"))
        offset += 1 + length
    offset += 1
    kind, _ = struct.unpack_from("!HH", packet, offset)
    return ".".join(labels), kind, packet[12 : offset + 4]


def record(name, kind, data, question, ttl=30):
    spelt = b"\xc0\x0c" if name == question else encode_name(name)
    return spelt + struct.pack("!HHIH", kind, 1, ttl, len(data)) + data


def answer(packet):
    """(reply, name, type) for one query."""
    name, kind, question = parse_question(packet)
    name = name.lower()  # resolvers spell their questions in mixed case; the answer repeats it by pointing to it
    found = names.lookup(name)
    records = []
    if found:
        chain, owner, (v4, v6) = found
        for alias, target in chain:
            records.append(record(alias, 5, encode_name(target), name))
        if kind in (1, 255):
            records += [record(owner, 1, ipaddress.IPv4Address(a).packed, name) for a in v4]
        if kind in (28, 255):
            records += [record(owner, 28, ipaddress.IPv6Address(a).packed, name) for a in v6]
        if kind in (16, 255):
            records.append(record(owner, 16, b"\x1etxt-payload-from-the-test-world"[:31], name))
        if kind == 10:
            records.append(record(owner, 10, b"null-payload-from-the-test-world", name))
        if kind in (65, 255) and owner in names.HTTPS_RECORDS:
            # priority 1, target ".", alpn h3,h2; ech
            parameters = struct.pack("!HH", 1, 6) + b"\x02h3\x02h2" + struct.pack("!HH", 5, 8) + b"\x00\x06\xfe\x0dECH!"
            records.append(record(owner, 65, struct.pack("!H", 1) + b"\0" + parameters, name))
    (flags,) = struct.unpack_from("!H", packet, 2)
    code = 0 if found else 3
    head = packet[:2] + struct.pack("!HHHHH", 0x8180 | (flags & 0x0100) | code, 1, len(records), 0, 0)
    return head + question + b"".join(records), name, TYPES.get(kind, str(kind))


def serve_udp(family, log):
    server = socket.socket(family, socket.SOCK_DGRAM)
    if family == socket.AF_INET6:
        server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        server.setsockopt(socket.IPPROTO_IPV6, IPV6_RECVPKTINFO, 1)
    else:
        server.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)
    server.bind(("", 53))
    while True:
        packet, control, _, peer = server.recvmsg(4096, 256)
        destination, reply_control = "", []
        for level, kind, data in control:
            # Answer from the address that was asked.
            if level == socket.IPPROTO_IP and kind == IP_PKTINFO:
                destination = socket.inet_ntop(socket.AF_INET, data[8:12])
                reply_control = [(level, kind, struct.pack("=i4s4s", 0, data[8:12], b"\0" * 4))]
            if level == socket.IPPROTO_IPV6 and kind == IPV6_PKTINFO:
                destination = socket.inet_ntop(socket.AF_INET6, data[:16])
                reply_control = [(level, kind, data[:16] + b"\0" * 4)]
        try:
            reply, name, kind = answer(packet)
        except Exception as error:  # a malformed question is worth a line, not a crash
            log.write(transport="udp", to=destination, peer=peer[0], error=str(error), raw=packet.hex())
            continue
        log.write(transport="udp", to=destination, peer=peer[0], name=name, type=kind)
        try:
            server.sendmsg([reply], reply_control, 0, peer)
        except OSError:
            pass


def serve_tcp(family, log):
    server = socket.socket(family, socket.SOCK_STREAM)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    server.bind(("", 53))
    server.listen(64)

    def one(connection, peer):
        with connection:
            connection.settimeout(5)
            try:
                while True:
                    head = connection.recv(2, socket.MSG_WAITALL)
                    if len(head) < 2:
                        return
                    packet = connection.recv(struct.unpack("!H", head)[0], socket.MSG_WAITALL)
                    reply, name, kind = answer(packet)
                    log.write(transport="tcp", to=connection.getsockname()[0], peer=peer[0], name=name, type=kind)
                    connection.sendall(struct.pack("!H", len(reply)) + reply)
            except Exception:
                return

    while True:
        connection, peer = server.accept()
        threading.Thread(target=one, args=(connection, peer), daemon=True).start()


def start(log):
    for family in (socket.AF_INET, socket.AF_INET6):
        threading.Thread(target=serve_udp, args=(family, log), daemon=True).start()
        threading.Thread(target=serve_tcp, args=(family, log), daemon=True).start()
