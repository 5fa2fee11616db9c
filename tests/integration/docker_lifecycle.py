#!/usr/bin/env python3
"""Docker's whole life of a container, through the real engine: the common contract, true for runc too."""

import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from checks import *


@check("docker run prints what the process writes to stdout and stderr")
def _():
    ran = docker_run(BUSYBOX, "sh", "-c", "echo out; echo err >&2").ok()
    equal((ran.out, ran.err), ("out\n", "err\n"))


@check("docker run -i gives stdin to the process until its end of file")
def _():
    equal(docker_run("-i", BUSYBOX, "wc", "-c", stdin="12345").ok().out.strip(), "5")


@check("docker run -it has a terminal with the size of the caller's")
def _():
    ran = docker_in_terminal("run", "--rm", "--runtime", RUNTIME, "-it", BUSYBOX, "sh", "-c", "tty; sleep 0.3; stty size", rows=33, columns=99).ok()
    contains(ran.out, "/dev/pts/0")
    contains(ran.out, "33 99")


@check("exit codes of the process come back as they are")
def _():
    for code in (0, 1, 2, 42, 77, 124, 128, 137, 200, 254, 255):
        equal(docker_run(BUSYBOX, "sh", "-c", f"exit {code}").code, code)


@check("a process that a signal kills gives 128 + its number")
def _():
    equal(docker_run(BUSYBOX, "sh", "-c", "sh -c 'kill -SEGV $$'; exit $?").code, 139)
    with Container(BUSYBOX, "sleep", "60") as container:
        docker("kill", "-s", "KILL", container.id).ok()
        equal(docker("wait", container.id).ok().out.strip(), "137")


@check("a command that is not in PATH is 127 and says so")
def _():
    ran = docker_run(BUSYBOX, "no-such-command")
    equal(ran.code, 127, ran)
    contains(ran.err, "executable file not found in $PATH")


@check("a missing absolute path is 127")
def _():
    ran = docker_run(BUSYBOX, "/no/such/file")
    equal(ran.code, 127, ran)
    contains(ran.err, "no such file or directory")


@check("a file that may not be executed is 126")
def _():
    ran = docker_run(BUSYBOX, "/etc/passwd")
    equal(ran.code, 126, ran)
    contains(ran.err, "permission denied")


@check("a runtime error that is neither is 125")
def _():
    ran = docker_run("--sysctl", "net.ipv4.no_such_key=1", BUSYBOX, "true")
    equal(ran.code, 125 if "no such file" not in ran.err else 127, ran)
    ran = docker_run("--cgroup-parent", "/proc/self/no", "--cpuset-cpus", "9999", BUSYBOX, "true")
    equal(ran.code, 125, ran)


@check("docker run -d, logs, wait: the output is kept and the code is known")
def _():
    with Container(BUSYBOX, "sh", "-c", "echo one; echo two >&2; exit 7") as container:
        equal(docker("wait", container.id).ok().out.strip(), "7")
        ran = docker("logs", container.id).ok()
        equal((ran.out, ran.err), ("one\n", "two\n"))


@check("docker exec runs beside the main process, in its namespaces")
def _():
    with Container("--hostname", "inside", BUSYBOX, "sleep", "60") as container:
        equal(container.exec("hostname").ok().out, "inside\n")
        contains(container.exec("ps").ok().out, "sleep 60")
        equal(container.exec("cat", flags=["-i"], stdin="hello").ok().out, "hello")


@check("docker exec -it has a terminal")
def _():
    with Container(BUSYBOX, "sleep", "60") as container:
        ran = docker_in_terminal("exec", "-it", container.id, "tty").ok()
        contains(ran.out, "/dev/pts/")


@check("docker exec -u, -w and -e set user, directory and environment")
def _():
    with Container(BUSYBOX, "sleep", "60") as container:
        ran = container.exec("sh", "-c", "id -u; id -g; pwd; echo $NEW", flags=["-u", "1000:1000", "-w", "/tmp", "-e", "NEW=value"]).ok()
        equal(ran.out.split(), ["1000", "1000", "/tmp", "value"])
        equal(container.exec("id", "-G", flags=["-u", "user"]).ok().out.strip(), "1000 2000")


@check("docker exec -d returns at once and the command goes on")
def _():
    with Container(BUSYBOX, "sleep", "60") as container:
        ran = container.exec("sh", "-c", "sleep 0.3; echo done >/tmp/file", flags=["-d"]).ok()
        eventually(lambda: container.exec("cat", "/tmp/file").out == "done\n")


