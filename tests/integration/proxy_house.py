"""The house that proxy_test.py lives in: leash-proxy as the shim starts it, in a network namespace of
its own, with everything around it that is not under test: a dialer, a resolver, origins.

Nothing here is switched on in the product: the proxy believes it is in a container's namespace, since
the kernel's redirect and SO_ORIGINAL_DST are real.
"""
import array
import hashlib
import json
import os
import socket
import ssl
import struct
import subprocess
import tempfile
import threading
import time

SLOT = struct.Struct("=IIQqQQHH8s20s256s184s")
SLOTS = 8192
PROXY_PORT = 15001


def run(*argv, **kwargs):
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **kwargs)
    if done.returncode != 0:
        raise RuntimeError(f"{argv}: {done.stdout.decode()}")
    return done.stdout.decode()


def prepare_namespace():
    """lo, routes to nowhere, and the redirect that the lock-in would make."""
    run("ip", "link", "set", "lo", "up")
    run("ip", "route", "add", "default", "dev", "lo", "src", "127.0.0.1")
    run("ip", "-6", "route", "add", "default", "dev", "lo", "src", "::1")
    run("nft", "-f", "-", input=f"""
table inet test {{
  chain out {{
    type nat hook output priority -110;
    ip daddr 127.0.0.0/8 return
    ip6 daddr ::1 return
    meta l4proto tcp redirect to :{PROXY_PORT}
  }}
}}""".encode())


class Authority:
    """A CA made with openssl(1), and certificates from it."""

    def __init__(self, directory, name):
        self.directory = directory
        self.name = name
        self.key = f"{directory}/{name}.key"
        self.pem = f"{directory}/{name}.pem"
        run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
            "-keyout", self.key, "-out", self.pem, "-subj", f"/CN={name}",
            "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign")

    def certificate(self, host, days=10, start=None, label=None):
        base = f"{self.directory}/{label or host}"
        run("openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-keyout", base + ".key", "-out", base + ".csr", "-subj", f"/CN={host}")
        with open(base + ".ext", "w") as file:
            kind = "IP" if host.replace(".", "").isdigit() else "DNS"
            file.write(f"subjectAltName={kind}:{host}\nbasicConstraints=critical,CA:FALSE\n"
                       "keyUsage=critical,digitalSignature\nextendedKeyUsage=serverAuth\n"
                       "subjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid:always\n")
        argv = ["openssl", "x509", "-req", "-in", base + ".csr", "-CA", self.pem, "-CAkey", self.key, "-CAcreateserial",
                "-days", str(days), "-extfile", base + ".ext", "-out", base + ".crt"]
        if start:  # expired: faketime is not everywhere, `openssl ca` is
            argv = None
            database = base + ".db"
            os.makedirs(database, exist_ok=True)
            open(database + "/index.txt", "w").close()
            with open(database + "/conf", "w") as file:
                file.write(f"[ca]\ndefault_ca=d\n[d]\ndatabase={database}/index.txt\nnew_certs_dir={database}\n"
                           f"rand_serial=yes\ndefault_md=sha256\npolicy=p\n[p]\ncommonName=supplied\n")
            run("openssl", "ca", "-batch", "-config", database + "/conf", "-cert", self.pem, "-keyfile", self.key,
                "-in", base + ".csr", "-out", base + ".crt", "-extfile", base + ".ext", "-startdate", "200101000000Z",
                "-enddate", "200201000000Z", "-notext")
        if argv:
            run(*argv)
        return base + ".crt", base + ".key"


class Resolver:
    """Answers A queries for the names of `hosts`."""

    def __init__(self, hosts):
        self.hosts = hosts
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            query, peer = self.socket.recvfrom(4096)
            labels, position = [], 12
            while query[position]:
                length = query[position]
                labels.append(query[position + 1:position + 1 + length].decode().lower())
                position += 1 + length
            kind = struct.unpack(">H", query[position + 1:position + 3])[0]
            question = query[12:position + 5]
            address = self.hosts.get(".".join(labels))
            code = 0 if address else 3
            answers = b""
            if address and kind == 1:
                answers = b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04" + socket.inet_aton(address)
            header = query[:2] + struct.pack(">HHHHH", 0x8180 | code, 1, 1 if answers else 0, 0, 0)
            self.socket.sendto(header + question + answers, peer)


