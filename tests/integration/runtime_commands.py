"""The runtime's own command line, without an engine: what engines call, and the exact words and codes that they
decide by. RUNTIME=runc checks the same contract against runc; what only ours promises is marked leashed."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import checks
from bundle import Bundle
from checks import BIN, RUNTIME, check, contains, equal, eventually, run, skip, that

IS_OURS = RUNTIME.startswith("leash")
ROOT = tempfile.mkdtemp(prefix="leash-commands-", dir="/run")
PROGRAM = [f"{BIN}/leash-runtime", "--policy", "none"] if IS_OURS else [shutil.which(RUNTIME) or RUNTIME]
# Error texts begin with the name of the program that made them.
NAME = "leash-runtime" if IS_OURS else RUNTIME
COUNT = 0


def runtime(*arguments, **options):
    return run(*PROGRAM, "--root", ROOT, *arguments, **options)


def error_of(*arguments, code=1, **options):
    """The message of the one JSON object that a failing command writes to its log."""
    log = f"{ROOT}.log"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(log)
    done = run(*PROGRAM, "--root", ROOT, "--log", log, "--log-format", "json", *arguments, **options)
    equal(done.code, code, done)
    with open(log) as file:
        lines = [json.loads(line) for line in file if line.strip()]
    errors = [line for line in lines if line["level"] == "error"]
    equal(len(errors), 1, lines)
    if IS_OURS:
        equal(len(lines), 1, "podman parses the whole file as one object", lines)
    that(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", errors[0]["time"]), errors[0])
    contains(done.err, errors[0]["msg"].strip().split("\n")[0])
    return errors[0]["msg"].strip()


class Running:
    """A created, and by default started, container; gone at the end of the with statement."""

    def __init__(self, *arguments, change=None, start=True):
        global COUNT
        COUNT += 1
        self.id = f"commands-{os.getpid()}-{COUNT}"

        def adjust(config):
            config["linux"]["cgroupsPath"] = f"/leash-test/{self.id}"
            if change:
                change(config)

        self.bundle = Bundle(*(arguments or ("sleep", "600")), change=adjust)
        self.pid_file = f"{self.bundle.path}/pid"
        create = runtime_to_files(self.bundle.path, "create", "--bundle", self.bundle.path, "--pid-file", self.pid_file, self.id)
        equal(create[0], 0, create[1])
        if start:
            runtime("start", self.id).ok()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        runtime("delete", "--force", self.id)
        shutil.rmtree(self.bundle.path, ignore_errors=True)

    def state(self):
        return json.loads(runtime("state", self.id).ok().out)

    def pid(self):
        return int(open(self.pid_file).read())

    def cgroup_file(self, controller, v1, v2=None):
        """The text of a file of the container's cgroup, wherever this machine has it."""
        for line in open(f"/proc/{self.pid()}/cgroup"):
            number, controllers, path = line.strip().split(":", 2)
            if controller in controllers.split(","):
                return open(f"/sys/fs/cgroup/{controllers}{path}/{v1}").read().strip()
        path = [line for line in open(f"/proc/{self.pid()}/cgroup") if line.startswith("0::")][0].strip()[3:]
        return open(f"/sys/fs/cgroup{path}/{v2 or v1}").read().strip()


def runtime_to_files(directory, *arguments):
    """For create: the container keeps its stdio, so a pipe would not end. The exit code and what was said."""
    with open(f"{directory}/said", "w+") as said:
        code = subprocess.run([*PROGRAM, "--root", ROOT, *arguments], stdin=subprocess.DEVNULL, stdout=said, stderr=said, timeout=60).returncode
        said.seek(0)
        return code, said.read()


# ---- the life of a container ----

@check("an unknown container does not exist, in every command's words")
def _():
    for command in (["state"], ["start"], ["kill"], ["delete"], ["pause"], ["resume"], ["ps"], ["events", "--stats"], ["update", "--memory", "100000000"]):
        equal(error_of(*command, "nope"), "container does not exist", command)
    equal(error_of("exec", "nope", "true", code=255), "exec failed: container does not exist")
    done = runtime("delete", "--force", "nope")
    equal((done.code, done.out, done.err), (0, "", ""))


