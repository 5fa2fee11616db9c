#!/usr/bin/env python3
"""wire.py FILE: one line per IP packet or other frame on every interface of this network namespace but lo.

Not a pcap: tests ask "did a frame with this destination, port or content pass?", so the line has the addresses,
ports, flags and the first bytes of the payload.
"""

import socket
import struct
import sys

import records

ETH_P_ALL = 3
PROTOCOLS = {1: "icmp", 2: "igmp", 6: "tcp", 17: "udp", 58: "icmpv6", 132: "sctp"}


def size_of(body, kind):
    """Length of the IP packet by its own header: the capture keeps only the first bytes."""
    if kind == 0x0800:
        return struct.unpack_from("!H", body, 2)[0]
    return 40 + struct.unpack_from("!H", body, 4)[0]


def describe(frame):
    (kind,) = struct.unpack_from("!H", frame, 12)
    body = frame[14:]
    if kind == 0x0800 and len(body) >= 20:
        header, protocol = (body[0] & 15) * 4, body[9]
        source, target = socket.inet_ntoa(body[12:16]), socket.inet_ntoa(body[16:20])
    elif kind == 0x86DD and len(body) >= 40:
        header, protocol = 40, body[6]
        if protocol == 0 and len(body) > 48:  # hop-by-hop options, as MLD has
            protocol, header = body[40], 40 + 8 + body[41] * 8
        source = socket.inet_ntop(socket.AF_INET6, body[8:24])
        target = socket.inet_ntop(socket.AF_INET6, body[24:40])
    else:
        return {"kind": "arp" if kind == 0x0806 else hex(kind)}
    fields = {"kind": PROTOCOLS.get(protocol, str(protocol)), "src": source, "dst": target, "size": size_of(body, kind)}
    rest = body[header:]
    if protocol in (6, 17) and len(rest) >= 8:
        fields["sport"], fields["dport"] = struct.unpack_from("!HH", rest)
        if protocol == 6 and len(rest) >= 20:
            flags = rest[13]
            fields["flags"] = "".join(c for bit, c in ((2, "S"), (16, "A"), (1, "F"), (4, "R"), (8, "P")) if flags & bit)
            rest = rest[(rest[12] >> 4) * 4 :]
        else:
            rest = rest[8:]
    elif protocol in (1, 58) and rest:
        fields["type"] = rest[0]
    fields["payload"] = rest[:96].decode("latin-1")
    return fields


def main():
    log = records.Record(sys.argv[1])
    capture = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    capture.setsockopt(socket.SOL_SOCKET, 33, 8 << 20)  # SO_RCVBUFFORCE
    buffer = bytearray(256)
    while True:
        size, (interface, _, direction, _, _) = capture.recvfrom_into(buffer)
        if interface == "lo" or size < 14:
            continue
        try:
            log.write(interface=interface, outgoing=direction == 4, **describe(bytes(buffer[:size])))
        except Exception as error:
            log.write(interface=interface, kind="unparsed", error=str(error), raw=bytes(buffer[:size]).hex())


main()
