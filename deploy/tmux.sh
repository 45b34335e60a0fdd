#!/usr/bin/env bash
# A terminal for each system: tmux sessions dlb-sys1 (the balancer), dlb-sys2, dlb-sys3, … (the backends), each with the log
# of its program and, below it, its state: `lb ctl status` for the balancer, health and /internal/stats for a backend.
#
#   deploy/tmux.sh up      [--dir DIR]           for a system started by deploy/local.sh (default build/local)
#   deploy/tmux.sh up      --ssh HOST,HOST,…     for systems elsewhere: the first host is Sys1, the next one Sys2, …
#   deploy/tmux.sh attach  [sysN]                looks (sys1); Ctrl-b s lists all, Ctrl-b ) goes to the next, Ctrl-b d leaves
#   deploy/tmux.sh down                          closes the sessions; the programs are not touched
#
# The sessions live on a tmux server of their own (`tmux -L dlb`, without your configuration), apart from your sessions. `up`
# again adds what is missing. With --ssh, --remote-dir (default /var/lib/dlb) on each host holds what local.sh's DIR holds
# here: on Sys1 lb.toml and lb.log, on Sys2 sys2.toml (for its http-port) and sys2.log, and so on; --remote-lb is the balancer's
# program there (default dlb-lb, as `make install` names it). Keys and agents are ssh's own; nothing is asked of them here.
set -euo pipefail

ROOT=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
DIR=$ROOT/build/local
HOSTS='' REMOTE_DIR=/var/lib/dlb REMOTE_LB=dlb-lb
TMUX_OWN=(env -u TMUX tmux -L dlb -f /dev/null)

