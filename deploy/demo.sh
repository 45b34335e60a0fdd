#!/usr/bin/env bash
# From a fresh Debian machine to the running system: installs what is missing, builds, starts a balancer before three
# backends with the embedded store, sends a short load that checks every message, and prints the URLs.
#
#   deploy/demo.sh [--once] [--port-base P] [--backends N] [--store sqlite|postgres]
#
# Goes on until Ctrl-C, which stops all of it. --once: stops after the load; the exit code is the load's.
set -euo pipefail

ROOT=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
DIR=$ROOT/build/demo
LOCAL=$ROOT/deploy/local.sh
once=0 port_base='' backends=3 store=sqlite
USERS=50
REQUESTS=5000

say() { printf '\n== %s\n' "$*"; }
usage() { sed -n '2,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }

while (($# > 0)); do
  case $1 in
    --once) once=1; shift ;;
    --port-base | --backends | --store)
      (($# > 1)) || { usage >&2; exit 2; }
      case $1 in
        --port-base) port_base=$2 ;;
        --backends) backends=$2 ;;
        --store) store=$2 ;;
      esac
      shift 2
      ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; printf 'demo.sh: unknown option "%s"\n' "$1" >&2; exit 2 ;;
  esac
done

# Without --port-base: 8080, or the next hundred in which nobody listens.
free_port_base() {
  local base offset hex
  for ((base = 8080; base < 20000; base += 100)); do
    for offset in 0 1 2 3 11 12 13 31 32 33 50; do
      hex=$(printf ':%04X' $((base + offset)))
      if awk -v port="$hex" '$4 == "0A" && substr($2, length($2) - 4) == port { found = 1 } END { exit !found }' \
        /proc/net/tcp /proc/net/tcp6 2>/dev/null; then
        continue 2
      fi
    done
    echo "$base"
    return
  done
  echo 8080
}

started=0
finish() {
  local code=$?
  trap - EXIT
  trap '' INT TERM
  if ((started)); then
    say "Stopping"
    "$LOCAL" down --dir "$DIR"
  fi
  exit "$code"
}

say "Packages"
if [[ $store == postgres ]]; then "$ROOT/deploy/setup.sh" postgres; else "$ROOT/deploy/setup.sh" run; fi

say "Building (the first time takes two to four minutes on two cores)"
# In groups of files, which is quickest for once; who works on the tree has objects of single files, and keeps them.
unity=UNITY=1
if [[ -d $ROOT/build/release/lb && ! -d $ROOT/build/release/unity ]]; then unity=UNITY=; fi
make -C "$ROOT" -s "-j$(nproc)" "$unity" lb backend loadgen
echo "lb/lb, backend/backend and loadgen/loadgen are there"

say "Starting one balancer and $backends backends"
if "$LOCAL" status --dir "$DIR" >/dev/null 2>&1; then
  echo "demo.sh: a demo runs already; stop it with: deploy/local.sh down --dir $DIR" >&2
  exit 1
fi
# Each demo begins with an empty chat: the load checks that the feed holds its messages and no others.
"$LOCAL" down --dir "$DIR" >/dev/null 2>&1 || true
rm -rf -- "$DIR"
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
[[ -n $port_base ]] || port_base=$(free_port_base)
started=1
# The programs are named, so that they are not built once more.
"$LOCAL" up --dir "$DIR" --port-base "$port_base" --backends "$backends" --store "$store" --programs "$ROOT"
url=http://127.0.0.1:$port_base

say "Load: $USERS users, $REQUESTS requests, one in twenty reads the whole feed; each message is looked for at the end"
load=0
"$ROOT/loadgen/loadgen" -url "$url" -users "$USERS" -requests "$REQUESTS" -feed-percent 5 -verify-feed \
  -out-dir "$DIR/results" -experiment demo || load=$?
if ((load == 0 || load == 4)); then  # 4: the generator was busier than the system, which is no fault here
  load=0
  echo "every message that was accepted is in the feed, once"
else
  echo "demo.sh: the load failed (exit code $load); the logs are in $DIR" >&2
fi
((!once)) || exit "$load"

say "It runs; Ctrl-C stops all of it"
cat <<TXT
  chat in a browser https://localhost:$((port_base + 1))/ (its certificate is self-made), or $url/
  post a message    curl -i $url/message -H 'Content-Type: application/json' -d '{"client-name":"me","msg":"hello"}'
  read the feed     curl -s '$url/feed?limit=10'
  the balancer      $url/lb/dashboard; with buttons: http://127.0.0.1:$((port_base + 2))/lb/dashboard
  its figures       $url/lb/status   $url/lb/metrics
  the parts         deploy/local.sh status --dir $DIR
  logs, results     $DIR
TXT
exec {never}<> <(:)  # a read that only a signal ends, and no child to leave behind
while :; do read -r -t 3600 -u "$never" || true; done
