"""Servers as benches start them: each on one core, with what it used of it; and how figures are printed."""

import os
import signal
import socket
import statistics
import subprocess

NGINX = """worker_processes 1; daemon off; pid {folder}/{name}.pid; error_log {folder}/{name}.err;
events {{ worker_connections 20000; }}
http {{ access_log off; keepalive_requests 1000000000; keepalive_timeout 600s; client_body_temp_path {folder}/{name}-body;
proxy_temp_path {folder}/{name}-proxy; fastcgi_temp_path {folder}/{name}-f; uwsgi_temp_path {folder}/{name}-u;
scgi_temp_path {folder}/{name}-s;
{inner} }}
"""


def cpu_ns(pid):
    """CPU time of a process so far, all its threads."""
    folder = f"/proc/{pid}/task"
    return sum(int(open(f"{folder}/{task}/schedstat", encoding="ascii").read().split()[0]) for task in os.listdir(folder))


def spread(values):
    """`median [smallest – largest]`"""
    return f"{statistics.median(values):9.2f} [{min(values):.2f} – {max(values):.2f}]"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def await_port(port, process, log):
    while True:
        if process.poll() is not None:
            raise SystemExit(f"a server ended at its start: {process.args}\n{open(log, errors='replace').read()}")
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            continue


class Server:
    """A process on one core, and the process that does its work."""

    def __init__(self, name, port, command, core, folder):
        self.name, self.port = name, port
        log = os.path.join(folder, name + ".log")
        with open(log, "wb") as out:
            self.process = subprocess.Popen(["taskset", "-c", str(core)] + command, stdout=out, stderr=out)
        await_port(port, self.process, log)

    @property
    def worker(self):
        """The process that does the work: the child of a master that has one."""
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="ascii") as file:
            return int((file.read().split() or [self.process.pid])[0])

    def cpu_ns(self):
        return cpu_ns(self.worker)

    def private_bytes(self):
        total = 0
        for line in open(f"/proc/{self.worker}/smaps_rollup", encoding="ascii"):
            if line.startswith(("Private_Dirty:", "Private_Clean:", "Swap:")):
                total += int(line.split()[1]) * 1024
        return total

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(3)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
