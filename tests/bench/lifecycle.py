#!/usr/bin/env python3
"""What a container's life costs: leash-runtime with everything on and with `--policy none`, crun and runc, side by side.

    lifecycle.py [--quick] [--rounds N] [--budget SECONDS] [--bin DIRECTORY] [--json FILE] [RUNTIME...]

One bundle (busybox), the runtimes in shuffled order in every round, medians over all rounds. Wall times move with
what else the machine does; CPU times and ratios of one run are the figures to compare. CPU is wait4's, of the command
with all it waited for; this program is the subreaper, so that what a command leaves behind (init, leash's shim with its
proxy) is counted too, apart. "all" is the whole bill: commands, init and supervisors together.

It runs in a private mount namespace without /sys/fs/cgroup/unified, since crun refuses hybrid cgroups. Needs root.
"""

import argparse
import ctypes
import json
import os
import random
import re
import shutil
import statistics
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import checks
from bundle import Bundle

HYBRID = "/sys/fs/cgroup/unified"
INSIDE = "LEASH_BENCH_INSIDE"
PR_SET_CHILD_SUBREAPER = 36
TIME = "/usr/bin/time"  # Debian: time
NULL = os.open(os.devnull, os.O_RDWR)


def enter_private_namespace():
    if os.environ.get(INSIDE) == str(os.getpid()):
        return
    os.environ[INSIDE] = str(os.getpid())  # unshare(1) executes, so the pid stays
    inside = 'umount "$0" 2>/dev/null; exec "$@"' if os.path.ismount(HYBRID) else 'exec "$@"'
    os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", "sh", "-c", inside, HYBRID, sys.executable, *sys.argv])


class Runtime:
    """A runtime's command line, and all samples taken of it: name of the figure -> list."""

    def __init__(self, name, *command):
        self.name, self.samples = name, {}
        self.state = tempfile.mkdtemp(prefix="leash-bench-", dir="/run")
        self.command = [*command, "--root", self.state]
        # A file, since the container keeps the descriptor.
        self.output = open(f"{self.state}/output", "w+")

    def add(self, figure, value):
        self.samples.setdefault(figure, []).append(value)

    def spawn(self, *arguments, meter=()):
        words = [*meter, *self.command, *arguments]
        files = [(os.POSIX_SPAWN_DUP2, NULL, 0), *((os.POSIX_SPAWN_DUP2, self.output.fileno(), fd) for fd in (1, 2))]
        return os.posix_spawn(words[0], words, os.environ, file_actions=files)

    def call(self, *arguments):
        """Wall and CPU in milliseconds."""
        began = time.perf_counter()
        _, status, usage = os.wait4(self.spawn(*arguments), 0)
        wall = time.perf_counter() - began
        if status != 0:
            self.output.seek(0)
            sys.exit(f"{self.name}: {arguments} failed ({status}): {self.output.read()}")
        return wall * 1e3, cpu(usage)

    def measure(self, figure, *arguments):
        wall, spent = self.call(*arguments)
        self.add(f"{figure}: wall", wall)
        self.add(f"{figure}: CPU", spent)
        return wall, spent


def cpu(usage):
    return (usage.ru_utime + usage.ru_stime) * 1e3


def reap(deadline=10):
    """CPU in ms of every orphan, once all have ended."""
    total, end = 0.0, time.monotonic() + deadline
    while time.monotonic() < end:
        try:
            pid, _, usage = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return total
        if pid == 0:
            time.sleep(0.002)
        else:
            total += cpu(usage)
    sys.exit("something that a runtime started does not end")


