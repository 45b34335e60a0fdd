#!/usr/bin/env bash
# Where a running balancer or backend spends its time under a load: system calls a request (strace -c), the functions that it
# stands in and a flame graph (perf), user instructions a request (perf, or callgrind on a copy of it).
#
#   bench/profile.sh lb  [--dir build/local] [--load "-users 100 -feed-percent 1"] [--seconds 10] [--out DIR]
#   bench/profile.sh sys3 --dir /var/tmp/chat          bench/profile.sh 4711 --url http://127.0.0.1:8080
#
# NAME is a part of a deploy/local.sh system in --dir; a number is a process. Root can attach to everything; others to their own
# processes, as far as kernel.perf_event_paranoid and kernel.yama.ptrace_scope let them. All options: --help.
set -euo pipefail
exec python3 "$(dirname -- "${BASH_SOURCE[0]}")/profile_run.py" "$@"
