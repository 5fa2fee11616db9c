#!/usr/bin/env python3
"""What inspection costs: leash-proxy, mitmproxy and haproxy in front of one TLS origin, and no proxy at all.

    proxy.py [--quick] [--rounds N] [--seconds S] [--bin DIRECTORY] [--json FILE] [SUBJECT...]

Two network namespaces: the origin (nginx, a P-256 leaf, 1 KB objects) and the client. leash's is a real container that
leash-runtime made in the client's namespace, with a policy of one host; the load runs in the network that its program
sees. mitmproxy (transparent, an addon writes one JSON line an exchange) and haproxy (mints per SNI, verifies upstream,
inspects nothing) get the client's traffic by an nftables redirect. Subjects are measured in turn in every round; medians.

CPU is the proxy's alone (with leash's dialer), from the scheduler's counters, and is the figure to compare: a shared
machine moves the rest. Needs root, wrk, nginx-light, openssl, nftables; subjects that are not installed are left out.
"""

import argparse
import json
import os
import shutil
import socket
import ssl
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import checks
from bundle import Bundle

CLIENT_NS, ORIGIN_NS = f"leash-bench-c{os.getpid()}", f"leash-bench-o{os.getpid()}"
# The gateway is the host in a leashed container's eyes, and never a destination: the origin is behind it.
CLIENT, GATEWAY, ORIGIN, SINK = "203.0.113.1", "203.0.113.2", "198.51.100.2", "198.51.100.3"
HOSTS = {"api.test": ORIGIN, "sink.test": SINK}
PORT = 15443
PROXY_UID = 61443
BODY = 100 << 20

NGINX = """
daemon off; master_process off; error_log stderr crit; pid {0}/nginx.pid;
events {{ worker_connections 4096; }}
http {{
  access_log off; keepalive_requests 100000000; keepalive_timeout 600;
  client_body_temp_path {0}/t1; proxy_temp_path {0}/t2; fastcgi_temp_path {0}/t3; uwsgi_temp_path {0}/t4; scgi_temp_path {0}/t5;
  server {{
    listen {1}:443 ssl; ssl_certificate {0}/origin.pem; ssl_certificate_key {0}/origin.key; root {0}/www;
  }}
}}"""

HAPROXY = """
global
  maxconn 4096
  nbthread 1
  stats socket {0}/haproxy.sock
  uid {uid}
  gid {uid}
defaults
  mode http
  timeout connect 5s
  timeout client 600s
  timeout server 600s
  http-reuse always
frontend in
  bind :{port} ssl crt {0}/origin-leaf.pem ca-sign-file {0}/ca-both.pem generate-certificates alpn http/1.1
  use_backend %[ssl_fc_sni]
backend api.test
  server a {origin}:443 ssl verify required ca-file {0}/ca.pem sni str(api.test) alpn http/1.1
backend sink.test
  server a {sink}:443 ssl verify required ca-file {0}/ca.pem sni str(sink.test) alpn http/1.1
"""

ADDON = """
import json
log = open("{0}/mitm.jsonl", "a")
def response(flow):
    log.write(json.dumps({{"host": flow.request.host, "path": flow.request.path, "status": flow.response.status_code}}) + "\\n")
"""


def run(*words, **options):
    done = subprocess.run(words, capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{words}: {done.stdout}{done.stderr}")
    return done.stdout


# ---- the other end of the wire: `proxy.py --serve DIRECTORY`, in the origin's namespace ----

def answer_names():
    listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listener.bind((ORIGIN, 53))
    while True:
        query, peer = listener.recvfrom(512)
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1:at + 1 + query[at]].decode().lower())
            at += 1 + query[at]
        address = HOSTS.get(".".join(labels)) if query[at + 1:at + 3] == b"\0\1" else None
        record = b"\xc0\x0c\0\1\0\1\0\0\1\x2c\0\4" + socket.inet_aton(address) if address else b""
        listener.sendto(query[:2] + struct.pack(">HHHHH", 0x8180, 1, 1 if address else 0, 0, 0) + query[12:at + 5] + record, peer)


