"""The runtime without an engine: what config.json says is what the process finds, and callers read the words they know.

RUNTIME=runc runs the checks of the common contract against runc; checks marked ours=... name what runc does not do.
"""

import array
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import checks
from bundle import Bundle
from checks import BIN, RUNTIME, check, contains, equal, eventually, run, that

OURS = RUNTIME != "runc"
PROGRAM = [f"{BIN}/leash-runtime", "--policy", "none"] if OURS else ["/usr/sbin/runc"]
ROOT = tempfile.mkdtemp(prefix="leash-oci-", dir="/run")
LOG = f"{ROOT}/log.json"


def call(*arguments, **options):
    with contextlib.suppress(FileNotFoundError):
        os.unlink(LOG)
    return run(*PROGRAM, "--root", f"{ROOT}/state", "--log", LOG, "--log-format", "json", *arguments, **options)


def logged():
    """The objects in the log file of the last call."""
    with open(LOG) as file:
        return [json.loads(line) for line in file]


def ran(script, change=None, flags=(), prepare=None, **options):
    """`run` of a shell script in a bundle that `change` has changed."""
    with Bundle("sh", "-c", script, change=change) as bundle:
        if prepare:
            prepare(bundle)
        try:
            return call("run", "--bundle", bundle.path, *flags, "once", **options)
        finally:
            call("delete", "--force", "once")


@contextlib.contextmanager
def created(*arguments, change=None, flags=(), start=True):
    """A container "c" of a bundle, started unless told otherwise; its init's pid is the value."""
    with Bundle(*arguments, change=change) as bundle:
        pid_file = f"{ROOT}/pid"
        # Output to files: init keeps them, and a pipe would wait for its end.
        with open(f"{ROOT}/out", "w") as out:
            done = subprocess.run([*PROGRAM, "--root", f"{ROOT}/state", "create", "--bundle", bundle.path, "--pid-file", pid_file,
                                   *flags, "c"], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, timeout=60)
        equal(done.returncode, 0, open(f"{ROOT}/out").read())
        try:
            if start:
                call("start", "c").ok()
            yield int(open(pid_file).read())
        finally:
            call("delete", "--force", "c")


def fields(text):
    """Lines "KEY: value" or "KEY value" as a dictionary."""
    return {line.split(None, 1)[0].rstrip(":"): line.split(None, 1)[1] for line in text.splitlines() if len(line.split(None, 1)) == 2}


def namespace(kind, path=None):
    def change(config):
        spaces = config["linux"]["namespaces"]
        spaces[:] = [space for space in spaces if space["type"] != kind]
        spaces.append({"type": kind, **({"path": path} if path else {})})
    return change


def mounted(destination, kind, source, *options):
    return lambda config: config["mounts"].append({"destination": destination, "type": kind, "source": source, "options": list(options)})


def process(**values):
    return lambda config: config["process"].update(values)


def linux(**values):
    return lambda config: config["linux"].update(values)


def all_of(*changes):
    def change(config):
        for one in changes:
            one(config)
    return change


# ---- the life of a container ----

@check("create, start, kill and delete lead through created, running and stopped")
def life():
    with created("sleep", "1000", start=False) as pid:
        state = json.loads(call("state", "c").ok().out)
        equal((state["status"], state["pid"], state["id"]), ("created", pid, "c"))
        equal(open(f"{ROOT}/pid").read(), str(pid), "digits and no newline")
        call("start", "c").ok()
        equal(json.loads(call("state", "c").ok().out)["status"], "running")
        again = call("start", "c")
        equal((again.code, again.err), (1, "cannot start an already running container\n"))
        refused = call("delete", "c")
        equal((refused.code, refused.err), (1, "cannot delete container c that is not stopped: running\n"))
        call("kill", "c", "KILL").ok()
        eventually(lambda: json.loads(call("state", "c").out)["status"] == "stopped")
        equal(call("kill", "c", "9").err, "container not running\n")
        call("kill", "--all", "c", "9").ok()
        equal(call("start", "c").err, "cannot start a container that has stopped\n")
        equal(call("exec", "c", "true").err, "exec failed: cannot exec in a stopped container\n")
        call("delete", "c").ok()
        equal(call("state", "c").err, "container does not exist\n")


@check("a created container is deleted without force, and its process is gone")
def delete_created():
    with created("sleep", "1000", start=False) as pid:
        call("delete", "c").ok()
        eventually(lambda: not os.path.exists(f"/proc/{pid}") or "Z" in open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1][:3])


