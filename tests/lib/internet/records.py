"""One JSON object a line, written with one write(2) each: what the test internet saw, for tests to assert on."""

import json
import os
import threading
import time


class Record:
    def __init__(self, path):
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._lock = threading.Lock()

    def write(self, **fields):
        line = json.dumps({"time": round(time.time(), 6), **fields}) + "\n"
        with self._lock:
            os.write(self._fd, line.encode())