def swallow(connection):
    pending, buffer = b"", bytearray(1 << 16)
    while b"\r\n\r\n" not in pending:
        pending += connection.recv(65536)
    head, rest = pending.split(b"\r\n\r\n", 1)
    left = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0]) - len(rest)
    while left > 0:
        left -= connection.recv_into(buffer) or sys.exit("upload cut")
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    connection.close()


def serve(directory):
    threading.Thread(target=answer_names, daemon=True).start()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{directory}/origin.pem", f"{directory}/origin.key")
    with context.wrap_socket(socket.create_server((SINK, 443)), server_side=True) as listener:
        while True:
            try:
                threading.Thread(target=swallow, args=(listener.accept()[0],), daemon=True).start()
            except OSError:
                pass


# ---- the client: `proxy.py --client WHAT SECONDS`, in the subject's network ----

REQUEST = b"GET /1k HTTP/1.1\r\nHost: api.test\r\nUser-Agent: bench\r\n%s\r\n"


def exchange(connection, closing=False):
    connection.sendall(REQUEST % (b"Connection: close\r\n" if closing else b""))
    got = b""
    while b"\r\n\r\n" not in got or len(got.split(b"\r\n\r\n", 1)[1]) < 1024:
        piece = connection.recv(65536)
        if not piece:
            raise OSError("cut")
        got += piece
    if not got.startswith(b"HTTP/1.1 200"):
        raise OSError(got[:200])


def client(what, seconds):
    context = ssl._create_unverified_context()
    context.set_alpn_protocols(["http/1.1"])
    connect = lambda: context.wrap_socket(socket.create_connection((ORIGIN, 443), timeout=20), server_hostname="api.test")
    times, end = [], time.monotonic() + seconds
    kept = connect() if what == "kept" else None
    while time.monotonic() < end:
        began = time.perf_counter()
        if kept:
            exchange(kept)
        else:
            with connect() as connection:
                exchange(connection, True)
        times.append(time.perf_counter() - began)
        if kept:
            time.sleep(0.005)
    print(json.dumps(times))


# ---- subjects ----

class Subject:
    name, network = "direct", f"/run/netns/{CLIENT_NS}"

    def __init__(self, directory, _bin):
        self.directory, self.samples = directory, {}

    def add(self, figure, value):
        self.samples.setdefault(figure, []).append(value)

    def inside(self, *words, timeout=120):
        """A command in the network that the subject's client sees, with the names of the test."""
        mount = 'mount --bind "$0/hosts" /etc/hosts && exec "$@"'
        return run("nsenter", f"--net={self.network}", "unshare", "--mount", "sh", "-c", mount, self.directory, *words, timeout=timeout)

    def start(self):
        pass

    def stop(self):
        pass

    def pids(self):
        return []

    def cpu(self):
        """Seconds of all threads, from the scheduler."""
        total = 0
        for pid in self.pids():
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/schedstat") as file:
                    total += int(file.read().split()[0])
        return total / 1e9

    def pss(self):
        total = 0
        for pid in self.pids():
            with open(f"/proc/{pid}/smaps_rollup") as file:
                total += next(int(line.split()[1]) for line in file if line.startswith("Pss:"))
        return total / 1024


class Redirected(Subject):
    """A proxy of the client's own namespace, as a user of its own that the redirect leaves alone."""

    def start(self):
        rules = f"""table inet bench {{
          chain out {{
            type nat hook output priority -100
            ip daddr 127.0.0.0/8 return
            meta skuid {PROXY_UID} return
            tcp dport 443 redirect to :{PORT}
          }}
        }}"""
        run("ip", "netns", "exec", CLIENT_NS, "nft", "-f", "-", input=rules)
        self.log = open(f"{self.directory}/{self.name}.log", "w")
        self.process = subprocess.Popen(["ip", "netns", "exec", CLIENT_NS, *self.command()], stdout=self.log, stderr=self.log,
                                        stdin=subprocess.DEVNULL)
        self.await_port()

    def await_port(self):
        end = time.monotonic() + 30
        while time.monotonic() < end:
            if f":{PORT:04X} " in run("nsenter", f"--net={self.network}", "cat", "/proc/net/tcp", "/proc/net/tcp6"):
                return
            time.sleep(0.005)
        sys.exit(f"{self.name} does not listen: {open(self.log.name).read()}")

    def stop(self):
        self.process.terminate()
        self.process.wait()
        run("ip", "netns", "exec", CLIENT_NS, "nft", "delete", "table", "inet", "bench")

    def pids(self):
        return [self.process.pid]


