#!/usr/bin/env bash
# Restarts the backends one at a time without losing a request: drain, wait, restart, wait for health, the next.
#
#   deploy/rolling.sh --restart COMMAND [OPTION…] [ID…]       the backends named, or all in the balancer's order
#
#   --restart COMMAND     run by bash; restarts the backend BACKEND (its id), and returns 0 when it did: 'ssh $BACKEND …'
#   --config FILE         the balancer's configuration: where its admin listener is, and its token file
#   --lb PROGRAM          the balancer's program (default: beside this script, else dlb-lb)
#   --drain-within 60s    for what runs on a backend to end
#   --healthy-within 60s  from its restart to its first good check
#   --settle 2s           how long it then serves and stays ready before the next one's turn
#   --dry-run             say what would be done
#
# With deploy/local.sh: deploy/rolling.sh --config DIR/lb.toml --restart 'deploy/local.sh restart $BACKEND --dir DIR'
#
# It begins only when every backend is ready: nothing is taken out of a pool that lacks one already. At the first bad sign
# it stops and leaves the rest running. A backend that did not come back stays drained, one that could not be drained is
# made ready again. Exit codes: 0 all done; 1 stopped at a bad sign, which is told; 2 bad usage; 3 the balancer can't be asked.
set -uo pipefail

ROOT=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
RESTART='' CONFIG='' LB='' DRAIN_WITHIN=60s HEALTHY_WITHIN=60s SETTLE=2s DRY_RUN=0
BACKENDS=()

say() { printf '%s %s\n' "$(date -u +%H:%M:%S)" "$*"; }
stop() {  # stop CODE WHY
  say "stopped: $2" >&2
  if ((${#left[@]} > 0)); then say "not restarted: ${left[*]}" >&2; fi
  exit "$1"
}
usage() { sed -n '2,19s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }
usage_error() { printf 'rolling.sh: %s\n' "$1" >&2; usage >&2; exit 2; }

ctl() { "$LB" ctl ${CONFIG:+-c "$CONFIG"} "$@"; }

# The ids that are not ready, one a line: all but `ready` in the table's second column. 3 and 4: the balancer can't be asked.
table() {
  local code
  TABLE=$(ctl status 2>&1)
  code=$?
  ((code <= 1)) || stop 3 "the balancer can't be asked: $TABLE"
}
all_ids() { awk 'begun && $0 !~ /: last error at / { print $1 } $1 == "BACKEND" { begun = 1 }' <<<"$TABLE"; }
state_of() { awk -v id="$1" 'begun && $1 == id { print $2; exit } $1 == "BACKEND" { begun = 1 }' <<<"$TABLE"; }

restart_one() {
  local id=$1 why
  trap 'stop 1 "interrupted; $id may be drained or down"' INT TERM
  say "$id: draining"
  if ! why=$(ctl drain "$id" --wait "$DRAIN_WITHIN" 2>&1); then
    ctl ready "$id" >/dev/null 2>&1  # as it was
    stop 1 "$id could not be drained: $why"
  fi
  say "$id: nothing runs on it; restarting"
  BACKEND=$id bash -c "$RESTART" || stop 1 "$id: the restart command failed (exit $?); it stays drained"
  why=$(ctl ready "$id" --wait "$HEALTHY_WITHIN" 2>&1) || {
    ctl drain "$id" >/dev/null 2>&1
    stop 1 "$id is not healthy after its restart, and stays drained: $why"
  }
  say "$id: ready again"
  settled "$id"
}

# It stays ready, and so do the others, for as long as SETTLE says.
settled() {
  local id=$1 other until
  until=$(($(date +%s%N) + $(nanoseconds "$SETTLE")))
  while true; do
    table
    for other in $(all_ids); do
      [[ $(state_of "$other") == ready ]] || stop 1 "$other is $(state_of "$other"), $id came back last"
    done
    (($(date +%s%N) < until)) || return 0
    sleep 0.2
  done
}
nanoseconds() {
  case $1 in
    *ms) echo "$((10#${1%ms} * 1000000))" ;;
    *m) echo "$((10#${1%m} * 60000000000))" ;;
    *s) echo "$((10#${1%s} * 1000000000))" ;;
  esac
}

while (($# > 0)); do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --dry-run) DRY_RUN=1; shift; continue ;;
    --) shift; BACKENDS+=("$@"); break ;;
    --*) ;;
    *) BACKENDS+=("$1"); shift; continue ;;
  esac
  option=${1%%=*}
  if [[ $1 == *=* ]]; then
    value=${1#*=}
    shift
  else
    (($# > 1)) || usage_error "$1 needs a value"
    value=$2
    shift 2
  fi
  case $option in
    --drain-within | --healthy-within | --settle)
      [[ $value =~ ^[0-9]{1,6}(ms|s|m)$ ]] || usage_error "$option: a time such as 500ms, 30s, 2m"
      ;;&
    --restart) RESTART=$value ;;
    --config) CONFIG=$value ;;
    --lb) LB=$value ;;
    --drain-within) DRAIN_WITHIN=$value ;;
    --healthy-within) HEALTHY_WITHIN=$value ;;
    --settle) SETTLE=$value ;;
    *) usage_error "unknown option '$option'" ;;
  esac
done
[[ -n $RESTART ]] || usage_error "--restart COMMAND is missing: how is a backend restarted?"
if [[ -z $LB ]]; then LB=$ROOT/lb/lb; [[ -x $LB ]] || LB=$(command -v dlb-lb) || usage_error "no lb program: give --lb"; fi

left=()
table
if ((${#BACKENDS[@]} == 0)); then mapfile -t BACKENDS < <(all_ids); fi
for id in "${BACKENDS[@]}"; do
  [[ -n $(state_of "$id") ]] || usage_error "there is no backend '$id'; there are: $(all_ids | tr '\n' ' ')"
done
(($(all_ids | wc -l) > 1)) || stop 1 "there is only one backend: nobody would serve meanwhile"
if ((DRY_RUN)); then
  for id in "${BACKENDS[@]}"; do printf '%s: drain, BACKEND=%q %s, ready\n' "$id" "$id" "$RESTART"; done
  exit 0
fi
for id in $(all_ids); do
  [[ $(state_of "$id") == ready ]] || { left=("${BACKENDS[@]}"); stop 1 "$id is $(state_of "$id"): nothing was begun"; }
done
left=("${BACKENDS[@]}")
for id in "${BACKENDS[@]}"; do
  left=("${left[@]:1}")
  restart_one "$id"
done
say "done: ${BACKENDS[*]}"