class Dialer:
    """The shim's dialer: sockets to `ports` of loopback, whatever the address, which it records."""

    def __init__(self, ports, resolver_port):
        self.ports = ports
        self.resolver_port = resolver_port
        self.dialled = []
        self.mine, self.proxys = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            packet = self.mine.recv(64)
            if not packet:
                return
            tag, is_udp, is_ipv6, port = struct.unpack("=IBBH", packet[:8])
            address = socket.inet_ntop(socket.AF_INET6 if is_ipv6 else socket.AF_INET, packet[8:24] if is_ipv6 else packet[8:12])
            if is_udp or port == 53:
                made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                target = self.resolver_port
            else:
                self.dialled.append((address, port))
                made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
                target = self.ports.get(port)
            made.setblocking(False)
            if target is None:
                self.mine.send(struct.pack("=Ii", tag, 111))
                continue
            try:
                made.connect(("127.0.0.1", target))
            except BlockingIOError:
                pass
            except OSError as problem:
                self.mine.send(struct.pack("=Ii", tag, problem.errno))
                continue
            self.mine.sendmsg([struct.pack("=Ii", tag, 0)],
                              [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [made.fileno()]))])
            made.close()


class Origin:
    """A scripted HTTP/1.1 server on raw sockets: `script(origin, connection, head, rest)` answers."""

    def __init__(self, script, contexts=None):
        self.script = script
        self.contexts = contexts  # by server name; None: plain
        self.requests = []        # raw heads
        self.connections = 0
        self.resumed = 0
        self.lock = threading.Lock()
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(128)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            connection, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, raw):
        try:
            connection = raw
            if self.contexts:
                first = next(iter(self.contexts.values()))
                connection = first.wrap_socket(raw, server_side=True)
            with self.lock:
                self.connections += 1
                if self.contexts and connection.session_reused:
                    self.resumed += 1
            pending = b""
            while True:
                while b"\r\n\r\n" not in pending:
                    data = connection.recv(65536)
                    if not data:
                        return
                    pending += data
                head, pending = pending.split(b"\r\n\r\n", 1)
                head += b"\r\n\r\n"
                with self.lock:
                    self.requests.append(head)
                pending = self.script(self, connection, head, pending)
                if pending is None:
                    connection.close()
                    return
        except (OSError, ValueError):
            raw.close()


def server_contexts(certificates):
    contexts = {}
    for host, (certificate, key) in certificates.items():
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        context.set_alpn_protocols(["http/1.1"])
        contexts[host] = context

    def choose(connection, name, _):
        if name in contexts:
            connection.context = contexts[name]

    for context in contexts.values():
        context.sni_callback = choose
    return contexts


class Control:
    """The shim's end of base/channel.h."""

    def __init__(self):
        self.mine, self.proxys = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def send(self, kind, body=None, fds=()):
        text = json.dumps(body or {}).encode()
        fds = list(fds)
        memfd = None
        if len(text) <= 32768:
            packet = b"i" + kind.encode() + b"\0" + text
        else:
            memfd = os.memfd_create("message", os.MFD_ALLOW_SEALING)
            os.write(memfd, text)
            import fcntl
            fcntl.fcntl(memfd, 1033, 15)  # F_ADD_SEALS: all of them
            fds.append(memfd)
            packet = b"m" + kind.encode() + b"\0"
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.mine.sendmsg([packet], ancillary)
        if memfd is not None:
            os.close(memfd)

    def receive(self, timeout=20):
        self.mine.settimeout(timeout)
        packet = self.mine.recv(65536)
        if not packet:
            raise EOFError("the proxy has gone")
        kind, body = packet[1:].split(b"\0", 1)
        return kind.decode(), body.decode()