class Haproxy(Redirected):
    name = "haproxy"

    def command(self):
        with open(f"{self.directory}/haproxy.cfg", "w") as file:
            file.write(HAPROXY.format(self.directory, uid=PROXY_UID, port=PORT, origin=ORIGIN, sink=SINK))
        return [shutil.which("haproxy"), "-db", "-q", "-f", file.name]


class Mitmproxy(Redirected):
    name = "mitmproxy"

    def command(self):
        with open(f"{self.directory}/addon.py", "w") as file:
            file.write(ADDON.format(self.directory))
        home = f"{self.directory}/mitm"
        os.makedirs(home, exist_ok=True)
        shutil.copy(f"{self.directory}/ca-both.pem", f"{home}/mitmproxy-ca.pem")
        for path in (home, f"{home}/mitmproxy-ca.pem"):
            os.chown(path, PROXY_UID, PROXY_UID)
        os.close(os.open(f"{self.directory}/mitm.jsonl", os.O_CREAT | os.O_WRONLY, 0o666))
        os.chown(f"{self.directory}/mitm.jsonl", PROXY_UID, PROXY_UID)
        return ["setpriv", f"--reuid={PROXY_UID}", f"--regid={PROXY_UID}", "--clear-groups", shutil.which("mitmdump"), "-q",
                "--mode", "transparent", "--listen-port", str(PORT), "--set", f"confdir={home}", "--set", "stream_large_bodies=64k",
                "--set", f"ssl_verify_upstream_trusted_ca={self.directory}/ca.pem", "-s", file.name]


class Leash(Subject):
    name = "leash"

    def __init__(self, directory, binaries):
        super().__init__(directory, binaries)
        self.state = f"{directory}/state"
        self.command = [f"{binaries}/leash-runtime", "--root", self.state, "--policy", f"{directory}/policy.yaml", "--trust-store",
                        f"{directory}/ca.pem"]
        with open(f"{directory}/policy.yaml", "w") as file:
            file.write("version: 1\nallow: [api.test, sink.test]\n")

    def start(self):
        def change(config):
            for namespace in config["linux"]["namespaces"]:
                if namespace["type"] == "network":
                    namespace["path"] = f"/run/netns/{CLIENT_NS}"
            config["mounts"].append({"destination": "/etc/resolv.conf", "type": "bind", "source": f"{self.directory}/resolv.conf",
                                     "options": ["rbind", "ro"]})

        self.bundle = Bundle("sleep", "100000", change=change)
        self.id = f"leash-bench-{os.getpid()}-{time.monotonic_ns()}"
        output = open(f"{self.directory}/leash.log", "w")
        for words in (("create", "--bundle", self.bundle.path, "--pid-file", f"{self.directory}/leash.pid", self.id), ("start", self.id)):
            if subprocess.run([*self.command, *words], stdout=output, stderr=output, stdin=subprocess.DEVNULL).returncode != 0:
                sys.exit(f"leash: {words}: {open(output.name).read()}")
        with open(f"{self.directory}/leash.pid") as file:
            self.network = f"/proc/{file.read()}/ns/net"
        with open(f"/run/leash/{self.id}/container.json") as file:
            self.shim = json.load(file)["shim_pid"]

    def stop(self):
        run(*self.command, "delete", "--force", self.id)
        self.bundle.__exit__()

    def pids(self):
        with open(f"/proc/{self.shim}/task/{self.shim}/children") as file:
            return [int(word) for word in file.read().split()]


# ---- measuring ----

def measured(subject, action):
    """What `action` returns, and the subject's CPU seconds meanwhile."""
    before = subject.cpu()
    result = action()
    return result, subject.cpu() - before


