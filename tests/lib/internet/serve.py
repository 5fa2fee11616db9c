#!/usr/bin/env python3
"""serve.py CERTIFICATES WWW RECORDS: every server of the test internet, in one process, until SIGTERM."""

import os
import resource
import signal
import sys

import catchall
import dns
import origin
import records


def main():
    certificates, www, folder = sys.argv[1:]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    log = {name: records.Record(os.path.join(folder, name + ".jsonl")) for name in ("dns", "origin", "tls", "catchall")}
    dns.start(log["dns"])
    catchall.start(log["catchall"])
    origin.start(certificates, www, log)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    os._exit(0)


signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
main()
