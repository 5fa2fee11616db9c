#!/usr/bin/env python3
"""What the layout promises and no compiler checks: arrows between rooms, libraries in their rooms, no machine's paths.

  base <- oci-spec <- { runtime, shim, proxy, hooks, cli } <- tests

The programs meet through documents and descriptors, never through headers. File sizes are printed for information.
"""

import os
import re
import subprocess
import sys

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ROOMS = ("base", "oci-spec", "runtime", "shim", "proxy", "hooks", "cli", "tests")
MAY_INCLUDE = {
    "base": {"base"},
    "oci-spec": {"base", "oci-spec"},
    "runtime": {"base", "oci-spec", "runtime"},
    "hooks": {"base", "oci-spec", "hooks"},
    "shim": {"base", "oci-spec", "hooks", "shim"},  # the lock-in and the trust libraries are linked, see ARCHITECTURE.md
    "proxy": {"base", "oci-spec", "proxy"},
    "cli": {"base", "oci-spec", "cli"},
    "tests": set(ROOMS),
}
LIBRARIES = {  # include prefix: rooms that may use it
    "nlohmann/": {"oci-spec"},
    "yaml-cpp/": {"oci-spec"},
    "openssl/": {"proxy", "hooks", "shim", "cli"},
    "libmnl/": {"hooks"},
    "libnftnl/": {"hooks"},
    "seccomp.h": {"runtime", "shim"},
    "boost/": {"proxy", "shim", "cli"},
    "CLI/": {"cli"},
}
SAID = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]')
# A developer's own folder: nothing that runs elsewhere may name it.
MACHINE = re.compile(r"/(?:home|Users)/\w+/")


def files():
    listed = subprocess.run(["git", "-C", SOURCE, "ls-files"], capture_output=True, text=True)
    if listed.returncode == 0:
        return listed.stdout.split("\n")[:-1]
    found = []
    for folder, folders, names in os.walk(SOURCE):
        folders[:] = [f for f in folders if f not in (".git", "build")]
        found += [os.path.relpath(os.path.join(folder, n), SOURCE) for n in names]
    return found


def main():
    problems, sizes = [], []
    for path in files():
        full = os.path.join(SOURCE, path)
        if not os.path.isfile(full):
            continue
        with open(full, encoding="utf-8", errors="replace") as file:
            lines = file.read().split("\n")
        room = path.split("/")[0]
        for number, line in enumerate(lines, 1):
            if MACHINE.search(line) and not path.startswith("tests/lint/"):
                problems.append(f"{path}:{number}: a path of one machine: {line.strip()[:80]}")
        if not path.endswith((".cc", ".h")):
            continue
        sizes.append((len(lines), path))
        for number, line in enumerate(lines, 1):
            said = SAID.match(line)
            if not said or room not in MAY_INCLUDE:
                continue
            target = said[1]
            other = target.split("/")[0]
            if other in ROOMS and "/" in target and other not in MAY_INCLUDE[room]:
                problems.append(f"{path}:{number}: {room} may not include {target}")
            for prefix, allowed in LIBRARIES.items():
                if target.startswith(prefix) and room != "tests" and room not in allowed:
                    problems.append(f"{path}:{number}: {target} belongs to {', '.join(sorted(allowed))}")
        if path.endswith(".h") and "#pragma once" not in lines:
            problems.append(f"{path}: no #pragma once")
        if room not in ("tests",) and not lines[0].startswith("//"):
            # The comment on top of a .cc may stand in its header.
            if path.endswith(".h") or not os.path.exists(full[:-3] + ".h"):
                problems.append(f"{path}: no comment on top that says what it is for")
    sizes.sort(reverse=True)
    print(f"{len(sizes)} C++ files, median {sizes[len(sizes) // 2][0] if sizes else 0} lines; the largest:")
    for lines, path in sizes[:8]:
        print(f"  {lines:5} {path}")
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


main()