def descendants(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            children = [int(word) for word in file.read().split()]
    except OSError:
        return []
    return children + [other for child in children for other in descendants(child)]


def memory(pid):
    """PSS and private dirty KiB of a process; none if it has ended."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            fields = dict(re.findall(r"^(\w+): +(\d+) kB$", file.read(), re.M))
    except ProcessLookupError:
        return 0, 0
    return int(fields["Pss"]), int(fields["Private_Dirty"])


def life(runtime, bundle, name):
    """create, start, delete of a program that ends at once."""
    pid_file = f"{runtime.state}/{name}.pid"
    walls, spents = [], []
    for step, arguments in (("create", ("create", "--bundle", bundle.path, "--pid-file", pid_file, name)), ("start", ("start", name))):
        wall, spent = runtime.measure(step, *arguments)
        walls.append(wall)
        spents.append(spent)
    with open(pid_file) as file:
        _, _, usage = os.wait4(int(file.read()), 0)
    wall, spent = runtime.measure("delete", "delete", name)
    runtime.add("create+start+delete: wall", sum(walls) + wall)
    runtime.add("create+start+delete: CPU", sum(spents) + spent)
    left = reap()
    runtime.add("init and its program: CPU", cpu(usage))
    runtime.add("shim, dialer, proxy: CPU", left)
    runtime.add("create+start+delete, all: CPU", sum(spents) + spent + cpu(usage) + left)
    os.unlink(pid_file)


def visit(runtime, bundle, name):
    """What is asked of a container that runs; and its forced end."""
    pid_file = f"{runtime.state}/{name}.pid"
    runtime.call("create", "--bundle", bundle.path, "--pid-file", pid_file, name)
    with open(pid_file) as file:
        init = int(file.read())
    pss, dirty = memory(init)
    runtime.add("waiting init, the only one: PSS KiB", pss)
    runtime.add("waiting init: private dirty KiB", dirty)
    runtime.call("start", name)
    runtime.measure("exec", "exec", name, "true")
    runtime.measure("state", "state", name)
    runtime.add("supervisors: PSS KiB", sum(memory(pid)[0] for pid in descendants(os.getpid()) if pid != init))
    runtime.measure("delete --force", "delete", "--force", name)
    reap()
    os.unlink(pid_file)


def peak_rss(runtime, figure, *arguments):
    """GNU time is small: what a program inherits from its parent before execve counts as its own peak."""
    if not os.path.exists(TIME):
        return
    with tempfile.NamedTemporaryFile("r") as report:
        os.waitpid(runtime.spawn(*arguments, meter=[TIME, "-f", "%M", "-o", report.name]), 0)
        runtime.add(f"{figure}: peak RSS KiB", int(report.read()))


def peaks(runtime, ends, stays):
    name, pid_file = f"peak-{runtime.name}", f"{runtime.state}/peak.pid"
    peak_rss(runtime, "run", "run", "--bundle", ends.path, name)
    reap()
    peak_rss(runtime, "create", "create", "--bundle", stays.path, "--pid-file", pid_file, name)
    peak_rss(runtime, "start", "start", name)
    peak_rss(runtime, "exec", "exec", name, "true")
    peak_rss(runtime, "state", "state", name)
    peak_rss(runtime, "delete", "delete", "--force", name)
    reap()


def crowd(runtime, bundle, size=20):
    """Waiting inits share their program's text: what each of many costs."""
    pid_file = f"{runtime.state}/crowd.pid"
    pids = []
    for number in range(size):
        runtime.call("create", "--bundle", bundle.path, "--pid-file", pid_file, f"crowd-{runtime.name}-{number}")
        with open(pid_file) as file:
            pids.append(int(file.read()))
    for pid in pids:
        runtime.add(f"waiting init, one of {size}: PSS KiB", memory(pid)[0])
    for number in range(size):
        runtime.call("delete", "--force", f"crowd-{runtime.name}-{number}")
    reap()


def runtimes(directory, wanted):
    leash = f"{directory}/leash-runtime"
    known = {"runc": [shutil.which("runc")], "crun": [shutil.which("crun")], "leash-none": [leash, "--policy", "none"], "leash": [leash]}
    chosen = wanted or [name for name, command in known.items() if command[0] and os.path.exists(command[0])]
    return [Runtime(name, *known[name]) for name in chosen]


def table(measured):
    medians = {r.name: {figure: statistics.median(values) for figure, values in r.samples.items()} for r in measured}
    ratios = [(a, b) for a, b in (("leash-none", "crun"), ("leash", "runc")) if a in medians and b in medians]
    print(f"{'':34}" + "".join(f"{r.name:>12}" for r in measured) + "".join(f"{a + '/' + b:>17}" for a, b in ratios))
    for figure in dict.fromkeys(figure for r in measured for figure in r.samples):
        unit = "" if "KiB" in figure else " ms"
        line = f"{figure + unit:34}" + "".join(f"{medians[r.name].get(figure, 0):12.2f}" for r in measured)
        for a, b in ratios:
            below = medians[b].get(figure, 0)
            line += f"{medians[a].get(figure, 0) / below:17.2f}" if below else f"{'-':>17}"
        print(line)
    return medians


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--quick", action="store_true", help="a few rounds, about 20 s")
    options.add_argument("--rounds", type=int)
    options.add_argument("--budget", type=float, help="seconds after which no round begins")
    options.add_argument("--bin", default=checks.BIN)
    options.add_argument("--json")
    options.add_argument("runtime", nargs="*")
    given = options.parse_args()
    rounds, budget = given.rounds or (10 if given.quick else 100), given.budget or (25 if given.quick else 200)
    enter_private_namespace()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    measured, done = runtimes(os.path.abspath(given.bin), given.runtime), 0
    try:
        with Bundle("true") as ends, Bundle("sleep", "1000") as stays:
            for runtime in measured:  # warms the page cache as well
                peaks(runtime, ends, stays)
                crowd(runtime, stays)
            end = time.monotonic() + budget
            while done < rounds and time.monotonic() < end:
                for runtime in random.sample(measured, len(measured)):
                    runtime.measure("run", "run", "--bundle", ends.path, f"run-{runtime.name}-{done}")
                    reap()
                    life(runtime, ends, f"life-{runtime.name}-{done}")
                    visit(runtime, stays, f"visit-{runtime.name}-{done}")
                done += 1
    finally:
        for runtime in measured:
            shutil.rmtree(runtime.state, ignore_errors=True)
    print(f"medians of {done} rounds, kernel {os.uname().release}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}")
    medians = table(measured)
    if given.json:
        with open(given.json, "w") as file:
            json.dump(medians, file, indent=1)


if __name__ == "__main__":
    main()
