#!/usr/bin/env python3
"""What is left behind, and what stays shut, when something is killed: the runtime, the shim, the proxy, the engine."""

import fcntl
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from bundle import Bundle
from checks import *

EVIL = "203.0.113.9"
CYCLES = int(os.environ.get("LEASH_CYCLES", "100"))
DOCKER_CYCLES = int(os.environ.get("LEASH_DOCKER_CYCLES", "15"))
ROOT = f"{RUN}/runtime-root"
POLICY = "allow: [ok.test]\n"


def runtime(*arguments, binary=None, timeout=30):
    """With files for its output: a pipe would stay open as long as the container, which inherits it."""
    argv = [binary or f"{BIN}/leash-runtime", "--root", ROOT, "--policy", policy_path(), *arguments]
    started = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            code = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err, timeout=timeout).returncode
        except subprocess.TimeoutExpired:
            raise Failed(f"$ {' '.join(argv)}\nstill running after {timeout} s")
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "replace"))
    return Ran(argv, code, *texts, time.monotonic() - started)


_policy = []


def policy_path():
    if not _policy:
        _policy.append(policy_file(POLICY))
    return _policy[0]


def processes(*names):
    """pid -> command line of the processes whose program is one of the names."""
    found = {}
    for pid in os.listdir("/proc"):
        if pid.isdigit():
            try:
                line = open(f"/proc/{pid}/cmdline").read().split("\0")
                if os.path.basename(line[0]) in names:
                    found[int(pid)] = line
            except OSError:
                pass
    return found


def children_of_leash(container_id=None):
    return {pid: line for pid, line in processes("leash-shim", "leash-proxy", "leash-runtime", "leash-dialer").items() if container_id is None or container_id in line}


def traces(mark):
    """Everything on the machine that has `mark` (a part of container ids) in its name."""
    left = [f"process {pid} {line}" for pid, line in processes("leash-shim", "leash-proxy", "leash-dialer").items() if any(mark in word for word in line)]
    # Logs stay on purpose.
    folder = "/var/lib/leash"
    left += [f"{folder}/{name}" for name in (os.listdir(folder) if os.path.isdir(folder) else []) if mark in name and not any(
        os.path.getsize(f"{folder}/{name}/{log}") for log in os.listdir(f"{folder}/{name}"))]
    left += [f"mount {line.split()[4]}" for line in open("/proc/self/mountinfo") if mark in line]
    for folder in ("/run/leash", ROOT, "/run/netns"):
        left += [f"{folder}/{name}" for name in (os.listdir(folder) if os.path.isdir(folder) else []) if mark in name]
    for folder, names, _ in os.walk("/sys/fs/cgroup"):
        left += [f"{folder}/{name}" for name in names if mark in name]
    return left


def interfaces():
    return len(os.listdir("/sys/class/net")) + len(run("ip", "-n", f"{LAB}-engine", "-o", "link").out.splitlines())


def mounts():
    return len(open("/proc/self/mountinfo").readlines())


def registered():
    """The engine's containers: their ids are 64 digits long."""
    return {name for name in os.listdir("/run/leash") if len(name.lstrip("@")) == 64} if os.path.isdir("/run/leash") else set()


def kill_shims(name):
    pids = [pid for pid, line in processes("leash-shim").items() if name in line]
    that(pids, "no shim runs")
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # the dialer and the relay carry the same name and end with it


def settled(mark):
    try:
        eventually(lambda: not traces(mark), 10)
    except Failed:
        that(False, "left behind:", *traces(mark))


@check(f"{CYCLES} create/start/delete cycles of a bundle leave nothing behind", leashed=True)
def _():
    mark = f"cycle{os.getpid()}x"
    before = (interfaces(), mounts())
    with Bundle("true") as bundle:
        for number in range(CYCLES):
            name = f"{mark}{number}"
            runtime("create", "--bundle", bundle.path, name).ok()
            runtime("start", name).ok()
            runtime("delete", "--force", name).ok()
    settled(mark)
    eventually(lambda: interfaces() <= before[0] and mounts() <= before[1], 10, f"interfaces, mounts: before {before}, now {(interfaces(), mounts())}")


@check(f"{DOCKER_CYCLES} docker runs leave nothing behind", leashed=True)
def _():
    before = (interfaces(), mounts(), registered())
    for _ in range(DOCKER_CYCLES):
        docker_run(*with_policy(POLICY), BUSYBOX, "true").ok()
    eventually(lambda: interfaces() <= before[0] and mounts() <= before[1] and not registered() - before[2], 10,
               f"before {before}, now {(interfaces(), mounts(), registered())}")


