"""Every TCP port that has no server of its own (nft redirects them here): writes down what arrives and sends it back."""

import socket
import struct
import threading

PORT = 9999
SO_ORIGINAL_DST = 80


def original_destination(connection):
    try:
        if connection.family == socket.AF_INET:
            raw = connection.getsockopt(socket.IPPROTO_IP, SO_ORIGINAL_DST, 16)
            return socket.inet_ntop(socket.AF_INET, raw[4:8]), struct.unpack("!H", raw[2:4])[0]
        raw = connection.getsockopt(socket.IPPROTO_IPV6, SO_ORIGINAL_DST, 28)
        return socket.inet_ntop(socket.AF_INET6, raw[8:24]), struct.unpack("!H", raw[2:4])[0]
    except OSError:
        return connection.getsockname()[:2]


def one(connection, peer, log):
    address, port = original_destination(connection)
    total, preview = 0, b""
    log.write(event="open", to=address, port=port, peer=peer[0])
    with connection:
        connection.settimeout(30)
        try:
            while True:
                data = connection.recv(65536)
                if not data:
                    break
                total += len(data)
                preview = (preview + data)[:512]
                connection.sendall(data)
        except OSError:
            pass
    log.write(event="close", to=address, port=port, peer=peer[0], bytes=total, preview=preview.decode("latin-1"))


def serve(family, log):
    server = socket.socket(family, socket.SOCK_STREAM)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    server.bind(("", PORT))
    server.listen(256)
    while True:
        connection, peer = server.accept()
        threading.Thread(target=one, args=(connection, peer, log), daemon=True).start()


def start(log):
    for family in (socket.AF_INET, socket.AF_INET6):
        threading.Thread(target=serve, args=(family, log), daemon=True).start()