class Proxy:
    def __init__(self, binary, directory, policy, authority, trust_store, dialer, secrets=(), flows_path=None):
        self.directory = directory
        self.flows_path = flows_path or f"{directory}/flows.jsonl"
        self.blocked_path = f"{directory}/blocked.jsonl"
        self.control = Control()
        flows = os.open(self.flows_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        blocked = os.open(self.blocked_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self.table_path = f"{directory}/in-flight"
        table = os.open(self.table_path, os.O_RDWR | os.O_CREAT, 0o600)
        os.ftruncate(table, SLOT.size * SLOTS)
        self.log_path = f"{directory}/proxy.log"
        log = open(self.log_path, "ab")
        roots = os.open(trust_store, os.O_RDONLY)
        os.lseek(roots, 0, os.SEEK_END)  # as an earlier proxy leaves it
        control = self.control.proxys.fileno()

        def child():
            os.dup2(control, 3)
            os.set_inheritable(3, True)

        self.process = subprocess.Popen([binary, "test"], stdout=log, stderr=log, preexec_fn=child, pass_fds=(3,), env={}, cwd="/")
        self.control.proxys.close()
        self.control.send("configure", {
            "container_id": "c0ffee", "container_name": "box", "policy": {"source": "policy.yaml", "text": policy},
            "ca_certificate_pem": open(authority.pem).read(), "ca_key_pem": open(authority.key).read(),
            "secrets": list(secrets), "dns_servers": ["192.0.2.53"],
            "has_engine_dns": False, "flows_seq": 0, "blocked_seq": 0,
        }, [flows, blocked, dialer.proxys.fileno(), table, roots])
        for fd in (flows, blocked, table, roots):
            os.close(fd)
        answer = self.control.receive()
        if answer[0] != "configured":
            raise RuntimeError(answer)
        self.control.send("network", {"onlink_networks": [], "never_destinations": [], "has_engine_dns": False})
        listeners = []
        for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
            listener = socket.socket(family)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((address, PROXY_PORT))
            listener.listen(512)
            listeners.append(listener)
        dns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        dns.bind(("127.0.0.1", 0))
        self.dns_port = dns.getsockname()[1]
        listeners.append(dns)
        self.control.send("listen", {"kinds": ["tcp", "tcp", "dns-other-udp"]}, [listener.fileno() for listener in listeners])
        answer = self.control.receive()
        if answer[0] != "listening":
            raise RuntimeError(answer)
        for listener in listeners:
            listener.close()

    def lookup(self, name):
        """The address of `name`, asked as a program in the container asks; None if there is none."""
        query = b"\x12\x34\x01\0\0\1\0\0\0\0\0\0"
        query += b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0\0\1\0\1"
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
            asker.settimeout(10)
            asker.sendto(query, ("127.0.0.1", self.dns_port))
            answer = asker.recv(4096)
        if struct.unpack(">H", answer[6:8])[0] == 0:
            return None
        # The one answer stands behind the question: name (2 or more), type, class, ttl, length, address.
        at = answer.index(b"\0\1\0\1", len(query))
        return socket.inet_ntoa(answer[at + 10:at + 14])

    def lines(self, path):
        with open(path) as file:
            return [json.loads(line) for line in file if line.endswith("\n")]

    def flows(self):
        return self.lines(self.flows_path)

    def blocked(self):
        return self.lines(self.blocked_path)

    def wait_line(self, which, matches, timeout=10):
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            found = [line for line in which() if matches(line)]
            if found:
                return found[-1]
            time.sleep(0.02)
        raise AssertionError(f"no such line; flows {self.flows()[-3:]}, blocked {self.blocked()[-3:]}")

    def slots(self):
        with open(self.table_path, "rb") as file:
            data = file.read()
        return [slot for slot in SLOT.iter_unpack(data) if slot[0] == 1]

    def resident_kb(self, what="VmRSS"):
        with open(f"/proc/{self.process.pid}/status") as file:
            for line in file:
                if line.startswith(what + ":"):
                    return int(line.split()[1])
        return 0

    def stop(self):
        self.control.mine.close()
        self.process.wait(timeout=10)


class Client:
    """One connection as a container makes it; TLS over memory BIOs, so that its bytes are counted."""

    def __init__(self, address, port, name=None, authority=None, alpn=None, maximum=None, verify=True, split=None):
        self.socket = socket.create_connection((address, port), timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sent = 0
        self.received = 0
        self.tls = None
        self.pending = b""
        self.split = split  # bytes per segment of the handshake
        if authority is None:
            return
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(authority)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        if not verify or name is None:
            context.check_hostname = False
        if not verify:
            context.verify_mode = ssl.CERT_NONE
        if alpn:
            context.set_alpn_protocols(alpn)
        if maximum:
            context.maximum_version = maximum
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname=name)
        try:
            self.drive(self.tls.do_handshake)
        finally:
            self.flush()
        self.split = None

    def flush(self):
        data = self.outgoing.read()
        step = self.split or len(data) or 1
        for i in range(0, len(data), step):
            self.socket.sendall(data[i:i + step])
            if self.split:
                time.sleep(0.0005)
        self.sent += len(data)

    def drive(self, action):
        while True:
            try:
                result = action()
                self.flush()
                return result
            except ssl.SSLWantReadError:
                self.flush()
                data = self.socket.recv(65536)
                self.received += len(data)
                if data:
                    self.incoming.write(data)
                else:
                    self.incoming.write_eof()

    def send(self, data):
        if self.tls:
            view = memoryview(data)
            while view:
                view = view[self.drive(lambda: self.tls.write(view[:16384])):]
        else:
            self.socket.sendall(data)
            self.sent += len(data)

    def receive(self):
        """Some bytes; b"" at a clean end."""
        if self.tls:
            try:
                return self.drive(lambda: self.tls.read(65536))
            except ssl.SSLZeroReturnError:
                return b""
        data = self.socket.recv(65536)
        self.received += len(data)
        return data

    def until(self, mark):
        while mark not in self.pending:
            data = self.receive()
            if not data:
                raise EOFError(self.pending)
            self.pending += data
        position = self.pending.index(mark) + len(mark)
        text, self.pending = self.pending[:position], self.pending[position:]
        return text

    def exactly(self, length):
        while len(self.pending) < length:
            data = self.receive()
            if not data:
                raise EOFError(self.pending)
            self.pending += data
        text, self.pending = self.pending[:length], self.pending[length:]
        return text

    def rest(self):
        while True:
            data = self.receive()
            if not data:
                text, self.pending = self.pending, b""
                return text
            self.pending += data

    def answer(self, head_only=False):
        """(status, head, body) of the next answer, 1xx apart."""
        head = self.until(b"\r\n\r\n")
        status = int(head.split()[1])
        lower = head.lower()
        if status < 200 or status in (204, 304) or head_only:
            return status, head, b""
        if b"transfer-encoding: chunked" in lower:
            body = b""
            while True:
                size = int(self.until(b"\r\n").split(b";")[0], 16)
                if size == 0:
                    trailers = b""
                    while not trailers.endswith(b"\r\n\r\n") and trailers != b"\r\n":
                        trailers += self.until(b"\r\n")
                    self.trailers = trailers
                    return status, head, body
                body += self.exactly(size)
                self.until(b"\r\n")
        if b"content-length:" in lower:
            length = int(lower.split(b"content-length:")[1].split(b"\r\n")[0])
            return status, head, self.exactly(length)
        return status, head, self.rest()

    def request(self, text):
        self.send(text if isinstance(text, bytes) else text.encode("latin-1"))
        return self.answer()

    def close(self):
        if self.tls:
            try:
                self.drive(self.tls.unwrap)
            except (ssl.SSLError, OSError):
                pass
            # What crossed after our close_notify is still in the socket.
            self.socket.settimeout(5)
            try:
                while True:
                    data = self.socket.recv(65536)
                    if not data:
                        break
                    self.received += len(data)
            except OSError:
                pass
        self.socket.close()


def sha256(data):
    return hashlib.sha256(data).hexdigest()