@check("an unknown id does not exist for every command, and delete --force is silent about it")
def unknown():
    for arguments in (["state"], ["start"], ["kill"], ["delete"], ["pause"], ["resume"], ["ps"], ["events", "--stats"]):
        done = call(*arguments, "nope")
        equal((done.code, done.err), (1, "container does not exist\n"), arguments)
        equal([line["msg"] for line in logged()], ["container does not exist"])
    done = call("exec", "nope", "true")
    equal((done.code, done.err), (255, "exec failed: container does not exist\n"))
    done = call("delete", "--force", "nope")
    equal((done.code, done.out, done.err), (0, "", ""))


@check("the waiting init holds no descriptor of its caller")
def inherited():
    read_end, write_end = os.pipe()
    os.set_inheritable(write_end, True)
    with Bundle("sleep", "1000") as bundle:
        subprocess.run([*PROGRAM, "--root", f"{ROOT}/state", "create", "--bundle", bundle.path, "c"], stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False, check=True, timeout=60)
        os.close(write_end)
        try:
            os.set_blocking(read_end, False)
            equal(os.read(read_end, 1), b"", "the pipe is closed by all")
        finally:
            os.close(read_end)
            call("delete", "--force", "c")


@check("a create that is killed leaves no process behind that could be started")
def killed_create():
    if not OURS:
        checks.skip("runc's init survives its creator")
    with Bundle("sleep", "1000", change=lambda config: config.update(
            {"hooks": {"createRuntime": [{"path": "/bin/sleep", "args": ["sleep", "60"]}]}})) as bundle:
        creator = subprocess.Popen([*PROGRAM, "--root", f"{ROOT}/state", "create", "--bundle", bundle.path, "c"],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        children = lambda: open(f"/proc/{creator.pid}/task/{creator.pid}/children").read().split()
        eventually(lambda: len(children()) == 2, what="init and the hook")
        pids = children()
        creator.kill()
        creator.wait()
        alive = lambda pid: os.path.exists(f"/proc/{pid}") and open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] != "Z"
        init = next(pid for pid in pids if not alive(pid) or "sleep" not in open(f"/proc/{pid}/comm").read())
        eventually(lambda: not alive(init))
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        call("delete", "--force", "c").ok()
        equal(os.listdir(f"{ROOT}/state"), [])


# ---- words and codes ----