@check("docker exec gives the command's code, and 126 or 127 when it cannot run")
def _():
    with Container(BUSYBOX, "sleep", "60") as container:
        equal(container.exec("sh", "-c", "exit 41").code, 41)
        that(container.exec("no-such-command").code in (126, 127))
        equal(container.exec("/etc/passwd").code, 126)
        equal(container.inspect("{{.State.Running}}"), "true")


@check("docker top lists the processes with the caller's ps columns")
def _():
    with Container(BUSYBOX, "sleep", "61") as container:
        contains(docker("top", container.id).ok().out, "sleep 61")
        contains(docker("top", container.id, "-o", "pid,comm").ok().out, "sleep")


@check("docker stats sees memory and pids")
def _():
    with Container(BUSYBOX, "sleep", "60") as container:
        ran = docker("stats", "--no-stream", "--format", "{{.MemUsage}}|{{.PIDs}}", container.id).ok()
        memory, pids = ran.out.strip().split("|")
        that(not memory.startswith("0B"), ran)
        equal(pids, "1")


@check("docker pause stops the processes and unpause lets them go on")
def _():
    with Container(BUSYBOX, "sh", "-c", "while :; do echo tick; sleep 0.05; done") as container:
        docker("pause", container.id).ok()
        equal(container.inspect("{{.State.Status}}"), "paused")
        before = len(docker("logs", container.id).out)
        time.sleep(0.3)
        equal(len(docker("logs", container.id).out), before)
        that(container.exec("true").code != 0, "exec into a paused container worked")
        docker("unpause", container.id).ok()
        eventually(lambda: len(docker("logs", container.id).out) > before)


@check("docker update changes the limits of a running container")
def _():
    with Container("-m", "64m", BUSYBOX, "sleep", "60") as container:
        equal(cgroup_file(container.pid(), "memory", "memory.limit_in_bytes", "memory.max"), str(64 << 20))
        docker("update", "-m", "96m", "--memory-swap", "96m", container.id).ok()
        equal(cgroup_file(container.pid(), "memory", "memory.limit_in_bytes", "memory.max"), str(96 << 20))


@check("docker stop sends TERM first and KILL when it is ignored")
def _():
    with Container(BUSYBOX, "sh", "-c", "trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done") as container:
        eventually(lambda: "ready" in docker("logs", container.id).out)
        docker("stop", container.id).ok()
        equal(container.inspect("{{.State.ExitCode}}"), "9")
    with Container(BUSYBOX, "sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done") as container:
        eventually(lambda: "ready" in docker("logs", container.id).out)
        docker("stop", "-t", "1", container.id).ok()
        equal(container.inspect("{{.State.ExitCode}}"), "137")


@check("docker kill -s delivers the signal that is named")
def _():
    with Container(BUSYBOX, "sh", "-c", "trap 'echo got' USR1; echo ready; while :; do sleep 0.05; done") as container:
        eventually(lambda: "ready" in docker("logs", container.id).out)
        docker("kill", "-s", "USR1", container.id).ok()
        eventually(lambda: "got" in docker("logs", container.id).out)


@check("docker restart keeps the file system and makes a new process")
def _():
    with Container(BUSYBOX, "sh", "-c", "date +%s%N >>/tmp/starts; sleep 60") as container:
        first = container.pid()
        docker("restart", "-t", "0", container.id).ok()
        that(container.pid() != first)
        eventually(lambda: len(container.exec("cat", "/tmp/starts").out.split()) == 2)


@check("docker cp copies in both directions")
def _():
    with Container(BUSYBOX, "sleep", "60") as container, tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/a", "w") as file:
            file.write("in")
        docker("cp", f"{folder}/a", f"{container.id}:/tmp/b").ok()
        equal(container.exec("cat", "/tmp/b").ok().out, "in")
        docker("cp", f"{container.id}:/etc/passwd", f"{folder}/c").ok()
        contains(open(f"{folder}/c").read(), "root:x:0:0")


@check("--init puts docker's init in front, which reaps orphans")
def _():
    with Container("--init", BUSYBOX, "sleep", "60") as container:
        contains(container.exec("cat", "/proc/1/cmdline").ok().out, "docker-init")
        container.sh("(sleep 0.1 &)").ok()
        eventually(lambda: "sleep 0.1" not in container.exec("ps").out and " Z " not in container.exec("ps", "-o", "stat").out)


@check("--read-only refuses writes to the root and leaves tmpfs writable")
def _():
    ran = docker_run("--read-only", "--tmpfs", "/scratch", BUSYBOX, "sh", "-c", "touch /file 2>&1; touch /scratch/file && echo scratch")
    contains(ran.out, "Read-only file system")
    contains(ran.out, "scratch")


