"""What the integration and attack tests share: named checks, the engine, and the records of the lab.

A test program has functions decorated with @check("sentence that is false when the code is wrong"), and ends with
`checks.main()`. It prints one TAP line a check, runs those whose name contains argv[1] (all without), and exits
0 when none failed. `skip("why")` inside a check counts as skipped, never as passed.

RUNTIME=runc or crun runs the checks of the common contract against another runtime: the tests are tested too.
Checks that need the leash are marked @check(..., leashed=True) and are skipped there.
"""

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
import traceback

LIB = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(LIB))
LAB = os.environ.get("LEASH_LAB", "leash-lab")
RUN = f"/run/{LAB}"
BIN = os.environ.get("LEASH_BIN", os.path.join(SOURCE, "build", os.environ.get("LEASH_PRESET", "release"), "bin"))
RUNTIME = os.environ.get("RUNTIME", "leash")
LEASHED = RUNTIME.startswith("leash") and RUNTIME != "leash-none"
BUSYBOX, DEMO, TEST = "leash/busybox", "leash/demo", "leash/test"
DOCKER = "/usr/bin/docker" if os.path.exists("/usr/bin/docker") else "docker"

_checks = []


class Skip(Exception):
    pass


class Failed(Exception):
    pass


def skip(why):
    raise Skip(why)


def check(sentence, leashed=False):
    def add(function):
        _checks.append((sentence, leashed, function))
        return function

    return add


def that(claim, *details):
    """An assertion that says what it saw."""
    if not claim:
        raise Failed("\n".join(str(d) for d in details) or "claim is false")


def equal(got, expected, *details):
    that(got == expected, f"got      {got!r}", f"expected {expected!r}", *details)


def contains(text, part, *details):
    that(part in text, f"no {part!r} in", text, *details)


def eventually(claim, seconds=10.0, what="it never came true"):
    """The first true value of claim(), asked until the deadline."""
    deadline = time.monotonic() + seconds
    while True:
        value = claim()
        if value:
            return value
        if time.monotonic() > deadline:
            raise Failed(what)
        time.sleep(0.05)


class Ran:
    def __init__(self, argv, code, out, err, seconds):
        self.argv, self.code, self.out, self.err, self.seconds = argv, code, out, err, seconds

    def ok(self):
        that(self.code == 0, self)
        return self

    def __str__(self):
        shown = " ".join(self.argv)
        return f"$ {shown}\nexit code {self.code} after {self.seconds:.1f} s\nstdout: {self.out[-3000:]}\nstderr: {self.err[-3000:]}"


def run(*argv, stdin=None, timeout=60, env=None, cwd=None):
    argv = [str(a) for a in argv]
    started = time.monotonic()
    data = stdin.encode() if isinstance(stdin, str) else stdin
    try:
        done = subprocess.run(argv, input=data, capture_output=True, timeout=timeout, cwd=cwd, env={**os.environ, **(env or {})},
                              stdin=subprocess.DEVNULL if data is None else None)
    except subprocess.TimeoutExpired as error:
        raise Failed(f"$ {' '.join(argv)}\nstill running after {timeout} s\nstdout: {error.stdout}\nstderr: {error.stderr}")
    # Bytes as they came: text mode would turn the CR LF of HTTP into LF.
    out, err = done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
    return Ran(argv, done.returncode, out, err, time.monotonic() - started)


def run_in_terminal(*argv, rows=24, columns=80, timeout=30, env=None):
    """The output of a program on a terminal of its own."""
    argv = [str(a) for a in argv]
    started = time.monotonic()
    pid, terminal = pty.fork()
    if pid == 0:
        try:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.execvpe(argv[0], argv, {**os.environ, **(env or {})})
        finally:
            os._exit(99)
    output = b""
    while True:
        ready, _, _ = select.select([terminal], [], [], max(0, started + timeout - time.monotonic()))
        if not ready:
            os.kill(pid, 9)
            break
        try:
            data = os.read(terminal, 65536)
        except OSError:  # EIO: the other end is closed
            break
        if not data:
            break
        output += data
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    return Ran(argv, os.waitstatus_to_exitcode(status), output.decode("utf-8", "replace"), "", time.monotonic() - started)


def client_environment():
    return {"DOCKER_HOST": f"unix://{RUN}/docker.sock", "DOCKER_CONFIG": f"{RUN}/docker-config", "DOCKER_CONTEXT": ""}


def docker_in_terminal(*arguments, **options):
    return run_in_terminal(DOCKER, *arguments, env=client_environment(), **options)


def docker(*arguments, **options):
    environment = {**client_environment(), **options.pop("env", {})}
    return run(DOCKER, *arguments, env=environment, **options)


def docker_run(*arguments, runtime=None, **options):
    """docker run --rm with the runtime under test."""
    return docker("run", "--rm", "--runtime", runtime or RUNTIME, *arguments, **options)