@check("the runtime killed at any moment of create leaves nothing that delete --force does not remove", leashed=True)
def _():
    mark = f"killcreate{os.getpid()}x"
    with Bundle("sleep", "60") as bundle:
        for number in range(25):
            name = f"{mark}{number}"
            process = subprocess.Popen([f"{BIN}/leash-runtime", "--root", ROOT, "--policy", policy_path(), "create", "--bundle", bundle.path, name],
                                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(number * 0.004)
            process.kill()
            process.wait()
            runtime("delete", "--force", name).ok()
    settled(mark)


@check("cleaning up waits for a shim that is on its way out", leashed=True)
def _():
    name = f"leaving{os.getpid()}"
    folder = f"/run/leash/{name}"
    os.makedirs(folder, mode=0o700)
    with open(f"{folder}/shim.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        cleaning = subprocess.Popen([f"{BIN}/leash-shim", "--cleanup", name], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            # its exit within this time is the failure that is looked for
            cleaning.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            pass
        fcntl.flock(lock, fcntl.LOCK_UN)
        equal((cleaning.wait(timeout=10), cleaning.stderr.read()), (0, b""))
    that(not os.path.exists(folder))


@check("the runtime killed at any moment of start runs the process leashed or not at all", leashed=True)
def _():
    mark = f"killstart{os.getpid()}x"
    with Bundle("sh", "-c", "ip link show eth0 >/ran 2>&1; sleep 60") as bundle:
        for number in range(15):
            name = f"{mark}{number}"
            runtime("create", "--bundle", bundle.path, name).ok()
            process = subprocess.Popen([f"{BIN}/leash-runtime", "--root", ROOT, "--policy", policy_path(), "start", name],
                                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(number * 0.003)
            process.kill()
            process.wait()
            runtime("delete", "--force", name).ok()
    settled(mark)


@check("the shim killed before start: the process never runs and the reason is told", leashed=True)
def _():
    name = f"noshim{os.getpid()}"
    with Bundle("touch", "/ran") as bundle:
        runtime("create", "--bundle", bundle.path, name).ok()
        kill_shims(name)
        ran = runtime("start", name)
        that(ran.code != 0, ran)
        that(not os.path.exists(f"{bundle.path}/rootfs/ran"), "the process ran without its leash")
        runtime("delete", "--force", name).ok()
    settled(name)


@check("the shim killed while the container runs: nothing gets out, nothing is left after delete", leashed=True)
def _():
    wire = Wire()
    with Container(*with_policy(POLICY), TEST, "sleep", "600") as container:
        contains(container.sh("curl -sm5 https://ok.test/").out, '"scheme"')
        kill_shims(container.id)
        eventually(lambda: not [p for p, line in processes("leash-proxy").items() if container.id in line], 5, "the proxy outlives the shim")
        for url in ("https://ok.test/", f"https://{EVIL}/", f"http://{EVIL}/"):
            that('"scheme"' not in container.sh(f"curl -skm3 {url}").out, url)
        equal(wire.towards(EVIL), [])
        identity = container.id
    settled(identity)


def broken_folder(**programs):
    folder = f"{RUN}/broken-{time.monotonic_ns()}"
    os.makedirs(folder)
    for name in ("leash-runtime", "leash-shim", "leash-proxy"):
        text = programs.get(name.replace("-", "_"), "real")
        if text == "real":
            shutil.copy2(f"{BIN}/{name}", f"{folder}/{name}")
        elif text:
            with open(f"{folder}/{name}", "w") as file:
                file.write(text)
            os.chmod(f"{folder}/{name}", 0o755)
    return folder


@check("without a working shim or proxy the process never runs, and the reason is told", leashed=True)
def _():
    broken = {"no proxy": {"leash_proxy": None}, "a proxy that ends": {"leash_proxy": "#!/bin/sh\nexit 1\n"}, "no shim": {"leash_shim": None}, "a shim that ends": {"leash_shim": "#!/bin/sh\nexit 1\n"}}
    for what, programs in broken.items():
        folder = broken_folder(**programs)
        name = f"broken{os.getpid()}"
        with Bundle("touch", "/ran") as bundle:
            ran = runtime("run", "--bundle", bundle.path, name, binary=f"{folder}/leash-runtime", timeout=40)
            that(ran.code not in (0,), what, ran)
            that(ran.err.strip(), what, ran)
            that(not os.path.exists(f"{bundle.path}/rootfs/ran"), what, "the process ran")
            runtime("delete", "--force", name)
        settled(name)
        shutil.rmtree(folder)


@check("the engine killed and started again: the container runs on, leashed, and can be removed", leashed=True)
def _():
    wire = Wire()
    with Container(*with_policy(POLICY), TEST, "sleep", "600") as container:
        first = container.pid()
        lab("kill-engine").ok()
        time.sleep(0.5)
        that(os.path.exists(f"/proc/{first}"), "the container ended with the engine")
        that([p for p, line in processes("leash-shim").items() if container.id in line], "the shim ended with the engine")
        lab("start-engine", timeout=90).ok()
        equal(container.pid(), first)
        contains(container.sh("curl -sm9 https://ok.test/").out, '"scheme"')
        container.sh(f"curl -skm3 https://{EVIL}/; curl -sm3 http://{EVIL}/; true")
        equal(wire.towards(EVIL), [])
        identity = container.id
    settled(identity)


@check("the container's own init killed from outside: the leash ends with it", leashed=True)
def _():
    with Container(*with_policy(POLICY), BUSYBOX, "sleep", "600") as container:
        os.kill(container.pid(), signal.SIGKILL)
        equal(docker("wait", container.id).ok().out.strip(), "137")
        eventually(lambda: not [line for line in processes("leash-shim", "leash-proxy").values() if container.id in line], 10, "shim or proxy live on")


@check("containers started 8 at a time all work and all end", leashed=True)
def _():
    from concurrent.futures import ThreadPoolExecutor
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda n: docker_run(*with_policy(POLICY), TEST, "sh", "-c", f"curl -sm20 https://ok.test/{n} -o /dev/null -w '%{{http_code}}'", timeout=120), range(16)))
    equal([r.out for r in results], ["200"] * 16, *[r for r in results if r.out != "200"])


main()