def wrk(subject, connections, seconds):
    words = ("wrk", "-t1", f"-c{connections}", f"-d{seconds}", "--timeout", "20", "https://api.test/1k")
    text, cpu = measured(subject, lambda: subject.inside(*words))
    requests = int(next(line for line in text.splitlines() if " requests in " in line).split()[0])
    if "Non-2xx" in text or requests == 0:
        sys.exit(f"{subject.name}: {text}")
    figure = f"keep-alive, {connections} connection{'s' if connections > 1 else ''}"
    subject.add(f"{figure}: requests/s", requests / seconds)
    subject.add(f"{figure}: CPU us/request", cpu / requests * 1e6)


def paced(subject, what, seconds):
    text, cpu = measured(subject, lambda: subject.inside(sys.executable, os.path.abspath(__file__), "--client", what, str(seconds)))
    times = sorted(json.loads(text))
    name = "kept connection, 200/s" if what == "kept" else "new connection"
    subject.add(f"{name}: p50 us", times[len(times) // 2] * 1e6)
    subject.add(f"{name}: p99 us", times[len(times) * 99 // 100] * 1e6)
    if what == "new":
        subject.add("new connections, one after another: /s", len(times) / seconds)
        subject.add("new connections: CPU us each", cpu / len(times) * 1e6)


def bodies(subject):
    for way, words in (("down", ("https://api.test/100m",)), ("up", ("-H", "Expect:", "-T", f"{subject.directory}/www/100m", "https://sink.test/"))):
        text, cpu = measured(subject, lambda: subject.inside("curl", "-sSfk", "-o", "/dev/null", "-w", "%{time_total} %{http_code}", *words))
        seconds, code = text.split()
        if code != "200":
            sys.exit(f"{subject.name}: 100 MB {way}: {code}")
        subject.add(f"100 MB {way}: MB/s", BODY / float(seconds) / 1e6)
        subject.add(f"100 MB {way}: CPU s/GB", cpu / BODY * 1e9)


def round_of(subject, seconds):
    began = time.perf_counter()
    subject.start()
    try:
        subject.inside("curl", "-sSfk", "-o", "/dev/null", "--retry", "50", "--retry-connrefused", "--retry-delay", "0", "https://api.test/1k")
        subject.add("start to first answer: ms", (time.perf_counter() - began) * 1e3)
        subject.add("start to first answer: CPU ms", subject.cpu() * 1e3)
        subject.add("idle: PSS MB", subject.pss())
        wrk(subject, 1, seconds)
        wrk(subject, 32, seconds)
        paced(subject, "kept", seconds)
        paced(subject, "new", seconds)
        bodies(subject)
        subject.add("after the load: PSS MB", subject.pss())
    finally:
        subject.stop()


def table(subjects):
    medians = {s.name: {figure: statistics.median(values) for figure, values in s.samples.items()} for s in subjects}
    base = [name for name in ("haproxy", "mitmproxy") if name in medians and "leash" in medians]
    print(f"{'':44}" + "".join(f"{s.name:>12}" for s in subjects) + "".join(f"{'leash/' + name:>17}" for name in base))
    for figure in dict.fromkeys(figure for s in subjects for figure in s.samples):
        line = f"{figure:44}" + "".join(f"{medians[s.name].get(figure, 0):12.1f}" for s in subjects)
        for name in base:
            below = medians[name].get(figure, 0)
            line += f"{medians['leash'].get(figure, 0) / below:17.2f}" if below else f"{'-':>17}"
        print(line)
    return medians


def prepare(directory):
    """Keys, files, namespaces, and the origin's two programs."""
    os.chmod(directory, 0o755)
    os.makedirs(f"{directory}/www")
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    run("openssl", "req", "-x509", *key, "-days", "30", "-keyout", f"{directory}/ca.key", "-out", f"{directory}/ca.pem", "-subj", "/CN=bench",
        "-addext", "keyUsage=critical,keyCertSign")
    run("openssl", "req", *key, "-keyout", f"{directory}/origin.key", "-out", f"{directory}/origin.csr", "-subj", "/CN=api.test")
    with open(f"{directory}/ext", "w") as file:
        file.write("subjectAltName=DNS:api.test,DNS:sink.test\nbasicConstraints=critical,CA:FALSE\nextendedKeyUsage=serverAuth\n"
                   "keyUsage=critical,digitalSignature\nsubjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid:always\n")
    run("openssl", "x509", "-req", "-in", f"{directory}/origin.csr", "-CA", f"{directory}/ca.pem", "-CAkey", f"{directory}/ca.key", "-CAcreateserial",
        "-days", "30", "-extfile", f"{directory}/ext", "-out", f"{directory}/origin.pem")
    for target, parts in (("ca-both.pem", ("ca.key", "ca.pem")), ("origin-leaf.pem", ("origin.key", "origin.pem"))):
        with open(f"{directory}/{target}", "w") as file:
            file.write("".join(open(f"{directory}/{part}").read() for part in parts))
    for name, size in (("1k", 1024), ("100m", BODY)):
        with open(f"{directory}/www/{name}", "wb") as file:
            file.write(os.urandom(1024) * (size // 1024))
    with open(f"{directory}/hosts", "w") as file:
        file.write("".join(f"{address} {name}\n" for name, address in HOSTS.items()))
    with open(f"{directory}/resolv.conf", "w") as file:
        file.write(f"nameserver {ORIGIN}\n")
    with open(f"{directory}/nginx.conf", "w") as file:
        file.write(NGINX.format(directory, ORIGIN))
    for namespace in (CLIENT_NS, ORIGIN_NS):
        run("ip", "netns", "add", namespace)
        run("ip", "-n", namespace, "link", "set", "lo", "up")
    run("ip", "link", "add", "eth0", "netns", CLIENT_NS, "type", "veth", "peer", "name", "eth0", "netns", ORIGIN_NS)
    for namespace, addresses in ((CLIENT_NS, [CLIENT]), (ORIGIN_NS, [GATEWAY, ORIGIN, SINK])):
        for address in addresses:
            run("ip", "-n", namespace, "addr", "add", f"{address}/24", "dev", "eth0")
        run("ip", "-n", namespace, "link", "set", "eth0", "up")
    run("ip", "-n", CLIENT_NS, "route", "add", "default", "via", GATEWAY)
    log = open(f"{directory}/origin.log", "w")
    nginx = shutil.which("nginx") or "/usr/sbin/nginx"
    commands = ([nginx, "-e", "stderr", "-c", f"{directory}/nginx.conf"], [sys.executable, os.path.abspath(__file__), "--serve", directory])
    return [subprocess.Popen(["ip", "netns", "exec", ORIGIN_NS, *words], stdout=log, stderr=log, stdin=subprocess.DEVNULL) for words in commands]


def main():
    if sys.argv[1:2] == ["--serve"]:
        return serve(sys.argv[2])
    if sys.argv[1:2] == ["--client"]:
        return client(sys.argv[2], float(sys.argv[3]))
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--quick", action="store_true", help="one round, about 40 s")
    options.add_argument("--rounds", type=int)
    options.add_argument("--seconds", type=int, default=2, help="of each measurement")
    options.add_argument("--bin", default=checks.BIN)
    options.add_argument("--json")
    options.add_argument("subject", nargs="*")
    given = options.parse_args()
    rounds = given.rounds or (1 if given.quick else 4)
    known = {"direct": (Subject, "sh"), "leash": (Leash, "sh"), "haproxy": (Haproxy, "haproxy"), "mitmproxy": (Mitmproxy, "mitmdump")}
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    directory, started = tempfile.mkdtemp(prefix="leash-bench-", dir="/run"), []
    try:
        started = prepare(directory)
        subjects = [kind(directory, os.path.abspath(given.bin)) for name, (kind, program) in known.items()
                    if name in (given.subject or known) and shutil.which(program)]
        began, done = time.monotonic(), 0
        while done < rounds and time.monotonic() - began < 200:
            for subject in subjects:
                round_of(subject, given.seconds)
            done += 1
    finally:
        for process in started:
            process.terminate()
            process.wait()
        for namespace in (CLIENT_NS, ORIGIN_NS):
            subprocess.run(["ip", "netns", "delete", namespace], capture_output=True)
        shutil.rmtree(directory, ignore_errors=True)
    print(f"medians of {done} rounds, kernel {os.uname().release}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}")
    medians = table(subjects)
    if given.json:
        with open(given.json, "w") as file:
            json.dump(medians, file, indent=1)


if __name__ == "__main__":
    main()
