"""The leash without an engine: what the runtime keeps of a secret, and what it refuses."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import checks
from bundle import Bundle
from checks import BIN, check, contains, equal, run, that

ROOT = tempfile.mkdtemp(prefix="leash-keys-", dir="/run")
KEY = "sk-ant-api03-" + "THISISTHESECRETVALUE" * 4
PIECE = b"THISISTHESECRETVALUETHIS"


def call(*arguments, program=f"{BIN}/leash-runtime", flags=(), **options):
    return run(program, "--root", f"{ROOT}/state", *flags, *arguments, **options)


def with_key(config):
    config["process"]["env"].append(f"ANTHROPIC_API_KEY={KEY}")


@contextlib.contextmanager
def created(*arguments, change=None, name="leash-keys"):
    """A created container under the built-in profile: its init's pid and the file with its output."""
    with Bundle(*arguments, change=change) as bundle:
        pid_file, output = f"{ROOT}/{name}.pid", f"{ROOT}/{name}.out"
        with open(output, "w") as out:
            done = subprocess.run([f"{BIN}/leash-runtime", "--root", f"{ROOT}/state", "create", "--bundle", bundle.path, "--pid-file", pid_file,
                                   name], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, timeout=60)
        try:
            equal(done.returncode, 0, open(output).read())
            yield int(open(pid_file).read()), output
        finally:
            call("delete", "--force", name)


def in_memory(pid, piece):
    """Where `piece` stands in the memory of a process."""
    found = []
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            span, mode = line.split()[:2]
            if "r" not in mode or "[v" in line:
                continue
            low, high = (int(part, 16) for part in span.split("-"))
            memory.seek(low)
            with contextlib.suppress(OSError):
                found += [f"{line.split()[-1]} {match.start():#x}" for match in re.finditer(re.escape(piece), memory.read(high - low))]
    return found


@check("a real key is in no memory and no file of the waiting container, nor of the runtime's", leashed=True)
def key_in_memory():
    with created("sleep", "1000", change=with_key) as (pid, _):
        that(in_memory(pid, b"ANTHROPIC_API_KEY=sk-ant-"), "the placeholder is there: the search works")
        equal(in_memory(pid, PIECE), [])
        equal(run("grep", "-rl", PIECE.decode(), f"{ROOT}/state", "/run/leash/leash-keys").out, "")


@check("the program and what exec starts see the same placeholder", leashed=True)
def placeholder():
    with created("sh", "-c", "echo $ANTHROPIC_API_KEY; exec sleep 1000", change=with_key) as (_, output):
        call("start", "leash-keys").ok()
        seen = checks.eventually(lambda: open(output).read().strip())
        that(seen.startswith("sk-ant-api03-") and PIECE.decode() not in seen and len(seen) == len(KEY), seen)
        equal(call("exec", "leash-keys", "sh", "-c", "echo $ANTHROPIC_API_KEY").ok().out.strip(), seen)
        equal(call("exec", "--env", f"ANTHROPIC_API_KEY={KEY}", "leash-keys", "sh", "-c", "echo $ANTHROPIC_API_KEY").ok().out.strip(), seen)


@check("a key that the policy takes from the host's environment is a placeholder inside", leashed=True)
def key_from_host():
    text = "secrets: [{env: API_KEY, hosts: [api.anthropic.com], from: {host-env: LEASH_TEST_KEY}}]"
    policy = checks.policy_file(text)
    with Bundle("sh", "-c", "echo $API_KEY") as bundle:
        arguments = ("--policy", policy, "run", "--bundle", bundle.path, "leash-host-key")
        missing = call(*arguments)
        that(missing.code != 0 and "LEASH_TEST_KEY" in missing.err, missing)
        seen = call(*arguments, env={"LEASH_TEST_KEY": KEY}).ok().out.strip()
        that(seen.startswith("sk-ant-api03-") and PIECE.decode() not in seen and len(seen) == len(KEY), seen)


@check("exec gets no capability that the container was not given", leashed=True)
def exec_capabilities():
    with created("sleep", "1000") as (pid, _):
        call("start", "leash-keys").ok()
        bounding = next(line.split()[1] for line in open(f"/proc/{pid}/status") if line.startswith("CapBnd"))
        done = call("exec", "--cap", "CAP_NET_ADMIN", "--cap", "CAP_SYS_ADMIN", "leash-keys", "grep", "Cap", "/proc/self/status").ok()
        for line in done.out.splitlines():
            equal(int(line.split()[1], 16) & ~int(bounding, 16), 0, line)