def lab(*arguments, **options):
    return run(os.path.join(LIB, "lab.sh"), *arguments, **options)


class Container:
    """A detached container with the runtime under test, removed at the end of the with statement."""

    def __init__(self, *arguments, runtime=None):
        self.id = docker("run", "-d", "--runtime", runtime or RUNTIME, *arguments).ok().out.strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        docker("rm", "-f", "-v", self.id)

    def exec(self, *arguments, **options):
        return docker("exec", *[a for a in options.pop("flags", [])], self.id, *arguments, **options)

    def sh(self, script, **options):
        return self.exec("sh", "-c", script, **options)

    def inspect(self, template):
        return docker("inspect", "-f", template, self.id).ok().out.strip()

    def pid(self):
        return int(self.inspect("{{.State.Pid}}"))

    def flows(self):
        return log_lines(self.id, "flows")

    def blocked(self):
        return log_lines(self.id, "blocked")


# ---- what Leash wrote ----

def log_directory(container_id):
    return f"/var/lib/leash/{container_id}"


def log_lines(container_id, which):
    lines = []
    directory = log_directory(container_id)
    for name in [f"{which}.jsonl.{n}" for n in (4, 3, 2, 1)] + [f"{which}.jsonl"]:
        try:
            with open(os.path.join(directory, name)) as file:
                lines += [json.loads(line) for line in file]
        except FileNotFoundError:
            pass
    return lines


def run_logged(*arguments, runtime=None, **options):
    """docker run, and afterwards (result, flows, blocked) of that container."""
    name = f"logged-{os.getpid()}-{time.monotonic_ns()}"
    ran = docker("run", "--name", name, "--runtime", runtime or RUNTIME, *arguments, **options)
    inspected = docker("inspect", "-f", "{{.Id}}", name)
    container_id = inspected.out.strip()
    docker("rm", "-f", "-v", name)
    return ran, log_lines(container_id, "flows"), log_lines(container_id, "blocked")


# ---- what the test internet saw ----

def record_path(name):
    return f"{RUN}/records/{name}.jsonl"


class Records:
    """Lines that were written to a record after this object was made."""

    def __init__(self, name):
        self.path = record_path(name)
        self.start = os.path.getsize(self.path) if os.path.exists(self.path) else 0

    def lines(self):
        with open(self.path, "rb") as file:
            file.seek(self.start)
            data = file.read()
        return [json.loads(line) for line in data[: data.rfind(b"\n") + 1].splitlines()]

    def find(self, **wanted):
        return [line for line in self.lines() if all(line.get(k) == v for k, v in wanted.items())]


class Wire:
    """Frames on the engine's side since this object was made."""

    def __init__(self):
        self.records = Records("wire")

    def frames(self):
        time.sleep(0.1)  # the recorder writes what the kernel has queued
        return [f for f in self.records.lines() if f.get("kind") not in ("arp", "icmpv6", "igmp") or f.get("type") in (128, 129)]

    def towards(self, *addresses):
        return [f for f in self.frames() if f.get("dst") in addresses]

    def with_payload(self, text):
        return [f for f in self.frames() if text in f.get("payload", "")]


# ---- policies ----

def policy_file(text, name="policy"):
    """A policy for one container: mount it with `policy_mount`."""
    folder = f"{RUN}/policies"
    os.makedirs(folder, exist_ok=True)
    path = f"{folder}/{name}-{os.getpid()}-{time.monotonic_ns()}.yaml"
    with open(path, "w") as file:
        file.write(text)
    return path


def with_policy(text):
    """docker run arguments that give the container this policy."""
    return ["-v", f"{policy_file(text)}:/etc/leash/policy.yaml:ro"]


# ---- running ----

def main():
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    chosen = [c for c in _checks if re.search(wanted, c[0])]
    print(f"1..{len(chosen)}", flush=True)
    failed = skipped = 0
    for number, (sentence, leashed, function) in enumerate(chosen, 1):
        started = time.monotonic()
        try:
            if leashed and not LEASHED:
                raise Skip(f"needs the leash, the runtime is {RUNTIME}")
            function()
            verdict, extra = "ok", ""
        except Skip as why:
            skipped += 1
            verdict, extra = "ok", f" # SKIP {why}"
        except Failed as why:
            failed += 1
            verdict, extra = "not ok", "\n" + "\n".join("#   " + line for line in str(why).splitlines())
        except Exception:
            failed += 1
            verdict, extra = "not ok", "\n" + "\n".join("#   " + line for line in traceback.format_exc().splitlines())
        print(f"{verdict} {number} - {sentence} ({time.monotonic() - started:.1f} s){extra}", flush=True)
    print(f"# {len(chosen) - failed - skipped} passed, {failed} failed, {skipped} skipped", flush=True)
    sys.exit(1 if failed else 0)
