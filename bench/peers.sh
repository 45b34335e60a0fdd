#!/usr/bin/env bash
# The balancer beside HAProxy, nginx and a relay that parses nothing, in one run: CPU a request, syscalls a request,
# memory of an idle client, CPU a gigabyte. The method stands in bench/README.md.
#
#   bench/peers.sh [--rounds N] [--seconds S] [--only NAME[,NAME…]] [--json FILE] [--dlb LABEL=PROGRAM]…
#
# Needs haproxy, nginx, wrk and strace (deploy/setup.sh bench), and the machine for itself: two cores.
set -euo pipefail
ROOT=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
for tool in haproxy nginx wrk strace; do
  PATH=$PATH:/usr/sbin command -v "$tool" >/dev/null || { echo "peers: $tool is missing: deploy/setup.sh bench" >&2; exit 1; }
done
make -s -C "$ROOT" lb build/release/bench/limit_relay
exec python3 "$ROOT/bench/peers.py" "$@"
