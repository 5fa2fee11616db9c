"""A runtime bundle of its own, for tests and benchmarks that call the runtime without an engine."""

import json
import os
import shutil
import tempfile

CACHE = os.environ.get("LEASH_LAB_CACHE", "/var/cache/leash-lab")
CAPABILITIES = ["CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_KILL", "CAP_NET_BIND_SERVICE", "CAP_SETGID", "CAP_SETUID"]


def config(arguments, terminal=False):
    mount = lambda destination, kind, *options: {"destination": destination, "type": kind, "source": kind, "options": list(options)}
    return {
        "ociVersion": "1.0.2",
        "process": {
            "terminal": terminal, "user": {"uid": 0, "gid": 0}, "args": list(arguments), "cwd": "/",
            "env": ["PATH=/bin:/sbin", "TERM=xterm"], "noNewPrivileges": True,
            "capabilities": {name: CAPABILITIES for name in ("bounding", "effective", "permitted")},
            "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 1024, "soft": 1024}],
        },
        "root": {"path": "rootfs", "readonly": False},
        "hostname": "bundle",
        "mounts": [
            mount("/proc", "proc"),
            mount("/dev", "tmpfs", "nosuid", "strictatime", "mode=755", "size=65536k"),
            mount("/dev/pts", "devpts", "nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"),
            mount("/dev/shm", "tmpfs", "nosuid", "noexec", "nodev", "mode=1777", "size=65536k"),
            mount("/dev/mqueue", "mqueue", "nosuid", "noexec", "nodev"),
            mount("/sys", "sysfs", "nosuid", "noexec", "nodev", "ro"),
        ],
        "linux": {
            "namespaces": [{"type": kind} for kind in ("pid", "network", "ipc", "uts", "mount")],
            "resources": {"devices": [{"allow": False, "access": "rwm"}], "memory": {"limit": 256 << 20}, "pids": {"limit": 128}},
            "maskedPaths": ["/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/scsi", "/sys/firmware"],
            "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"],
        },
    }


class Bundle:
    """A folder with config.json and a busybox rootfs; removed at the end of the with statement."""

    def __init__(self, *arguments, change=None):
        self.path = tempfile.mkdtemp(prefix="leash-bundle-", dir="/var/tmp")
        shutil.copytree(f"{CACHE}/busybox", f"{self.path}/rootfs", symlinks=True)
        self.config = config(arguments or ("true",))
        if change:
            change(self.config)
        self.write()

    def write(self):
        with open(f"{self.path}/config.json", "w") as file:
            json.dump(self.config, file)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)
