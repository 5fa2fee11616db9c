#!/usr/bin/env python3
"""Podman as root with --runtime: run, exec, top, stop, rm, its annotation, its way to a network namespace, its errors."""

import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from checks import *

STORE = f"/var/lib/{LAB}-podman"
BINARY = {"leash": f"{BIN}/leash-runtime", "leash-none": f"{BIN}/leash-runtime"}.get(RUNTIME, RUNTIME)
IMAGE = "localhost/busybox"
CACHE = os.environ.get("LEASH_LAB_CACHE", "/var/cache/leash-lab")
# What this kind of machine may not raise: podman's own defaults ask for more (see CONTRIBUTING.md).
LIMITS = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000"]


def podman(*arguments, policy=None, **options):
    flags = []
    if RUNTIME == "leash":
        flags = ["--runtime-flag", f"policy={policy or policy_file('allow: [ok.test]')}", "--runtime-flag", f"trust-store={RUN}/certificates/ca.pem"]
    elif RUNTIME == "leash-none":
        flags = ["--runtime-flag", "policy=none"]
    # In the engine's network namespace, so that "host" means the lab and not this machine.
    return run("nsenter", f"--net=/run/netns/{LAB}-engine", "podman", "--runtime", BINARY, *flags, "--cgroup-manager", "cgroupfs", "--storage-driver", "vfs",
               "--root", f"{STORE}/root", "--runroot", f"{RUN}/podman", "--events-backend", "none", *arguments, **options)


def prepare():
    if not shutil.which("podman"):
        skip("podman is not installed")
    for image, tar in ((IMAGE, "busybox.tar"),):
        if podman("image", "exists", image).code != 0:
            podman("import", f"{CACHE}/{tar}", image).ok()