@check("exit codes are the program's, and 128 + N for a signal")
def codes():
    for code in (0, 1, 7, 126, 255):
        equal(ran(f"exit {code}").code, code)
    # A pid namespace's init is deaf to itself: the signal comes from outside.
    with Bundle("sleep", "1000") as bundle:
        runner = subprocess.Popen([*PROGRAM, "--root", f"{ROOT}/state", "run", "--bundle", bundle.path, "c"],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        eventually(lambda: call("state", "c").code == 0 and call("kill", "c", "KILL").code == 0)
        equal(runner.wait(timeout=20), 137)


@check("a program that cannot be started is told at create, in the words that become 126 and 127")
def programs():
    for name, words in (("nosuchcmd", 'exec: "nosuchcmd": executable file not found in $PATH'),
                        ("/nosuch", 'exec: "/nosuch": stat /nosuch: no such file or directory'),
                        ("/etc/passwd", 'exec: "/etc/passwd": permission denied'),
                        ("/etc", 'exec: "/etc": permission denied')):
        with Bundle(name) as bundle:
            os.makedirs(f"{bundle.path}/rootfs/etc", exist_ok=True)
            with open(f"{bundle.path}/rootfs/etc/passwd", "a"):
                pass
            os.chmod(f"{bundle.path}/rootfs/etc/passwd", 0o644)
            done = call("create", "--bundle", bundle.path, "c")
            equal(done.code, 1)
            contains(done.err, f" create failed: unable to start container process: {words}\n")
            equal(len(logged()), 1, "podman reads the file as one object")
            equal(call("state", "c").code, 1, "nothing is left")


@check("a program without a working interpreter ends with 1 and says so on its own stderr")
def interpreters():
    for text, words in (("#!/nosuch\n", "no such file or directory"), ("\x01\x02", "exec format error")):
        def prepare(bundle):
            with open(f"{bundle.path}/rootfs/program", "w") as file:
                file.write(text)
            os.chmod(f"{bundle.path}/rootfs/program", 0o755)
        done = ran("", change=process(args=["/program"]), prepare=prepare)
        equal((done.code, done.err), (1, f"exec /program: {words}\n"))


@check("exec reports failures with 255, codes of the program, and signals")
def exec_codes():
    with created("sleep", "1000"):
        equal(call("exec", "c", "sh", "-c", "exit 9").code, 9)
        equal(call("exec", "c", "sh", "-c", "kill -9 $$").code, 137)
        for arguments, words in ((["nosuch"], 'exec: "nosuch": executable file not found in $PATH'),
                                 (["/nosuch"], 'exec: "/nosuch": stat /nosuch: no such file or directory')):
            done = call("exec", "c", *arguments)
            equal((done.code, done.err), (255, f"exec failed: unable to start container process: {words}\n"))
        done = call("exec", "--cwd", "/nosuch", "c", "true")
        contains(done.err, 'chdir to cwd ("/nosuch") set in config.json failed: no such file or directory')
        equal(call("exec", "c").err, "exec failed: process args cannot be empty\n")


@check("exec --detach writes the pid file when the program runs, and none when it fails")
def exec_pid_file():
    with created("sleep", "1000"):
        pid_file = f"{ROOT}/exec.pid"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(pid_file)
        that(call("exec", "--detach", "--pid-file", pid_file, "c", "nosuch").code == 255)
        that(not os.path.exists(pid_file))
        subprocess.run([*PROGRAM, "--root", f"{ROOT}/state", "exec", "--detach", "--pid-file", pid_file, "c", "sleep", "500"], check=True,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        pid = open(pid_file).read()
        that(pid.isdigit(), pid)
        # runc writes it a moment before execve
        checks.eventually(lambda: open(f"/proc/{pid}/cmdline").read() == "sleep\x00500\x00", 5)


@check("exec takes user, directory, variables and capabilities")
def exec_flags():
    with created("sleep", "1000"):
        done = call("exec", "--user", "33:44", "--cwd", "/tmp", "--env", "A=b c", "c", "sh", "-c",
                    "id -u; id -g; pwd; echo \"$A\"; grep CapEff /proc/self/status").ok()
        equal(done.out.splitlines()[:4], ["33", "44", "/tmp", "b c"])
        equal(int(fields(done.out)["CapEff"], 16), 0)
        done = call("exec", "--cap", "CAP_SYS_NICE", "c", "grep", "CapBnd", "/proc/self/status").ok()
        that(int(fields(done.out)["CapBnd"], 16) >> 23 & 1, done)


@check("exec is refused in a paused container unless told to go on")
def exec_paused():
    with created("sleep", "1000"):
        call("pause", "c").ok()
        equal(call("exec", "c", "true").err, "exec failed: cannot exec in a paused container (use --ignore-paused to override)\n")
        call("resume", "c").ok()
        call("exec", "c", "true").ok()


@check("signals have names and numbers, and unknown ones are refused")
def signals():
    with created("sh", "-c", "trap 'exit 5' USR1; while :; do sleep 0.05; done"):
        equal(call("kill", "c", "NOSUCHSIG").err, 'unknown signal "NOSUCHSIG"\n')
        equal(call("kill", "c", "999").err, "unable to signal init: invalid argument\n")
        call("kill", "c", "0").ok()
        call("kill", "c", "USR1").ok()
        eventually(lambda: json.loads(call("state", "c").out)["status"] == "stopped")


@check("bad bundles are refused in runc's words")
def bundles():
    done = call("run", "--bundle", "/nosuchbundle", "c")
    contains(done.err, "run failed: chdir /nosuchbundle: no such file or directory\n")
    with tempfile.TemporaryDirectory() as empty:
        contains(call("run", "--bundle", empty, "c").err, "run failed: JSON specification file config.json not found\n")
    contains(ran("", change=lambda config: config["root"].update(path="nowhere")).err, "invalid rootfs: stat ")
    for name in ("../x", ".", "a/b"):
        with Bundle("true") as bundle:
            contains(call("run", "--bundle", bundle.path, name).err, "run failed: invalid container ID format\n")


# ---- namespaces ----

def reachable(bundle):
    """For mapped root, which is nobody's root on the host."""
    os.chmod(bundle.path, 0o755)
    run("chown", "-R", "-h", "100000:100000", f"{bundle.path}/rootfs").ok()


@check("a user namespace maps the ids, and devices are the host's nodes")
def user_namespace():
    def change(config):
        namespace("user")(config)
        config["linux"]["uidMappings"] = [{"containerID": 0, "hostID": 100000, "size": 65536}]
        config["linux"]["gidMappings"] = [{"containerID": 0, "hostID": 100000, "size": 65536}]
    done = ran("id -u; cat /proc/self/uid_map; echo x > /dev/null && echo written; ls -ln /dev/null | cut -c1", change=change,
               prepare=reachable).ok()
    lines = done.out.splitlines()
    equal((lines[0], lines[1].split(), lines[2], lines[3]), ("0", ["0", "100000", "65536"], "written", "c"))


@check("a bind source that mapped root cannot reach is opened with the host's rights")
def user_namespace_bind():
    source = tempfile.mkdtemp(dir=ROOT)
    os.makedirs(f"{source}/deep")
    os.chmod(source, 0o700)
    with open(f"{source}/deep/file", "w") as file:
        file.write("deep\n")
    def change(config):
        namespace("user")(config)
        config["linux"]["uidMappings"] = [{"containerID": 0, "hostID": 100000, "size": 65536}]
        config["linux"]["gidMappings"] = [{"containerID": 0, "hostID": 100000, "size": 65536}]
        mounted("/mnt/deep", "bind", f"{source}/deep", "rbind", "ro")(config)
    def prepare(bundle):
        reachable(bundle)
        os.makedirs(f"{bundle.path}/rootfs/mnt/deep", exist_ok=True)
    equal(ran("cat /mnt/deep/file", change=change, prepare=prepare).ok().out, "deep\n")


@check("a pid namespace is joined by its path")
def joined_pid_namespace():
    with created("sleep", "1000") as pid:
        done = ran("readlink /proc/self/ns/pid; cat /proc/1/comm", change=namespace("pid", f"/proc/{pid}/ns/pid")).ok()
        equal(done.out.splitlines(), [os.readlink(f"/proc/{pid}/ns/pid"), "sleep"])


@check("network, ipc and uts namespaces are joined by their paths")
def joined_namespaces():
    with created("sleep", "1000") as pid:
        for kind, name in (("network", "net"), ("ipc", "ipc"), ("uts", "uts")):
            change = namespace(kind, f"/proc/{pid}/ns/{name}")
            if kind == "uts":
                change = all_of(change, lambda config: config.pop("hostname"))
            equal(ran(f"readlink /proc/self/ns/{name}", change=change).ok().out.strip(), os.readlink(f"/proc/{pid}/ns/{name}"))


@check("a path that is another kind of namespace is refused")
def wrong_namespace():
    with created("sleep", "1000") as pid:
        that(ran("echo NEVER", change=namespace("network", f"/proc/{pid}/ns/pid")).code == 1)


@check("a time namespace has the offsets of config.json")
def time_namespace():
    if not OURS:
        checks.skip("runc 1.1 has none")
    change = all_of(namespace("time"), linux(timeOffsets={"monotonic": {"secs": 7 * 86400}, "boottime": {"secs": 9 * 86400}}))
    done = ran("cut -d. -f1 /proc/uptime", change=change).ok()
    that(int(done.out) >= 9 * 86400, done)


# ---- mounts ----

@check("a read-only bind cannot be written, a writable one can")
def binds():
    source = tempfile.mkdtemp(dir=ROOT)
    script = "touch /mnt/a/x 2>&1; touch /mnt/b/y && ls /mnt/a"
    done = ran(script, change=all_of(mounted("/mnt/a", "bind", source, "rbind", "ro"), mounted("/mnt/b", "bind", source, "rbind"))).ok()
    contains(done.out, "Read-only file system")
    contains(done.out, "y\n")
    that(not os.path.exists(f"{source}/x"))


@check("rro reaches the mounts below a bind, ro does not")
def recursive_read_only():
    source = tempfile.mkdtemp(dir=ROOT)
    os.mkdir(f"{source}/sub")
    run("mount", "-t", "tmpfs", "tmpfs", f"{source}/sub").ok()
    try:
        equal(ran("touch /mnt/sub/x", change=mounted("/mnt", "bind", source, "rbind", "ro")).code, 0)
        equal(ran("touch /mnt/sub/y", change=mounted("/mnt", "bind", source, "rbind", "rro")).code, 1)
    finally:
        run("umount", f"{source}/sub").ok()


@check("a tmpfs has its size, flags and mode; tmpcopyup fills it from the image")
def tmpfs():
    def prepare(bundle):
        os.makedirs(f"{bundle.path}/rootfs/data/sub")
        with open(f"{bundle.path}/rootfs/data/sub/file", "w") as file:
            file.write("copied\n")
        os.chmod(f"{bundle.path}/rootfs/data", 0o1770)
    change = all_of(mounted("/data", "tmpfs", "tmpfs", "tmpcopyup", "noexec", "size=1m"), mounted("/plain", "tmpfs", "tmpfs", "mode=0711", "ro"))
    done = ran("cat /data/sub/file; stat -c %a /data /plain; grep -E ' /(data|plain) ' /proc/mounts; touch /plain/x", change=change, prepare=prepare)
    lines = done.out.splitlines()
    equal(lines[:3], ["copied", "1770", "711"])
    contains(lines[3], "noexec")
    contains(lines[3], "size=1024k")
    contains(lines[4], " ro,")


@check("mounts that cannot be made are named, with the kernel's reason")
def mount_errors():
    for change, words in (
            (mounted("/mnt", "bind", "/nosuchsrc", "bind"), 'error mounting "/nosuchsrc" to rootfs at "/mnt": '),
            (mounted("/bin/busybox", "bind", "/tmp", "bind"), "not a directory"),
            (mounted("/mnt", "nosuchfs", "x"), "no such device"),
            (mounted("/mnt", "tmpfs", "tmpfs", "nosuchopt"), "data: nosuchopt: invalid argument")):
        done = ran("echo NEVER", change=change)
        equal(done.code, 1)
        contains(done.err, "unable to start container process: error during container init: error mounting ")
        contains(done.err, words)
        that("NEVER" not in done.out)


@check("nothing is mounted inside /proc but what engines are known to put there")
def mounts_in_proc():
    contains(ran("true", change=mounted("/proc/sys", "bind", "/etc", "bind")).err, "cannot be mounted because it is inside /proc")
    contains(ran("true", change=mounted("/proc", "bind", "/etc", "bind")).err, "cannot be mounted because it is not of type proc")
    equal(ran("cat /proc/cpuinfo", change=mounted("/proc/cpuinfo", "bind", "/etc/hostname", "bind")).ok().out, open("/etc/hostname").read())


@check("a mount's destination follows links inside the root only")
def destination_links():
    victim = tempfile.mkdtemp(dir=ROOT)
    def prepare(bundle):
        os.symlink(victim, f"{bundle.path}/rootfs/absolute")
        os.symlink("../../../../../../../.." + victim, f"{bundle.path}/rootfs/relative")
    change = all_of(mounted("/absolute/a", "tmpfs", "tmpfs"), mounted("/relative/b", "tmpfs", "tmpfs"))
    done = ran(f"grep -c {victim} /proc/mounts", change=change, prepare=prepare).ok()
    equal(done.out, "2\n", "both lie at that path inside")
    equal(os.listdir(victim), [], "and nothing was made outside")


@check("masked files read as empty, masked directories are empty, read-only paths are")
def hidden_paths():
    change = linux(maskedPaths=["/etc", "/proc/keys", "/nosuch"], readonlyPaths=["/tmp", "/nosuch"])
    def prepare(bundle):
        os.makedirs(f"{bundle.path}/rootfs/etc", exist_ok=True)
        with open(f"{bundle.path}/rootfs/etc/secret", "w") as file:
            file.write("secret")
        os.makedirs(f"{bundle.path}/rootfs/tmp", exist_ok=True)
    done = ran("ls /etc | wc -l; wc -c < /proc/keys; touch /tmp/x; touch /etc/x; echo done", change=change, prepare=prepare)
    equal(done.out.split(), ["0", "0", "done"])
    equal(done.err.count("Read-only file system"), 2)


@check("the mask of a path is no way to the host's null device")
def mask_owner():
    before = os.stat("/dev/null")
    ran("chown 1000:1000 /proc/keys; chmod 600 /proc/keys; true", change=linux(maskedPaths=["/proc/keys"])).ok()
    after = os.stat("/dev/null")
    equal((after.st_uid, after.st_gid, after.st_mode), (before.st_uid, before.st_gid, before.st_mode))


@check("a masked path does not follow a link that the image made of /dev/null")
def mask_link():
    if not OURS:
        checks.skip("CVE-2025-31133 is open in runc 1.1.5")
    target = tempfile.NamedTemporaryFile(dir=ROOT)
    def change(config):
        config["mounts"] = [mount for mount in config["mounts"] if not mount["destination"].startswith("/dev")]
        config["linux"]["maskedPaths"] = ["/proc/keys"]
    def prepare(bundle):
        shutil.rmtree(f"{bundle.path}/rootfs/dev", ignore_errors=True)
        os.mkdir(f"{bundle.path}/rootfs/dev")
        os.symlink("/proc/sys/kernel/core_pattern", f"{bundle.path}/rootfs/dev/null")
    done = ran("cat /proc/keys | wc -c", change=change, prepare=prepare)
    that(done.code != 0 or done.out == "0\n", done)
    target.close()


@check("a read-only root is read-only, its /dev and volumes are as they are given")
def read_only_root():
    done = ran("touch /x; touch /dev/x && echo dev", change=lambda config: config["root"].update(readonly=True)).ok()
    contains(done.err, "Read-only file system")
    equal(done.out, "dev\n")


@check("rootfsPropagation is what the root has")
def propagation():
    if OURS:  # runc 1.1 sets it before pivot_root, on the wrong mount
        equal(ran("head -1 /proc/self/mountinfo | grep -c shared:", change=linux(rootfsPropagation="shared")).out, "1\n")
    equal(ran("grep -cE 'shared:|master:' /proc/self/mountinfo", change=linux(rootfsPropagation="rprivate")).out, "0\n")


@check("devices have the numbers, modes and owners of config.json")
def devices():
    change = linux(devices=[{"path": "/dev/sub/mine", "type": "c", "major": 1, "minor": 5, "fileMode": 0o640, "uid": 3, "gid": 4}])
    line = ran("ls -ln /dev/sub/mine; ls -l /dev/fd /dev/ptmx | cut -d'>' -f2", change=change).ok().out.split()
    equal((line[0], line[2], line[3], line[4], line[5]), ("crw-r-----", "3", "4", "1,", "5"))
    equal(line[-2:], ["/proc/self/fd", "pts/ptmx"])


@check("without pivot_root the container is in its root, too")
def no_pivot():
    done = ran("ls / | head -20; grep -c . /proc/mounts", flags=["--no-pivot"]).ok()
    that("boot" not in done.out.split(), done)


# ---- the process ----

@check("user, groups, umask and HOME are the process's")
def identity():
    done = ran("id -u; id -g; id -G; umask; echo $HOME; grep CapEff /proc/self/status",
               change=process(user={"uid": 33, "gid": 34, "additionalGids": [5, 6], "umask": 0o077})).ok()
    lines = done.out.splitlines()
    equal(lines[:2], ["33", "34"])
    equal(sorted(lines[2].split()), ["34", "5", "6"])
    equal((lines[3], lines[4]), ("0077", "/"))
    equal(int(fields(done.out)["CapEff"], 16), 0)


@check("the five capability sets are as given, none when none are given")
def capabilities():
    sets = {name: ["CAP_CHOWN", "CAP_KILL"] for name in ("bounding", "effective", "permitted", "inheritable", "ambient")}
    got = fields(ran("grep Cap /proc/self/status", change=process(capabilities=sets, user={"uid": 33, "gid": 33})).ok().out)
    equal({int(got[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")}, {1 << 0 | 1 << 5})
    got = fields(ran("grep Cap /proc/self/status", change=lambda config: config["process"].pop("capabilities")).ok().out)
    equal({int(value, 16) for value in got.values()}, {0})


@check("limits, oom score, personality and names reach the process")
def attributes():
    change = all_of(process(rlimits=[{"type": "RLIMIT_NOFILE", "soft": 100, "hard": 200}], oomScoreAdj=300),
                    lambda config: config.update(hostname="inner"))
    equal(ran("ulimit -n; ulimit -Hn; cat /proc/self/oom_score_adj; hostname", change=change).ok().out.split(), ["100", "200", "300", "inner"])
    if OURS:
        change = all_of(linux(personality={"domain": "LINUX32"}), lambda config: config.update(domainname="domain"))
        equal(ran("uname -m; cat /proc/sys/kernel/domainname", change=change).ok().out.split(), ["i686", "domain"])


@check("a limit above the hard one is refused, and the program does not run")
def limit_refused():
    done = ran("echo NEVER", change=process(rlimits=[{"type": "RLIMIT_NOFILE", "soft": 1 << 40, "hard": 1 << 40}]))
    equal(done.code, 1)
    contains(done.err, "error setting rlimits for ready process: error setting rlimit type 7: operation not permitted")
    that("NEVER" not in done.out)


@check("sysctls of the container's namespaces are set, others refused")
def sysctls():
    equal(ran("cat /proc/sys/net/ipv4/ip_forward /proc/sys/kernel/shmmax",
              change=linux(sysctl={"net.ipv4.ip_forward": "1", "kernel.shmmax": "1234567"})).ok().out.split(), ["1", "1234567"])
    contains(ran("true", change=linux(sysctl={"kernel.panic": "1"})).err, 'sysctl "kernel.panic" is not in a separate kernel namespace')


@check("seccomp holds with and without no_new_privs")
def seccomp():
    profile = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 28}]}
    for no_new_privileges in (True, False):
        done = ran("mkdir /new; grep NoNewPrivs /proc/self/status", change=all_of(
            process(noNewPrivileges=no_new_privileges), linux(seccomp=profile)))
        contains(done.err, "No space left on device")
        equal(fields(done.out)["NoNewPrivs"], str(int(no_new_privileges)))


@check("a missing working directory is made, one that is a descriptor's is refused")
def working_directory():
    equal(ran("pwd", change=process(cwd="/new/dir")).ok().out, "/new/dir\n")
    for fd in range(3, 12):
        done = ran("echo NEVER; ls -ld ../../../../../boot", change=process(cwd=f"/proc/self/fd/{fd}"))
        that(done.code != 0 and "NEVER" not in done.out, done)


@check("preserved descriptors are there and no others")
def preserved():
    with Bundle("sh", "-c", "cat <&3; ls /proc/self/fd | tr '\\n' ' '") as bundle:
        with tempfile.TemporaryFile() as file:
            file.write(b"passed ")
            file.flush()
            file.seek(0)
            os.dup2(file.fileno(), 200)
            script = 'exec 3<&200 200<&-; exec "$@"'
            done = subprocess.run(["bash", "-c", script, "bash", *PROGRAM, "--root", f"{ROOT}/state", "run", "--preserve-fds", "1",
                                   "--bundle", bundle.path, "once"], stdin=subprocess.DEVNULL, capture_output=True, pass_fds=[200], timeout=60)
            os.close(200)
            equal(done.stdout.decode(), "passed 0 1 2 3 4 ", done.stderr)


@check("stdio belongs to the user, the null device never does")
def stdio_owner():
    before = os.stat("/dev/null")
    with tempfile.NamedTemporaryFile(dir=ROOT) as out:
        with Bundle("sh", "-c", "echo x > /dev/stdout", change=process(user={"uid": 1234, "gid": 1234})) as bundle:
            done = subprocess.run([*PROGRAM, "--root", f"{ROOT}/state", "run", "--bundle", bundle.path, "once"], stdin=subprocess.DEVNULL,
                                  stdout=out, stderr=subprocess.PIPE, timeout=60)
        equal(done.returncode, 0, done.stderr)
        if OURS:
            equal(os.fstat(out.fileno()).st_uid, 1234)
    equal(os.stat("/dev/null").st_uid, before.st_uid)


# ---- terminals ----

def console(arguments, change=None, write=None):
    """Creates with a terminal, and gives (output, size message's name)."""
    path = f"{ROOT}/console.sock"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        with created(*arguments, change=all_of(process(terminal=True), *([change] if change else [])), flags=["--console-socket", path], start=False):
            connection, _ = listener.accept()
            name, ancillary, _, _ = connection.recvmsg(64, socket.CMSG_SPACE(4))
            master = array.array("i", ancillary[0][2])[0]
            call("start", "c").ok()
            if write:
                os.write(master, write)
            output = b""
            with contextlib.suppress(OSError):
                while data := os.read(master, 4096):
                    output += data
            os.close(master)
            return output.decode(), name


@check("the console socket gets the terminal, in its size, and /dev/console is it")
def console_socket():
    output, name = console(["sh", "-c", "tty; stty size; ls -l /dev/console | cut -c1; test -t 0 -a -t 1 -a -t 2 && echo all"],
                           change=process(consoleSize={"height": 33, "width": 77}))
    equal(output.split(), ["/dev/pts/0", "33", "77", "c", "all"])
    that(len(name) >= 1)


@check("run and exec relay a terminal in the foreground")
def foreground_terminal():
    if RUNTIME == "runc":
        checks.skip("runc 1.1 may lose what is written to the terminal last")
    # The size comes a moment after the start.
    with Bundle("sh", "-c", "tty; until stty size 2>/dev/null; do sleep 0.05; done", change=process(terminal=True)) as bundle:
        done = checks.run_in_terminal(*PROGRAM, "--root", f"{ROOT}/state", "run", "--bundle", bundle.path, "once", rows=31, columns=71)
        equal(done.out.split(), ["/dev/pts/0", "31", "71"])
    with created("sleep", "1000"):
        done = checks.run_in_terminal(*PROGRAM, "--root", f"{ROOT}/state", "exec", "--tty", "c", "sh", "-c", "tty; exit 3")
        equal((done.out.split(), done.code), (["/dev/pts/0"], 3))


@check("a cgroup with another container's processes is refused, and they live on")
def shared_cgroup():
    with created("sleep", "1000", change=linux(cgroupsPath="/leash-oci-shared")) as pid:
        done = ran("true", change=linux(cgroupsPath="/leash-oci-shared"))
        if OURS:
            equal(done.code, 1)
            contains(done.err, "container's cgroup is not empty: 1 process(es) found")
        equal(json.loads(call("state", "c").ok().out)["status"], "running")
        that(os.path.exists(f"/proc/{pid}"))


@check("what cannot be applied is refused by its name, not left out")
def refused_fields():
    if not OURS:
        checks.skip("another runtime may apply it")
    for field, value in (("mountLabel", "system_u:object_r:container_file_t:s0"), ("intelRdt", {"closID": "x"})):
        done = ran("true", change=linux(**{field: value}))
        equal(done.code, 1)
        contains(done.err, f"linux.{field} is not supported")


@check("SIGKILL ends a paused container")
def kill_paused():
    with created("sleep", "1000"):
        call("pause", "c").ok()
        call("kill", "c", "KILL").ok()
        eventually(lambda: json.loads(call("state", "c").out)["status"] == "stopped", 5)


@check("a user that may read everything can start what only root may")
def executable_by_capability():
    def prepare(bundle):
        os.mkdir(f"{bundle.path}/rootfs/only-root")
        shutil.copy(f"{bundle.path}/rootfs/bin/busybox", f"{bundle.path}/rootfs/only-root/busybox")
        os.chmod(f"{bundle.path}/rootfs/only-root/busybox", 0o700)
    def change(names):
        def apply(config):
            config["process"].update(args=["/only-root/busybox", "true"], user={"uid": 1000, "gid": 1000},
                                     capabilities={kind: names for kind in ("bounding", "effective", "permitted")})
        return apply
    contains(ran("", prepare=prepare, change=change([])).err, "permission denied")
    ran("", prepare=prepare, change=change(["CAP_DAC_OVERRIDE"])).ok()


@check("a terminal without a console socket cannot be detached, a socket without a terminal is refused")
def terminal_errors():
    contains(ran("", change=process(terminal=True), flags=["--detach"]).err, "cannot allocate tty if ")
    contains(ran("", flags=["--console-socket", "/nosuch"]).err, "cannot use console socket if ")


@check("run's output through a terminal has the program's own newlines")
def own_newlines():
    if RUNTIME == "runc":
        checks.skip("runc 1.1 may lose what is written to the terminal last")
    equal(ran("echo one; echo two", change=process(terminal=True)).out, "one\ntwo\n")


# ---- hooks ----

def hook(script, **more):
    return {"path": "/bin/sh", "args": ["sh", "-c", script], "env": ["PATH=/usr/bin:/bin"], **more}


@check("all six kinds of hooks run, in order, with the state on stdin")
def hooks():
    trace = f"{ROOT}/trace"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(trace)
    outside = lambda name: [hook(f"echo {name} $(tr -d ' \\n\\t') >> {trace}")]
    kinds = {name: outside(name) for name in ("prestart", "createRuntime", "createContainer", "poststart", "poststop")}
    kinds["startContainer"] = [hook("echo startContainer > /trace")]
    equal(ran("cat /trace; sleep 0.3", change=lambda config: config.update(hooks=kinds)).ok().out, "startContainer\n")
    lines = open(trace).read().splitlines()
    equal([line.split()[0] for line in lines], ["prestart", "createRuntime", "createContainer", "poststart", "poststop"])
    states = [json.loads(line.split(None, 1)[1]) for line in lines]
    equal({state["id"] for state in states}, {"once"})
    equal(states[-1]["status"], "stopped")
    that(all(state["pid"] > 0 for state in states[:-1]), states)


@check("a hook that fails, is missing or takes too long stops the container; after its end it does not matter")
def failing_hooks():
    for kind, one, words in (
            ("prestart", hook("echo hookerr >&2; exit 4"), "error running hook #0: error running hook: exit status 4, stdout: , stderr: hookerr"),
            ("createRuntime", {"path": "/nosuchhook"}, "error running hook #0: fork/exec /nosuchhook: no such file or directory"),
            ("createContainer", hook("sleep 20", timeout=1), "hook ran past specified timeout of 1.0s"),
            ("startContainer", hook("exit 5"), "exit status 5"),
            ("poststart", hook("exit 6"), "exit status 6")):
        done = ran("sleep 0.5; echo LATE", change=lambda config: config.update(hooks={kind: [one]}))
        equal(done.code, 1, kind)
        contains(done.err, words)
        that("LATE" not in done.out, kind)
    done = ran("echo fine", change=lambda config: config.update(hooks={"poststop": [hook("exit 7")]})).ok()
    equal((done.out, done.err), ("fine\n", ""))


# ---- self-protection ----

@check("the runtime's own file cannot be written through /proc from inside (CVE-2019-5736)")
def own_binary():
    def prepare(bundle):
        with open(f"{bundle.path}/rootfs/evil", "w") as file:
            file.write("#!/proc/self/exe\n")
        os.chmod(f"{bundle.path}/rootfs/evil", 0o755)
    binary = PROGRAM[0]
    before = os.stat(binary)
    with created("sh", "-c", "while :; do for p in /proc/[0-9]*; do [ $p = /proc/1 ] || echo x 2>/dev/null >> $p/exe && echo WRITTEN >> /written; done; done",
                 change=lambda config: config["process"]["capabilities"].update(
                     {name: config["process"]["capabilities"][name] + ["CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH"] for name in ("bounding", "effective", "permitted")})):
        for _ in range(20):
            call("exec", "c", "true")
    after = os.stat(binary)
    equal((after.st_size, after.st_mtime_ns), (before.st_size, before.st_mtime_ns))


@check("a process that enters cannot be looked into from inside")
def not_dumpable():
    if not OURS:
        checks.skip("runc's waiting init can be read by root inside")
    with created("sleep", "1000", start=False):
        equal(call("exec", "c", "sh", "-c", "cat /proc/1/environ >/dev/null && echo readable; true").out, "")


if __name__ == "__main__":
    try:
        checks.main()
    finally:
        shutil.rmtree(ROOT, ignore_errors=True)