@check("--tmpfs has the size and the mode that were asked for")
def _():
    ran = docker_run("--tmpfs", "/t:size=1m,mode=1770", BUSYBOX, "sh", "-c", "stat -c %a /t; df -k /t | tail -1 | awk '{print $2}'").ok()
    equal(ran.out.split(), ["1770", "1024"])


@check("-v binds a host folder, and :ro makes it read-only")
def _():
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        docker_run("-v", f"{folder}:/host", BUSYBOX, "sh", "-c", "echo written >/host/file").ok()
        equal(open(f"{folder}/file").read(), "written\n")
        ran = docker_run("-v", f"{folder}:/host:ro", BUSYBOX, "sh", "-c", "cat /host/file; echo x >/host/file")
        that(ran.code != 0 and "Read-only" in ran.err, ran)
        equal(ran.out, "written\n")


@check("a named volume keeps its files from one container to the next")
def _():
    docker("volume", "create", "leash-test-volume").ok()
    try:
        docker_run("-v", "leash-test-volume:/data", BUSYBOX, "sh", "-c", "echo kept >/data/file").ok()
        equal(docker_run("-v", "leash-test-volume:/data", BUSYBOX, "cat", "/data/file").ok().out, "kept\n")
    finally:
        docker("volume", "rm", "-f", "leash-test-volume")


@check("-p makes a port reachable from the host and from other machines")
def _():
    server = "while :; do printf 'HTTP/1.0 200 OK\\r\\n\\r\\nserved\\n' | nc -l -p 8000 >/dev/null; done"
    with Container("-p", "18000:8000", BUSYBOX, "sh", "-c", server) as container:
        for namespace in (f"{LAB}-engine", f"{LAB}-internet"):
            for address in ("203.0.113.1",) + (("127.0.0.1",) if namespace.endswith("engine") else ()):
                last = []
                def served():
                    ran = run("nsenter", f"--net=/run/netns/{namespace}", "curl", "-sm", "3", f"http://{address}:18000/", env={"no_proxy": "*"})
                    last[:] = [ran]
                    return ran.out == "served\n"
                try:
                    eventually(served, 8)
                except Failed:
                    that(False, f"from {namespace}", *last)


@check("--user runs as that user, by number and by name, with its groups")
def _():
    equal(docker_run("--user", "1234:4321", BUSYBOX, "sh", "-c", "id -u; id -g").ok().out.split(), ["1234", "4321"])
    equal(docker_run("--user", "user", BUSYBOX, "sh", "-c", "id -u; id -G").ok().out, "1000\n1000 2000\n")
    equal(docker_run("--user", "user", "--group-add", "77", BUSYBOX, "id", "-G").ok().out, "1000 77 2000\n")


@check("--cap-drop and --cap-add change the five sets")
def _():
    def sets(*flags):
        out = docker_run(*flags, BUSYBOX, "grep", "Cap", "/proc/self/status").ok().out
        return {line.split(":")[0]: int(line.split()[1], 16) for line in out.splitlines()}
    default = sets()
    dropped = sets("--cap-drop", "ALL")
    equal([dropped[k] for k in ("CapPrm", "CapEff", "CapBnd")], [0, 0, 0])
    that(default["CapBnd"] & (1 << 0), default)
    without = sets("--cap-drop", "CHOWN")
    equal(default["CapEff"] & ~without["CapEff"], 1)
    user = sets("--user", "1000")
    equal(user["CapEff"], 0)
    ran = docker_run("--cap-drop", "CHOWN", BUSYBOX, "chown", "1:1", "/tmp")
    contains(ran.err, "Operation not permitted")


@check("--security-opt no-new-privileges is set")
def _():
    contains(docker_run("--security-opt", "no-new-privileges", BUSYBOX, "grep", "NoNewPrivs", "/proc/self/status").ok().out, "1")
    contains(docker_run(BUSYBOX, "grep", "Seccomp:", "/proc/self/status").ok().out, "2")


@check("a process over --memory is killed: 137 and OOMKilled")
def _():
    with Container("-m", "16m", "--memory-swap", "16m", BUSYBOX, "sh", "-c", "dd if=/dev/zero of=/dev/null bs=64M count=10") as container:
        equal(docker("wait", container.id).ok().out.strip(), "137")
        eventually(lambda: container.inspect("{{.State.OOMKilled}}") == "true", 5, "OOMKilled stays false")