class Pod:
    def __init__(self, *arguments, **options):
        prepare()
        self.id = podman("run", "-d", *LIMITS, *arguments, **options).ok().out.strip().splitlines()[-1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        podman("rm", "-f", "-t", "0", self.id)


@check("podman run prints the output and gives the exit code")
def _():
    prepare()
    ran = podman("run", "--rm", *LIMITS, "--network", "none", IMAGE, "sh", "-c", "echo hello; exit 42")
    equal((ran.code, ran.out), (42, "hello\n"), ran)


@check("podman run says 127 and 126 for what cannot be executed")
def _():
    prepare()
    equal(podman("run", "--rm", *LIMITS, "--network", "none", IMAGE, "no-such-command").code, 127)
    equal(podman("run", "--rm", *LIMITS, "--network", "none", IMAGE, "/etc/passwd").code, 126)


@check("podman exec runs inside, with user, directory and environment, and gives the code")
def _():
    with Pod("--network", "none", IMAGE, "sleep", "600") as pod:
        ran = podman("exec", "-u", "1000", "-w", "/tmp", "-e", "A=b", pod.id, "sh", "-c", "id -u; pwd; echo $A; exit 3")
        equal((ran.code, ran.out.split()), (3, ["1000", "/tmp", "b"]), ran)
        equal(podman("exec", pod.id, "no-such-command").code, 127)


@check("podman top, logs, pause, stop and rm work")
def _():
    with Pod("--network", "none", IMAGE, "sh", "-c", "echo started; trap 'exit 5' TERM; while :; do sleep 0.05; done") as pod:
        contains(podman("top", pod.id, "pid", "comm").ok().out, "sh")
        eventually(lambda: "started" in podman("logs", pod.id).out)
        podman("pause", pod.id).ok()
        equal(podman("inspect", "-f", "{{.State.Status}}", pod.id).ok().out.strip(), "paused")
        podman("unpause", pod.id).ok()
        podman("stop", "-t", "5", pod.id).ok()
        equal(podman("inspect", "-f", "{{.State.ExitCode}}", pod.id).ok().out.strip(), "5")
        podman("rm", pod.id).ok()


@check("podman run -it has a terminal")
def _():
    prepare()
    probe = podman("run", "--rm", *LIMITS, "--network", "none", IMAGE, "true")
    argv = [*probe.argv[: probe.argv.index("run")], "run", "--rm", "-it", *LIMITS, "--network", "none", IMAGE, "sh", "-c", "sleep 0.3; stty size; tty"]
    ran = run_in_terminal(*argv, rows=31, columns=91)
    contains(ran.out, "/dev/")
    contains(ran.out, "31 91")


@check("podman --network ns:PATH: an allowed request passes, others are refused", leashed=True)
def _():
    prepare()
    name, wire = f"{LAB}-pod", Wire()
    inside = lambda *argv: run("ip", *argv).ok()
    run("ip", "netns", "delete", name)
    inside("netns", "add", name)
    try:
        inside("link", "add", "pod0", "netns", f"{LAB}-engine", "type", "veth", "peer", "name", "eth0", "netns", name)
        inside("-n", f"{LAB}-engine", "addr", "add", "172.30.120.1/24", "dev", "pod0")
        inside("-n", f"{LAB}-engine", "link", "set", "pod0", "up")
        inside("-n", name, "addr", "add", "172.30.120.2/24", "dev", "eth0")
        inside("-n", name, "link", "set", "eth0", "up")
        inside("-n", name, "route", "add", "default", "via", "172.30.120.1")
        run("nsenter", f"--net=/run/netns/{LAB}-engine", "iptables", "-I", "FORWARD", "-i", "pod0", "-j", "ACCEPT").ok()
        run("nsenter", f"--net=/run/netns/{LAB}-engine", "iptables", "-I", "FORWARD", "-o", "pod0", "-j", "ACCEPT").ok()
        with Pod("--network", f"ns:/run/netns/{name}", "--dns", "203.0.113.53", IMAGE, "sleep", "600") as pod:
            ran = podman("exec", pod.id, "wget", "-qO-", "http://ok.test/podman")
            contains(ran.out, "/podman", ran)
            ran = podman("exec", pod.id, "wget", "-qO-", "-T", "4", "http://203.0.113.9/")
            that(ran.code != 0 and '"scheme"' not in ran.out, ran)
            equal(wire.towards("203.0.113.9"), [])
    finally:
        run("nsenter", f"--net=/run/netns/{LAB}-engine", "iptables", "-D", "FORWARD", "-i", "pod0", "-j", "ACCEPT")
        run("nsenter", f"--net=/run/netns/{LAB}-engine", "iptables", "-D", "FORWARD", "-o", "pod0", "-j", "ACCEPT")
        run("ip", "netns", "delete", name)


@check("podman --annotation leash.policy=FILE is the policy, and a wrong one stops the container", leashed=True)
def _():
    prepare()
    path = policy_file("allow: [ok.test]\nsecrets:\n  - {env: MY_KEY, hosts: [ok.test]}\n")
    ran = podman("run", "--rm", *LIMITS, "--network", "none", "-e", "MY_KEY=abcdefghijklmnop", "--annotation", f"leash.policy={path}", IMAGE, "env").ok()
    that("abcdefghijklmnop" not in ran.out, ran)
    broken = policy_file("alow: []\n")
    ran = podman("run", "--rm", *LIMITS, "--network", "none", "--annotation", f"leash.policy={broken}", IMAGE, "echo", "ran")
    that(ran.code in (125, 126, 127) and "ran" not in ran.out.split(), ran)
    contains(ran.err, f"{broken}:1:1")


@check("podman hands on an image's annotation leash.policy, and the container does not start with it", leashed=True)
def _():
    prepare()
    path = policy_file("mode: observe\n")
    folder = f"{RUN}/annotated-image"
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/Containerfile", "w") as file:
        file.write(f"FROM {IMAGE}\n")
    podman("build", "--annotation", f"leash.policy={path}", "-t", "localhost/annotated", folder).ok()
    try:
        ran = podman("run", "--rm", *LIMITS, "--network", "none", "localhost/annotated", "echo", "ran")
        that(ran.code != 0 and "ran" not in ran.out.split(), ran)
        contains(ran.err, "may not choose its policy")
        # A person's own word wins over the image's.
        own = policy_file("allow: [ok.test]\n")
        ran = podman("run", "--rm", *LIMITS, "--network", "none", "--annotation", f"leash.policy={own}", "localhost/annotated", "echo", "ran").ok()
        contains(ran.out, "ran")
    finally:
        podman("rmi", "-f", "localhost/annotated")


try:
    main()
finally:
    if shutil.which("podman"):
        podman("rm", "-f", "-a", "-t", "0")
    for line in sorted((l.split()[4] for l in open("/proc/self/mountinfo") if STORE in l.split()[4] or f"{RUN}/podman" in l.split()[4]), reverse=True):
        run("umount", "-l", line)
    shutil.rmtree(STORE, ignore_errors=True)