say() { printf '%s\n' "$*"; }
die() { printf 'tmux.sh: %s\n' "$*" >&2; exit 1; }
usage() { sed -n '2,15s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }
usage_error() { printf 'tmux.sh: %s\n' "$1" >&2; usage >&2; exit 2; }

# --- What runs in the panes: POSIX sh, with the folder, the name (lb, sys2, …) and the balancer's program as $1 to $3, so that no
# path becomes part of a command. The same texts run here and on another host.

# shellcheck disable=SC2016
LOG_PANE='cd -- "$1" && exec tail -n 200 -F -- "$2.log"'

# shellcheck disable=SC2016
STATUS_PANE='
cd -- "$1" || exit 1
fetch() { curl -sS --max-time 2 --noproxy "*" "http://127.0.0.1:$port$1" 2>&1; }
while :; do
  if [ "$2" = lb ]; then
    text=$("$3" ctl -c lb.toml status 2>&1)
  else
    port=$(sed -n "s/^http-port *= *\([0-9]*\).*/\1/p" "$2.toml" 2>/dev/null | head -n 1)
    port=${port:-6000}
    # A group of figures a line.
    stats=$(fetch /internal/stats | sed "s/,\"\([a-z_]*\)\":{/\n\1  /g; s/},/\n/g; s/[\"{}]//g; s/: */ /g; s/, */  /g")
    text=$(printf "health  %s\n\n%s" "$(fetch /health)" "$stats")
  fi
  printf "\033[H\033[2J%s  %s\n\n%s\n" "$2" "$(date +%H:%M:%S)" "$text"
  sleep 2
done'

quoted() {  # for a remote shell, whichever it is
  local out='' word
  for word in "$@"; do out+=" '${word//\'/\'\\\'\'}'"; done
  printf '%s' "${out# }"
}

# pane_command HOST SCRIPT NAME: fills COMMAND with what a pane runs. tmux gets it as words: no shell reads it once more here.
pane_command() {
  if [[ -z $1 ]]; then
    COMMAND=(sh -c "$2" sh "$DIR" "$3" "$PROGRAMS/lb/lb")
  else
    COMMAND=(ssh -tt -o ServerAliveInterval=10 -- "$1" "$(quoted sh -c "$2" sh "$REMOTE_DIR" "$3" "$REMOTE_LB")")
  fi
}

# --- Sessions

has_session() { "${TMUX_OWN[@]}" has-session -t "=$1" 2>/dev/null; }

open_session() {  # open_session NUMBER HOST (empty: here)
  local session=dlb-sys$1 name=sys$1 place=${2:-$DIR}
  if (($1 == 1)); then name=lb; fi
  if has_session "$session"; then say "$session is there already"; return 0; fi
  pane_command "$2" "$LOG_PANE" "$name"
  # A pane whose program has ended (a host that is gone) stays to be read; respawn-pane starts it again. That is to hold from
  # the session's first moment, so it goes in one call.
  "${TMUX_OWN[@]}" start-server \; set-option -g remain-on-exit on \; set-option -g history-limit 20000 \; \
    new-session -d -s "$session" -n "$name" -x 180 -y 48 -- "${COMMAND[@]}"
  pane_command "$2" "$STATUS_PANE" "$name"
  "${TMUX_OWN[@]}" split-window -d -v -l 40% -t "=$session:" -- "${COMMAND[@]}" \; \
    set-option -w -t "=$session:" pane-border-status top \; \
    set-option -w -t "=$session:" pane-border-format " #{?#{==:#{pane_index},0},log,state} of $name " \; \
    set-option -t "=$session:" status-left-length 20
  say "$session: $name, $place"
}

settings() {  # BACKENDS and PROGRAMS of the system in DIR, as local.sh has noted them
  local key value
  BACKENDS='' PROGRAMS=$ROOT
  [[ -f $DIR/settings ]] || die "no system in $DIR: deploy/local.sh up --dir DIR starts one"
  while IFS='=' read -r key value; do
    case $key=$value in
      BACKENDS=[1-9]*[!0-9]*) ;;
      BACKENDS=[1-9]*) BACKENDS=$value ;;
      PROGRAMS=/*) PROGRAMS=$value ;;
    esac
  done <"$DIR/settings"
  [[ -n $BACKENDS ]] || die "$DIR/settings does not say how many backends there are"
}

up() {
  local -a hosts=()
  local i
  if [[ -n $HOSTS ]]; then
    IFS=',' read -ra hosts <<<"$HOSTS"
    command -v ssh >/dev/null || die "ssh is missing"
  else
    settings
    DIR=$(cd -- "$DIR" && pwd)
    for ((i = 0; i <= BACKENDS; i++)); do hosts+=(''); done
  fi
  for ((i = 0; i < ${#hosts[@]}; i++)); do open_session $((i + 1)) "${hosts[i]}"; done
  say "look: deploy/tmux.sh attach"
}

attach() {
  has_session "dlb-$1" || die "there is no session dlb-$1: deploy/tmux.sh up"
  exec "${TMUX_OWN[@]}" attach-session -t "=dlb-$1"
}

down() {
  local session
  while read -r session; do
    [[ $session == dlb-sys* ]] || continue
    "${TMUX_OWN[@]}" kill-session -t "=$session"
    say "$session: closed"
  done < <("${TMUX_OWN[@]}" list-sessions -F '#{session_name}' 2>/dev/null || true)
}

main() {
  local command=${1:-} which=sys1
  [[ $command != -h && $command != --help && $command != help ]] || { usage; exit 0; }
  [[ $command =~ ^(up|attach|down)$ ]] || usage_error "what is to be done: up, attach or down?"
  shift
  if [[ $command == attach && ${1:-} =~ ^sys[0-9]+$ ]]; then which=$1; shift; fi
  while (($# > 0)); do
    (($# > 1)) || usage_error "$1 needs a value, or is unknown"
    case $1 in
      --dir) DIR=$2 ;;
      --ssh) HOSTS=$2 ;;
      --remote-dir) REMOTE_DIR=$2 ;;
      --remote-lb) REMOTE_LB=$2 ;;
      *) usage_error "unknown: $1" ;;
    esac
    shift 2
  done
  local host='[]A-Za-z0-9_@.:%[-]+'
  [[ -z $HOSTS || $HOSTS =~ ^$host(,$host)*$ ]] || usage_error "--ssh takes HOST,HOST,…"
  [[ ,$HOSTS != *,-* ]] || usage_error "a host does not begin with a dash"
  command -v tmux >/dev/null || die "tmux is missing: apt-get install tmux"
  case $command in
    up) up ;;
    attach) attach "$which" ;;
    down) down ;;
  esac
}

main "$@"