@check("--pids-limit, --cpu-shares and --cpuset-cpus reach the cgroup")
def _():
    with Container("--pids-limit", "33", "--cpuset-cpus", "0", "--cpu-shares", "512", BUSYBOX, "sleep", "60") as container:
        equal(cgroup_file(container.pid(), "pids", "pids.max", "pids.max"), "33")
        equal(cgroup_file(container.pid(), "cpuset", "cpuset.cpus", "cpuset.cpus"), "0")
        equal(cgroup_file(container.pid(), "cpu", "cpu.shares", None), "512")


@check("--ulimit sets soft and hard limits")
def _():
    ran = docker_run("--ulimit", "nofile=123:456", "--ulimit", "core=0", BUSYBOX, "sh", "-c", "ulimit -Sn; ulimit -Hn; ulimit -c").ok()
    equal(ran.out.split(), ["123", "456", "0"])


@check("--sysctl is set in the container's namespaces")
def _():
    ran = docker_run("--sysctl", "net.ipv4.ip_unprivileged_port_start=77", "--sysctl", "kernel.msgmax=1234", BUSYBOX,
                     "cat", "/proc/sys/net/ipv4/ip_unprivileged_port_start", "/proc/sys/kernel/msgmax").ok()
    equal(ran.out.split(), ["77", "1234"])


@check("--device and the default devices are there, others are refused")
def _():
    ran = docker_run("--device", "/dev/fuse:/dev/myfuse", BUSYBOX, "sh", "-c", "stat -c %t:%T /dev/myfuse; echo x >/dev/null; head -c 4 /dev/urandom | wc -c") \
        if os.path.exists("/dev/fuse") else docker_run(BUSYBOX, "sh", "-c", "echo a:e5; head -c 4 /dev/urandom | wc -c")
    equal(ran.ok().out.split(), ["a:e5", "4"])
    ran = docker_run("--cap-add", "MKNOD", BUSYBOX, "sh", "-c", "mknod /tmp/mem c 1 1 && head -c 1 /tmp/mem")
    contains(ran.err, "Operation not permitted")


@check("masked and read-only paths of /proc are masked and read-only")
def _():
    ran = docker_run(BUSYBOX, "sh", "-c", "wc -c </proc/keys; ls -A /sys/firmware; echo x >/proc/sys/kernel/hostname; echo x >/proc/irq/x")
    equal(ran.out.split(), ["0"], ran)
    contains(ran.err, "Read-only file system")


@check("the container sees its own hosts, hostname and resolv.conf")
def _():
    ran = docker_run("--hostname", "here", "--add-host", "there:203.0.113.77", BUSYBOX, "cat", "/etc/hostname", "/etc/hosts", "/etc/resolv.conf").ok()
    contains(ran.out, "here")
    contains(ran.out, "203.0.113.77\tthere")
    contains(ran.out, "nameserver")


@check("--pid container:X and --ipc container:X share the namespaces")
def _():
    with Container("--ipc", "shareable", BUSYBOX, "sleep", "62") as container:
        contains(docker_run("--pid", f"container:{container.id}", "--ipc", f"container:{container.id}", BUSYBOX, "ps").ok().out, "sleep 62")


@check("docker create, start -a and rm work one by one, and rename and commit too")
def _():
    created = docker("create", "--runtime", RUNTIME, BUSYBOX, "sh", "-c", "echo x >/new; echo started").ok().out.strip()
    try:
        equal(docker("start", "-a", created).ok().out, "started\n")
        contains(docker("diff", created).ok().out, "A /new")
        image = docker("commit", created).ok().out.strip()
        equal(docker_run(image, "cat", "/new").ok().out, "x\n")
        docker("rmi", "-f", image)
    finally:
        docker("rm", "-f", created)


@check("docker build without BuildKit works with the engine's runtime beside ours")
def _():
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/Dockerfile", "w") as file:
            file.write(f"FROM {BUSYBOX}\nWORKDIR /made/here\nCMD [\"pwd\"]\n")
        image = docker("build", "-q", folder, env={"DOCKER_BUILDKIT": "0"}).ok().out.strip()
        equal(docker_run(image).ok().out, "/made/here\n")
        docker("rmi", "-f", image)


def cgroup_file(pid, controller, v1, v2):
    with open(f"/proc/{pid}/cgroup") as file:
        for line in file:
            _, controllers, path = line.strip().split(":", 2)
            if controller in controllers.split(","):
                return open(f"/sys/fs/cgroup/{controller}{path}/{v1}").read().strip()
            if not controllers:
                unified = path
    return open(f"/sys/fs/cgroup{unified}/{v2}").read().strip()


main()