@check("nobody enters a created container: its network is not locked in yet", leashed=True)
def exec_before_start():
    with created("sleep", "1000"):
        done = call("exec", "leash-keys", "readlink", "/proc/self/ns/net")
        equal((done.code, done.out), (255, ""))
        contains(done.err, "not locked in yet")
        call("start", "leash-keys").ok()
        call("exec", "leash-keys", "true").ok()


@check("a shim that cannot be started is an error that no engine takes for the program's", leashed=True)
def no_shim():
    with tempfile.TemporaryDirectory(dir=ROOT) as alone, Bundle("echo", "NEVER") as bundle:
        shutil.copy(f"{BIN}/leash-runtime", alone)
        done = call("run", "--bundle", bundle.path, "lonely", program=f"{alone}/leash-runtime")
        equal((done.code, done.out), (1, ""))
        contains(done.err, "leash: ")
        for words in ("no such file or directory", "permission denied", "executable file not found", "not a directory"):
            that(words not in done.err, done)
        equal(call("state", "lonely").code, 1, "nothing is left")


@check("a policy that cannot be read, or is none, stops create with its place", leashed=True)
def bad_policy():
    policy = f"{ROOT}/policy.yaml"
    with open(policy, "w") as file:
        file.write("mode: enforce\nnosuchkey: 1\n")
    with Bundle("echo", "NEVER", change=lambda config: config.update(annotations={"leash.policy": policy})) as bundle:
        done = call("run", "--bundle", bundle.path, "bad")
        equal((done.code, done.out), (1, ""))
        contains(done.err, f"{policy}:2:1")
    equal(os.path.exists("/run/leash/bad"), False)


@check("the mount at /etc/leash/policy.yaml is read and not made", leashed=True)
def mounted_policy():
    policy = f"{ROOT}/mounted.yaml"
    with open(policy, "w") as file:
        file.write("mode: observe\n")
    mount = {"destination": "/etc/leash/policy.yaml", "type": "bind", "source": policy, "options": ["rbind", "ro"]}
    with created("sh", "-c", "ls /etc/leash/policy.yaml; sleep 1000", change=lambda config: config["mounts"].append(mount)) as (_, output):
        call("start", "leash-keys").ok()
        checks.eventually(lambda: "No such file" in open(output).read())
        equal(json.load(open("/run/leash/leash-keys/container.json"))["policy_source"], policy)


@check("the network of a process that is not leashed is refused by its name", leashed=True)
def unleashed_network():
    neighbour = subprocess.Popen(["unshare", "--net", "sleep", "1000"])
    try:
        checks.eventually(lambda: os.readlink(f"/proc/{neighbour.pid}/ns/net") != os.readlink("/proc/self/ns/net"))
        bound = f"{ROOT}/netns"
        open(bound, "w").close()
        run("mount", "--bind", f"/proc/{neighbour.pid}/ns/net", bound).ok()
        try:
            for path in (f"/proc/{neighbour.pid}/ns/net", bound):
                def change(config):
                    config["linux"]["namespaces"] = [space for space in config["linux"]["namespaces"] if space["type"] != "network"]
                    config["linux"]["namespaces"].append({"type": "network", "path": path})
                with Bundle("echo", "NEVER", change=change) as bundle:
                    done = call("run", "--bundle", bundle.path, "joiner")
                    equal((done.code, done.out), (1, ""))
                    contains(done.err, f"process {neighbour.pid} (sleep) lives in it")
        finally:
            run("umount", bound).ok()
    finally:
        neighbour.kill()
        neighbour.wait()


@check("a container that joins a leashed one's network is in its locked-in namespace", leashed=True)
def leashed_network():
    with created("sleep", "1000") as (pid, _):
        call("start", "leash-keys").ok()
        def change(config):
            config["linux"]["namespaces"] = [space for space in config["linux"]["namespaces"] if space["type"] != "network"]
            config["linux"]["namespaces"].append({"type": "network", "path": f"/proc/{pid}/ns/net"})
        with created("sh", "-c", "readlink /proc/self/ns/net; exec sleep 1000", change=change, name="leash-member") as (_, output):
            call("start", "leash-member").ok()
            inside = os.readlink(f"/proc/{pid}/ns/net")
            equal(checks.eventually(lambda: open(output).read().strip()), inside)
            equal(call("exec", "leash-member", "readlink", "/proc/self/ns/net").ok().out.strip(), inside)


if __name__ == "__main__":
    try:
        checks.main()
    finally:
        shutil.rmtree(ROOT, ignore_errors=True)