@check("create, start, state, kill and delete go the whole way with the states that engines know")
def _():
    with Running(start=False) as container:
        that(re.fullmatch(rb"[1-9][0-9]*", open(container.pid_file, "rb").read()), "the pid file has digits and nothing else")
        state = container.state()
        equal((state["status"], state["pid"], state["id"]), ("created", container.pid(), container.id))
        equal(state["rootfs"], f"{container.bundle.path}/rootfs")
        equal(state["bundle"], container.bundle.path)
        equal(state["owner"], "")
        runtime("start", container.id).ok()
        equal(container.state()["status"], "running")
        equal(error_of("start", container.id), "cannot start an already running container")
        equal(error_of("delete", container.id), f"cannot delete container {container.id} that is not stopped: running")
        runtime("kill", container.id, "9").ok()
        eventually(lambda: container.state()["status"] == "stopped")
        equal(container.state()["pid"], 0)
        equal(error_of("start", container.id), "cannot start a container that has stopped")
        equal(error_of("kill", container.id), "container not running")
        runtime("kill", "--all", container.id, "9").ok()
        runtime("delete", container.id).ok()
        equal(error_of("state", container.id), "container does not exist")


@check("a waiting init holds no descriptor of its caller but the first three")
def _():
    with open("/dev/null") as extra, Bundle("true") as bundle:
        os.set_inheritable(extra.fileno(), True)
        name = f"commands-fd-{os.getpid()}"
        with open(f"{bundle.path}/said", "w") as said:
            subprocess.run([*PROGRAM, "--root", ROOT, "create", "--bundle", bundle.path, "--pid-file", f"{bundle.path}/pid", name],
                           stdin=subprocess.DEVNULL, stdout=said, stderr=said, pass_fds=[extra.fileno()], check=True, timeout=30)
        try:
            pid = open(f"{bundle.path}/pid").read()
            links = {fd: os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd") if int(fd) > 2}
            that(not any(link == "/dev/null" for link in links.values()), links)
        finally:
            runtime("delete", "--force", name)


@check("an id is taken once, and is a plain word")
def _():
    with Running() as container:
        equal(error_of("create", "--bundle", container.bundle.path, container.id),
              f"{NAME} create failed: container with given ID already exists")
    with Bundle("true") as bundle:
        for bad in ("../x", "a/b", ".", "..", "a b"):
            equal(error_of("run", "--bundle", bundle.path, bad), f"{NAME} run failed: invalid container ID format")


@check("what cannot be run is named in the words that become 126 and 127")
def _():
    start = "unable to start container process: exec: "
    for words, reason in ((["nosuchcmd"], '"nosuchcmd": executable file not found in $PATH'),
                          (["/nosuch"], '"/nosuch": stat /nosuch: no such file or directory'),
                          (["/etc"], '"/etc": permission denied')):
        with Bundle(*words) as bundle:
            os.makedirs(f"{bundle.path}/rootfs/etc", exist_ok=True)
            contains(error_of("run", "--bundle", bundle.path, f"commands-x-{os.getpid()}"), start + reason)
    with Running() as container:
        equal(error_of("exec", container.id, "nosuchcmd", code=255), f'exec failed: {start}"nosuchcmd": executable file not found in $PATH')


@check("run and exec answer with the command's own code, and 128 + N for signal N")
def _():
    for script, code in (("exit 0", 0), ("exit 77", 77), ("exit 255", 255), ("kill -9 $$", 137 if IS_OURS else None)):
        with Running() as container:
            if code is not None:
                equal(runtime("exec", container.id, "sh", "-c", script).code, code)
    with Bundle("sh", "-c", "exit 42") as bundle:
        equal(runtime("run", "--bundle", bundle.path, f"commands-r-{os.getpid()}").code, 42)


# ---- what is asked of a running one ----

@check("ps lists the host's pids as JSON, and the host's lines as a table")
def _():
    with Running("sh", "-c", "sleep 601 & sleep 602 & wait") as container:
        pids = eventually(lambda: (lambda got: got if len(got) == 3 else None)(json.loads(runtime("ps", "--format", "json", container.id).ok().out)))
        that(container.pid() in pids, pids)
        lines = runtime("ps", container.id).ok().out.splitlines()
        contains(lines[0], "PID")
        equal(len(lines), 4, lines)
        contains("\n".join(lines), "sleep 602")
        lines = runtime("ps", "--format", "table", container.id, "-e", "-o", "pid,comm").ok().out.splitlines()
        equal((lines[0].split(), len(lines)), (["PID", "COMMAND"], 4))
        runtime("kill", container.id, "KILL").ok()
        eventually(lambda: container.state()["status"] == "stopped")
        # init is gone, its children may still be on their way out
        eventually(lambda: runtime("ps", "--format", "json", container.id).ok().out.strip() == "null", 5)


@check("a paused container does not run, refuses exec, and goes on when resumed")
def _():
    with Running("sh", "-c", "while :; do date +%s%N > /tick; sleep 0.02; done") as container:
        tick = f"{container.bundle.path}/rootfs/tick"
        eventually(lambda: os.path.exists(tick) and os.path.getsize(tick))
        runtime("pause", container.id).ok()
        equal(container.state()["status"], "paused")
        before = open(tick).read()
        time.sleep(0.2)
        equal(open(tick).read(), before)
        equal(error_of("pause", container.id), "container not running")
        equal(error_of("exec", container.id, "true", code=255), "exec failed: cannot exec in a paused container (use --ignore-paused to override)")
        runtime("resume", container.id).ok()
        eventually(lambda: open(tick).read() not in ("", before))
        equal(error_of("resume", container.id), "container not paused")
        runtime("pause", container.id).ok()
        runtime("delete", "--force", container.id).ok()


@check("update changes what is named, by flags, by a file and by both spellings of stdin, and keeps the rest")
def _():
    with Running() as container:
        runtime("update", "--memory", "64m", "--pids-limit", "33", "--cpu-share", "700", container.id).ok()
        memory = lambda: container.cgroup_file("memory", "memory.limit_in_bytes", "memory.max")
        pids = lambda: container.cgroup_file("pids", "pids.max")
        equal((memory(), pids()), (str(64 << 20), "33"))
        runtime("update", "--resources", "-", container.id, stdin='{"memory":{"limit":50331648}}').ok()
        equal((memory(), pids()), (str(48 << 20), "33"))
        runtime("update", "--resources=-", container.id, stdin='{"pids":{"limit":-1}}').ok()
        equal((memory(), pids()), (str(48 << 20), "max"))
        with open(f"{container.bundle.path}/resources", "w") as file:
            json.dump({"pids": {"limit": 44}}, file)
        runtime("update", "-r", f"{container.bundle.path}/resources", container.id).ok()
        equal(pids(), "44")
        runtime("kill", container.id, "9").ok()
        eventually(lambda: container.state()["status"] == "stopped")
        equal(error_of("update", "--pids-limit", "5", container.id), "container not running")


@check("a memory limit below what is in use is refused with the numbers")
def _():
    if not os.path.exists("/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        skip("cgroup v1's rule: v2 takes any limit and kills")
    with Running() as container:
        text = error_of("update", "--memory", "1", container.id) if IS_OURS else runtime("update", "--memory", "1", container.id).err
        contains(text, "unable to set memory limit to 1 (current usage: ")


@check("events shows what a container uses, and each kill of the OOM killer")
def _():
    with Running(change=lambda config: config["linux"]["resources"].update(memory={"limit": 32 << 20, "swap": 32 << 20})) as container:
        stats = json.loads(runtime("events", "--stats", container.id).ok().out)
        equal((stats["type"], stats["id"]), ("stats", container.id))
        that(stats["data"]["pids"]["current"] >= 1 and stats["data"]["memory"]["usage"]["limit"] == 32 << 20, stats)
        that({"cpu", "cpuset", "memory", "pids", "blkio", "hugetlb", "intel_rdt", "network_interfaces"} <= set(stats["data"]), stats)
        follower = subprocess.Popen([*PROGRAM, "--root", ROOT, "events", "--interval", "100ms", container.id], stdout=subprocess.PIPE, text=True)
        try:
            that(json.loads(follower.stdout.readline())["type"] == "stats")
            equal(runtime("exec", container.id, "sh", "-c", "x=a; while :; do x=$x$x$x$x; done").code, 137)
            lines = []
            while {"type": "oom", "id": container.id} not in lines:
                lines.append(json.loads(follower.stdout.readline()))
                that(len(lines) < 100, "no oom line among a hundred")
            runtime("kill", container.id, "9").ok()
            eventually(lambda: container.state()["status"] == "stopped")
            equal(error_of("events", "--stats", container.id), f"container with id {container.id} is not running")
            runtime("delete", container.id).ok()
            equal(follower.wait(timeout=20), 0)
        finally:
            follower.kill()
            follower.stdout.close()


@check("list is null without containers, else a table or JSON, and ids alone with -q")
def _():
    equal(runtime("list", "--format", "json").ok().out.strip(), "null")
    equal(runtime("list").ok().out.split(), ["ID", "PID", "STATUS", "BUNDLE", "CREATED", "OWNER"])
    with Running() as container:
        equal(runtime("list", "-q").ok().out.split(), [container.id])
        [entry] = json.loads(runtime("list", "--format=json").ok().out)
        equal((entry["id"], entry["status"], entry["pid"], entry["owner"]), (container.id, "running", container.pid(), "root"))
        header, line = runtime("list").ok().out.splitlines()
        equal(line.split()[:4], [container.id, str(container.pid()), "running", container.bundle.path])
        equal(header.index("STATUS"), line.index("running"))


@check("spec writes a config.json that is not there yet")
def _():
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        runtime("spec", "--bundle", directory).ok()
        with open(f"{directory}/config.json") as file:
            config = json.load(file)
        equal(config["process"]["args"], ["sh"])
        contains(error_of("spec", "--bundle", directory), "config.json exists. Remove it first")
        os.unlink(f"{directory}/config.json")
        runtime("spec", "-b", directory, "--rootless").ok()
        with open(f"{directory}/config.json") as file:
            config = json.load(file)
        that({"type": "user"} in config["linux"]["namespaces"] and config["linux"]["uidMappings"], config["linux"])


@check("features and --version say what engines look for")
def _():
    features = json.loads(runtime("features").ok().out)
    equal(features["ociVersionMin"], "1.0.0")
    that({"prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"} <= set(features["hooks"]), features["hooks"])
    contains(features["mountOptions"], "rro")
    contains(features["linux"]["namespaces"], "network")
    that(features["linux"]["seccomp"]["enabled"] and features["linux"]["cgroup"]["v1"] and features["linux"]["cgroup"]["v2"], features["linux"])
    version = runtime("--version").ok().out
    contains(version.splitlines()[0], f"{NAME} version ")
    contains(version, "\nspec: 1.")


# ---- what a config.json confines ----

@check("capabilities, limits, no_new_privs and the oom score are those of config.json")
def _():
    def change(config):
        keep = ["CAP_KILL", "CAP_CHOWN", "CAP_NO_SUCH_THING"]
        config["process"].update(capabilities={name: keep for name in ("bounding", "effective", "permitted")}, oomScoreAdj=123,
                                 rlimits=[{"type": "RLIMIT_NOFILE", "soft": 77, "hard": 99}])
    with Running(change=change) as container:
        status = dict(line.split(":\t", 1) for line in open(f"/proc/{container.pid()}/status").read().splitlines() if ":\t" in line)
        for name, value in (("CapBnd", 0x21), ("CapEff", 0x21), ("CapPrm", 0x21), ("CapInh", 0), ("CapAmb", 0), ("NoNewPrivs", 1)):
            equal(int(status[name], 16), value, name)
        equal(open(f"/proc/{container.pid()}/oom_score_adj").read().strip(), "123")
        limits = [line.split() for line in open(f"/proc/{container.pid()}/limits") if line.startswith("Max open files")][0]
        equal(limits[3:5], ["77", "99"])


@check("a device that config.json does not allow cannot be opened, one that it allows can")
def _():
    def change(config):
        config["process"]["capabilities"] = {name: ["CAP_MKNOD", "CAP_SYSLOG"] for name in ("bounding", "effective", "permitted")}
        config["linux"]["resources"]["devices"] = [{"allow": False, "access": "rwm"}, {"allow": True, "type": "c", "major": 1, "minor": 11, "access": "rm"}]
    with Running(change=change) as container:
        inside = lambda script: runtime("exec", container.id, "sh", "-c", script)
        inside("mknod /dev/k c 1 11 && mknod /dev/m c 1 1 && exec 3</dev/k && : >/dev/null").ok()
        contains(inside("exec 3>/dev/k").err, "Operation not permitted")
        contains(inside("exec 3</dev/m").err, "Operation not permitted")


@check("seccomp: what the profile denies is EPERM, what it cannot know is ENOSYS")
def _():
    def change(config):
        config["linux"]["seccomp"] = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdir", "mkdirat", "no_such_call"], "action": "SCMP_ACT_ERRNO"}]}
    with Running(change=change) as container:
        contains(runtime("exec", container.id, "mkdir", "/x").err, "Operation not permitted")
        runtime("exec", container.id, "touch", "/x").ok()
    def unknown_action(config):
        config["linux"]["seccomp"] = {"defaultAction": "SCMP_ACT_NOSUCH"}
    with Bundle("true", change=unknown_action) as bundle:
        equal(error_of("run", "--bundle", bundle.path, f"commands-s-{os.getpid()}"),
              f"{NAME} run failed: string SCMP_ACT_NOSUCH is not a valid action for seccomp")


@check("a config.json that contradicts itself is refused before anything is made")
def _():
    def error(change):
        with Bundle("true", change=change) as bundle:
            return error_of("create", "--bundle", bundle.path, f"commands-c-{os.getpid()}").removeprefix(f"{NAME} create failed: ")
    drop = lambda kind: lambda config: config["linux"].update(namespaces=[n for n in config["linux"]["namespaces"] if n["type"] != kind])
    equal(error(lambda config: config.pop("process")), "process property must not be empty")
    equal(error(lambda config: config["process"].update(args=[])), "args must not be empty")
    equal(error(drop("uts")), "unable to set hostname without a private UTS namespace")
    equal(error(lambda config: config["linux"]["namespaces"].append({"type": "pid"})), 'malformed spec file: duplicated ns {"pid" ""}')
    equal(error(lambda config: config["linux"].update(sysctl={"kernel.nosuch": "1"})), 'sysctl "kernel.nosuch" is not in a separate kernel namespace')
    equal(error(lambda config: config["process"].update(rlimits=[{"type": "RLIMIT_NOSUCH", "soft": 1, "hard": 1}])), "wrong rlimit value: RLIMIT_NOSUCH")
    if IS_OURS:
        equal(error(lambda config: config["linux"]["namespaces"].append({"type": 7})), "linux.namespaces[5].type: expected a string, found a number")
    equal(runtime("list", "-q").ok().out, "")


@check("nothing is left of the containers of this test")
def _():
    equal(runtime("list", "-q").ok().out, "")
    left = run("sh", "-c", "find /sys/fs/cgroup -maxdepth 4 -type d -path '*/leash-test/commands-*'").out
    equal(left, "")


if __name__ == "__main__":
    try:
        checks.main()
    finally:
        shutil.rmtree(ROOT, ignore_errors=True)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{ROOT}.log")
        for directory in run("sh", "-c", "find /sys/fs/cgroup -maxdepth 3 -type d -name leash-test").out.split():
            with contextlib.suppress(OSError):
                os.rmdir(directory)
