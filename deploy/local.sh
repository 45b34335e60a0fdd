#!/usr/bin/env bash
# The whole system on this machine, in the background: a balancer (lb) before N backends (sys2, sys3, …) over one store.
#
#   deploy/local.sh up      [--dir DIR] [--port-base P] [--backends N] [--store sqlite|postgres] [--memory-limit 512M]
#   deploy/local.sh status  [--dir DIR]         what runs; exit 0 when all is healthy, else 1
#   deploy/local.sh down    [--dir DIR]         stop all; data stay in DIR
#   deploy/local.sh start|stop|kill|restart NAME [--dir DIR]     one of lb, sys2, sys3, …, postgres
#
# `up` builds if needed, starts what doesn't run yet, and returns when all is healthy, else 1 with the log's tail (and
# what it started stopped again). Settings are kept in DIR (default build/local), so that later calls need only --dir.
# Ports: P lb HTTP (default 8080), P+1 lb WSS, P+2 admin, P+3 lb HTTPS; backend i (1, 2, …): P+10+i HTTP, P+30+i WSS; P+50
# PostgreSQL. In DIR: NAME.pid, NAME.log, NAME.toml, data/ (key, SQLite), postgres/ (a private cluster, loopback only),
# tls.crt and tls.key (self-signed when they are not there; put others in their place and send SIGHUP to all but postgres).
# SIGUSR2 to the process in lb.pid upgrades the balancer in place; lb.pid then has the new one.
# --programs DIR takes the programs from there (build/asan/bin, or the tree as it is) and does not build.
# --memory-limit 512M: each system (sys1 is lb's) in a memory cgroup of its own, PostgreSQL in that of sys3; `up` exits 4 where
# none can be made. Root, or a delegated cgroup, is needed. `down` removes them. lb then has the limits of lb/dlb-512mib.conf.
set -euo pipefail

ROOT=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
PROGRAMS='' PROGRAMS_GIVEN=''
DIR=$ROOT/build/local
PORT_BASE='' BACKENDS='' STORE='' MEMORY_LIMIT=''
HEALTHY_WITHIN=${DLB_HEALTHY_WITHIN:-30}  # seconds that `up` waits
STOP_WITHIN=15                            # seconds for SIGTERM; notice, probers and drain-timeout may need 13

say() { printf '%s\n' "$*"; }
die() { printf 'local.sh: %s\n' "$*" >&2; exit 1; }
usage() { sed -n '2,18s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }
usage_error() { printf 'local.sh: %s\n' "$1" >&2; usage >&2; exit 2; }

# shellcheck source=deploy/local-cgroup.sh
. "$ROOT/deploy/local-cgroup.sh"

# --- Names, ports and files --------------------------------------------------------------------------------------------

port_lb() { echo "$PORT_BASE"; }
port_wss_listen() { echo $((PORT_BASE + 1)); }
port_admin() { echo $((PORT_BASE + 2)); }
port_https() { echo $((PORT_BASE + 3)); }
port_http() { echo $((PORT_BASE + 10 + $1)); }
port_wss() { echo $((PORT_BASE + 30 + $1)); }
port_postgres() { echo $((PORT_BASE + 50)); }
index_of() { echo $((${1#sys} - 1)); }  # sys2 is backend 1

backend_names() {
  local i
  for ((i = 1; i <= BACKENDS; i++)); do echo "sys$((i + 1))"; done
}
all_names() {  # in the order of starting
  if [[ $STORE == postgres ]]; then echo postgres; fi
  backend_names
  echo lb
}
port_of() {
  case $1 in
    lb) port_lb ;;
    postgres) port_postgres ;;
    *) port_http "$(index_of "$1")" ;;
  esac
}
log_tail() {
  printf -- '--- last lines of %s\n' "$DIR/$1.log" >&2
  tail -n 15 -- "$DIR/$1.log" >&2 || true
}

save_settings() {
  printf '%s=%s\n' PORT_BASE "$PORT_BASE" BACKENDS "$BACKENDS" STORE "$STORE" PROGRAMS "$PROGRAMS" \
    MEMORY_LIMIT "$MEMORY_LIMIT" >"$DIR/settings.new"
  mv -- "$DIR/settings.new" "$DIR/settings"
}
load_settings() {  # returns 1 when DIR holds none
  local key value
  [[ -f $DIR/settings ]] || return 1
  while IFS='=' read -r key value; do
    case $key=$value in
      PORT_BASE=[1-9]*[!0-9]* | BACKENDS=[1-9]*[!0-9]*) ;;
      PORT_BASE=[1-9]*) PORT_BASE=${PORT_BASE:-$value} ;;
      BACKENDS=[1-9]*) BACKENDS=${BACKENDS:-$value} ;;
      STORE=sqlite | STORE=postgres) STORE=${STORE:-$value} ;;
      PROGRAMS=/*) PROGRAMS=${PROGRAMS:-$value} ;;
      MEMORY_LIMIT=[1-9]*) MEMORY_LIMIT=${MEMORY_LIMIT:-$value} ;;
    esac
  done <"$DIR/settings"
}

# --- Processes: a pid file counts only with the start time noted beside it, so a reused pid is never taken for ours -----

start_time_of() {  # field 22 of /proc/PID/stat, behind the name in parentheses
  local stat
  stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
  read -ra stat <<<"${stat##*) }"
  [[ ${stat[0]} != Z ]] || return 1
  echo "${stat[19]}"
}

is_lb() {  # PID is a balancer with our configuration
  [[ $(cat "/proc/$1/comm" 2>/dev/null) == lb ]] && grep -qszxF -- "$DIR/lb.toml" "/proc/$1/cmdline"
}
other_lb() {  # prints the pid of a balancer that the pid file does not name: it drains, behind an upgrade or at its end
  local file pid
  for file in $(grep -slzxF -- "$DIR/lb.toml" /proc/[0-9]*/cmdline); do
    pid=${file#/proc/} pid=${pid%/cmdline}
    if is_lb "$pid"; then echo "$pid"; return 0; fi
  done
  return 1
}

pid_of() {  # prints the pid of NAME when it runs
  local pid
  pid=$(cat -- "$DIR/$1.pid" 2>/dev/null) || pid=''
  if [[ $pid =~ ^[0-9]+$ && $(start_time_of "$pid") == "$(cat -- "$DIR/.$1.started" 2>/dev/null)" ]]; then
    if start_time_of "$pid" >/dev/null; then echo "$pid"; return 0; fi
  fi
  if [[ $1 == lb && $pid =~ ^[0-9]+$ ]] && is_lb "$pid"; then echo "$pid"; return 0; fi  # put there by an upgrade
  [[ $1 == postgres ]] || return 1  # someone may have restarted it with pg_ctl
  pid=$(head -n 1 -- "$DIR/postgres/postmaster.pid" 2>/dev/null) || return 1
  [[ $pid =~ ^[0-9]+$ && $(readlink "/proc/$pid/cwd" 2>/dev/null) == "$(readlink -f "$DIR/postgres")" ]] || return 1
  echo "$pid"
}
running() { pid_of "$1" >/dev/null; }
any_running() {
  local name
  for name in $(all_names); do if running "$name"; then return 0; fi; done
  return 1
}

holder_of() {  # says who listens on a port, or nothing
  local inode found pid
  inode=$(awk -v port=":$(printf '%04X' "$1")" '$4 == "0A" && substr($2, length($2) - 4) == port { print $10; exit }' \
    /proc/net/tcp /proc/net/tcp6 2>/dev/null)
  [[ -n $inode ]] || return 0
  found=$(find /proc/[0-9]*/fd -maxdepth 1 -lname "socket:\\[$inode\\]" -print -quit 2>/dev/null || true)
  if [[ -n $found ]]; then
    pid=${found#/proc/}
    pid=${pid%%/*}
    echo "by process $pid ($(cat "/proc/$pid/comm" 2>/dev/null || true))"
    return 0
  fi
  echo "by another process"
}
check_port() {
  local holder
  holder=$(holder_of "$2")
  if [[ -n $holder ]]; then
    printf 'local.sh: port %s, which %s needs, is in use %s; choose another --port-base\n' "$2" "$1" "$holder" >&2
    return 1
  fi
}

# Ends NAME: SIGTERM, a bounded wait, then SIGKILL. Nothing to do is success.
stop_one() {
  local name=$1 pid told='' signal=TERM deadline=$((SECONDS + STOP_WITHIN))
  if [[ $name == postgres ]]; then signal=INT; fi  # PostgreSQL's "fast": TERM would wait for the clients
  while true; do
    if pid=$(pid_of "$name"); then
      if [[ $pid != "$told" ]]; then kill -s "$signal" "$pid" 2>/dev/null || true; fi  # told before: an upgrade came between
      told=$pid
    elif [[ $name == lb ]] && pid=$(other_lb); then
      if [[ -z $told ]]; then kill -s "$signal" "$pid" 2>/dev/null || true; fi
      told=$pid
    else
      break
    fi
    if ((SECONDS >= deadline)); then
      say "$name: still there after $STOP_WITHIN s, killing it"
      if [[ $name == postgres ]]; then kill -s QUIT "$pid"; else kill -s KILL "$pid"; fi 2>/dev/null || true
      deadline=$((SECONDS + 5))
    fi
    # A backend stays until those who asked for its health lately have heard that it drains; `up` was one of them.
    if [[ $name == sys* ]]; then fetch "$(port_of "$name")" /health >/dev/null || true; fi
    sleep 0.1
  done
  rm -f -- "$DIR/$name.pid" "$DIR/.$name.started"
}
kill_one() {
  local pid
  pid=$(pid_of "$1") || die "$1 does not run"
  kill -s KILL "$pid"
  while running "$1"; do sleep 0.01; done
}

spawn() {  # spawn NAME COMMAND…: in a session of its own, so that a terminal's Ctrl-C does not reach it
  local name=$1 pid enter=() signals ended=''
  shift
  if [[ -n $MEMORY_LIMIT ]]; then
    enter=(sh -c 'echo $$ >"$0" && exec "$@"' "$(cgroup_of "$(system_of "$name")")/cgroup.procs")
  fi
  printf -- '--- %s starts\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" >>"$DIR/$name.log"
  # A signal waits until the number is written down: who undoes this finds the process by it.
  signals=$(trap -p INT TERM HUP)
  trap 'ended=1' INT TERM HUP
  setsid "${enter[@]}" "$@" </dev/null >>"$DIR/$name.log" 2>&1 9>&- &
  pid=$!
  start_time_of "$pid" >"$DIR/.$name.started" || true
  echo "$pid" >"$DIR/$name.pid"
  trap - INT TERM HUP
  eval "$signals"
  if [[ -n $ended ]]; then kill -TERM $$; fi
}

# --- PostgreSQL: a cluster of its own in DIR, loopback only, one role that can log in ------------------------------------

pg_bin() {
  local dir
  for dir in $(compgen -G '/usr/lib/postgresql/*/bin' | sort -rV) "$(dirname -- "$(command -v postgres || echo /)")"; do
    if [[ -x $dir/postgres && -x $dir/initdb ]]; then echo "$dir"; return 0; fi
  done
  die "PostgreSQL is not installed: run deploy/setup.sh postgres"
}
# PostgreSQL refuses to be root: then it is the user postgres.
AS_POSTGRES=(setpriv --reuid=postgres --regid=postgres --init-groups --)
as_postgres() {
  if ((EUID == 0)); then "${AS_POSTGRES[@]}" "$@"; else "$@"; fi
}

make_cluster() {
  local bin=$1 password
  [[ ! -f $DIR/postgres/ready || ! -s $DIR/database.password ]] || return 0
  rm -rf -- "$DIR/postgres"
  mkdir -m 700 -- "$DIR/postgres"
  if ((EUID == 0)); then
    chown postgres: "$DIR/postgres"
    chmod a+x "$DIR"
    as_postgres test -x "$DIR/postgres/." ||
      die "the user postgres, as which PostgreSQL runs, may not enter $DIR: choose a --dir that others can pass through"
  fi
  # The superuser gets no password and the access list does not name it, so only chat_user can log in. The password
  # never stands on a command line.
  password=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
  (umask 077 && echo "$password" >"$DIR/database.password")
  {
    as_postgres "$bin/initdb" -D "$DIR/postgres" -U postgres -E UTF8 --no-locale --auth=reject --no-instructions &&
      as_postgres tee "$DIR/postgres/pg_hba.conf" <<<'host chat chat_user 127.0.0.1/32 scram-sha-256' &&
      as_postgres "$bin/postgres" --single -D "$DIR/postgres" postgres <<SQL &&
CREATE ROLE chat_user LOGIN PASSWORD '$password';
CREATE DATABASE chat OWNER chat_user;
SQL
      as_postgres touch "$DIR/postgres/ready"
  } >"$DIR/postgres.log" 2>&1 9>&- || { log_tail postgres; die "could not make the PostgreSQL cluster in $DIR/postgres"; }
}

start_postgres() {
  local bin as=()
  bin=$(pg_bin)
  make_cluster "$bin"
  (umask 077 && printf 'DATABASE_URL=postgresql://chat_user:%s@127.0.0.1:%s/chat\n' \
    "$(cat -- "$DIR/database.password")" "$(port_postgres)" >"$DIR/database.env")
  if ((EUID == 0)); then as=("${AS_POSTGRES[@]}"); fi
  spawn postgres "${as[@]}" "$bin/postgres" -D "$DIR/postgres" -p "$(port_postgres)" -c listen_addresses=127.0.0.1 \
    -c unix_socket_directories= -c logging_collector=off -c log_statement=none
  wait_until "PostgreSQL to accept connections" postgres postgres_answers
}
postgres_answers() { "$(pg_bin)/pg_isready" -q -h 127.0.0.1 -p "$(port_postgres)" -d chat -U chat_user -t 1; }

# --- lb and the backends -----------------------------------------------------------------------------------------------

toml_string() { local s=${1//\\/\\\\}; printf '"%s"' "${s//\"/\\\"}"; }

start_backend() {
  local name=$1 i
  i=$(index_of "$name")
  {
    echo "backend-id = \"$name\""
    echo "http-port = $(port_http "$i")"
    echo "ws-port = $(port_wss "$i")"
    echo "public-wss-url = \"wss://localhost:$(port_wss_listen)/ws\""  # to the page: on the host that it came from
    echo "tls-cert = $(toml_string "$DIR/tls.crt")"
    echo "tls-key = $(toml_string "$DIR/tls.key")"
    echo "data-dir = $(toml_string "$DIR/data")"
    echo "message-encryption-key-file = $(toml_string "$DIR/data/encryption.key")"
  } >"$DIR/$name.toml"
  if [[ $STORE == postgres ]]; then
    (
      set -a
      # shellcheck source=/dev/null
      . "$DIR/database.env"
      set +a
      spawn "$name" "$PROGRAMS/backend/backend" -c "$DIR/$name.toml"
    )
  else
    spawn "$name" env -u DATABASE_URL "$PROGRAMS/backend/backend" -c "$DIR/$name.toml"
  fi
}

# One key for all backends, which only this user can read. With the embedded store the backends would make it themselves.
make_key() {
  [[ ! -s $DIR/data/encryption.key ]] || return 0
  local key=$DIR/data/encryption.key
  (umask 077 && head -c 32 /dev/urandom | base64 -w 0 | tr '+/' '-_' >"$key.new" && echo >>"$key.new")
  mv -- "$key.new" "$key"
}

# For HTTPS and WSS; whoever has a certificate of his own puts it there.
make_certificate() {
  [[ ! -e $DIR/tls.crt && ! -e $DIR/tls.key ]] || return 0  # one alone is somebody's: lb says what is missing
  local problem
  problem=$(umask 077 && openssl req -x509 -nodes -newkey ec -pkeyopt ec_paramgen_curve:P-256 -days 3650 \
    -subj "/CN=localhost" -addext "subjectAltName=DNS:localhost,IP:127.0.0.1" \
    -keyout "$DIR/tls.key.new" -out "$DIR/tls.crt.new" 2>&1) || die "no certificate could be made in $DIR: $problem"
  mv -- "$DIR/tls.key.new" "$DIR/tls.key"
  mv -- "$DIR/tls.crt.new" "$DIR/tls.crt"
}

start_lb() {
  local name i
  {
    echo "# Written by local.sh at each start."
    echo "listen = \":$(port_lb)\""
    echo "pid-file = $(toml_string "$DIR/lb.pid")"  # so that it is right after an upgrade, too
    echo "tls-listen = \":$(port_https)\""
    echo "admin-listen = \"127.0.0.1:$(port_admin)\""
    echo "tls-cert = $(toml_string "$DIR/tls.crt")"
    echo "tls-key = $(toml_string "$DIR/tls.key")"
    echo "wss-listen = \":$(port_wss_listen)\""
    echo 'tunnel-drain-timeout = "5s"'  # within STOP_WITHIN
    if [[ -n $MEMORY_LIMIT ]]; then sed -nE '/^(client|socket|proxy|backend)-/p' "$ROOT/lb/dlb-512mib.conf"; fi
    for name in $(backend_names); do
      i=$(index_of "$name")
      printf '\n[[backend]]\nid  = "%s"\nurl = "http://127.0.0.1:%s"\nwss = "127.0.0.1:%s"\n' \
        "$name" "$(port_http "$i")" "$(port_wss "$i")"
    done
  } >"$DIR/lb.toml"
  spawn lb "$PROGRAMS/lb/lb" -c "$DIR/lb.toml"
}

fetch() { curl -fsS --max-time 2 --noproxy '*' "http://127.0.0.1:$1$2" 2>/dev/null; }
backend_healthy() { fetch "$(port_of "$1")" /health >/dev/null; }
lb_sees_all() {
  local status
  status=$(fetch "$(port_lb)" /lb/status) || return 1
  (($(grep -oE '"healthy": *true' <<<"$status" | wc -l) >= BACKENDS))
}
healthy() {
  case $1 in
    lb) lb_sees_all ;;
    postgres) postgres_answers ;;
    *) backend_healthy "$1" ;;
  esac
}

# wait_until WHAT NAME CONDITION…: until the condition holds; 1 when NAME has ended or the time is over.
wait_until() {
  local what=$1 name=$2 deadline=$((SECONDS + HEALTHY_WITHIN))
  shift 2
  until "$@"; do
    if ! running "$name"; then
      log_tail "$name"
      printf 'local.sh: %s ended while waiting for %s\n' "$name" "$what" >&2
      return 1
    fi
    if ((SECONDS >= deadline)); then
      log_tail "$name"
      printf 'local.sh: waited %s s for %s\n' "$HEALTHY_WITHIN" "$what" >&2
      return 1
    fi
    sleep 0.05
  done
}

start_one() {
  case $1 in
    postgres) start_postgres ;;
    lb) start_lb ;;
    *) start_backend "$1" ;;
  esac
}

# --- Commands ----------------------------------------------------------------------------------------------------------

lock() {  # one command at a time on a DIR
  exec 9>>"$DIR/.lock"
  flock -w 60 9 || die "another local.sh has been busy with $DIR for a minute"
}

build() {
  local program
  for program in curl openssl; do
    command -v "$program" >/dev/null || die "$program is missing: run deploy/setup.sh"
  done
  if [[ $PROGRAMS == "$ROOT" && -z $PROGRAMS_GIVEN ]]; then
    command -v make >/dev/null || die "make is missing: run deploy/setup.sh"
    mkdir -p -- "$ROOT/build"
    # As deploy/demo.sh and test/run.sh build, where that is up to date: compiling all once more takes minutes.
    local unity=UNITY=
    if make -C "$ROOT" -q UNITY=1 lb backend >/dev/null 2>&1; then unity=UNITY=1; fi
    make -C "$ROOT" -q "$unity" lb backend >/dev/null 2>&1 || echo "building (minutes, the first time); see build/local-build.log"
    make -C "$ROOT" -s "-j$(nproc)" "$unity" lb backend >"$ROOT/build/local-build.log" 2>&1 || {
      tail -n 25 -- "$ROOT/build/local-build.log" >&2
      die "the build failed (build/local-build.log); if a header is missing, run deploy/setup.sh"
    }
  fi
  for program in lb backend; do
    [[ -x $PROGRAMS/$program/$program ]] || die "no program at $PROGRAMS/$program/$program"
  done
}

started=()
# On any way out of `up` but success. In a trap a bare `return` means the status before it: hence `return 0` everywhere.
undo() {
  local i
  trap - EXIT
  for ((i = ${#started[@]} - 1; i >= 0; i--)); do stop_one "${started[i]}"; done
  if ! any_running; then remove_cgroups; fi
  if ((${#started[@]})); then say "local.sh: up failed; what it had started is stopped again" >&2; fi
}

do_up() {
  local name port missing=() busy=0
  mkdir -p -- "$DIR" "$DIR/data"
  chmod 700 "$DIR/data"
  DIR=$(readlink -f "$DIR")
  lock
  if load_settings; then
    local mine="$PORT_BASE $BACKENDS $STORE" mine_limit=$MEMORY_LIMIT any=0
    PORT_BASE='' BACKENDS='' STORE='' MEMORY_LIMIT=''
    load_settings
    if any_running; then any=1; fi
    if ((any)) && [[ $mine != "$PORT_BASE $BACKENDS $STORE" || $mine_limit != "$MEMORY_LIMIT" ]]; then
      die "it runs in $DIR with --port-base $PORT_BASE --backends $BACKENDS --store $STORE" \
        "--memory-limit ${MEMORY_LIMIT:-none}; use 'down' first to change that"
    fi
    if ((!any)); then
      read -r PORT_BASE BACKENDS STORE <<<"$mine"
      MEMORY_LIMIT=$mine_limit
    fi
  fi
  PORT_BASE=${PORT_BASE:-8080} BACKENDS=${BACKENDS:-3} STORE=${STORE:-sqlite} PROGRAMS=${PROGRAMS:-$ROOT}
  ((PORT_BASE <= 65535 - 50)) || die "--port-base $PORT_BASE is too high: the ports up to P+50 are used"
  ((BACKENDS >= 1 && BACKENDS <= 19)) || die "--backends must be 1 to 19"

  for name in $(all_names); do running "$name" || missing+=("$name"); done
  if ((${#missing[@]} == 0)); then
    say "already running"
    show_urls
    wait_until "all to be healthy" lb lb_sees_all
    return 0
  fi
  if [[ $STORE == postgres ]]; then pg_bin >/dev/null; fi
  build
  for name in "${missing[@]}"; do
    check_port "$name" "$(port_of "$name")" || busy=1
    case $name in
      lb) for port in "$(port_https)" "$(port_wss_listen)" "$(port_admin)"; do check_port lb "$port" || busy=1; done ;;
      sys*) check_port "$name" "$(port_wss "$(index_of "$name")")" || busy=1 ;;
    esac
  done
  ((!busy)) || exit 1
  save_settings
  trap undo EXIT
  trap 'exit 1' INT TERM HUP
  if [[ -n $MEMORY_LIMIT ]] && ! make_cgroups; then
    say "local.sh: no memory cgroup can be made here; leave --memory-limit out" >&2
    exit 4
  fi
  make_key
  make_certificate

  for name in "${missing[@]}"; do
    started+=("$name")
    start_one "$name"
  done
  for name in $(backend_names); do wait_until "$name to be healthy" "$name" backend_healthy "$name"; done
  wait_until "lb to see all $BACKENDS backends healthy" lb lb_sees_all
  trap - EXIT INT TERM HUP
  say "up: lb and $BACKENDS backends over $STORE, in $DIR"
  show_urls
}

show_urls() {
  say "http://127.0.0.1:$(port_lb)  https://localhost:$(port_https)  wss://localhost:$(port_wss_listen)/ws"
}

do_status() {
  local name pid state rc=0
  load_settings || die "nothing has been started in $DIR"
  for name in $(all_names); do
    if pid=$(pid_of "$name"); then
      if healthy "$name"; then state=healthy; else state=unhealthy; fi
    else
      pid=- state=stopped
    fi
    [[ $state == healthy ]] || rc=1
    printf '%-9s pid %-8s port %-6s %s\n' "$name" "$pid" "$(port_of "$name")" "$state"
  done
  return "$rc"
}

do_down() {
  local name names=() i
  if ! load_settings; then
    say "nothing runs in $DIR"
    return 0
  fi
  lock
  mapfile -t names < <(all_names)
  # The balancer and the backends drain side by side, which takes seconds: the backends go on serving for longer than the
  # balancer goes on asking. PostgreSQL goes last.
  for ((i = ${#names[@]} - 1; i >= 0; i--)); do
    if [[ ${names[i]} == postgres ]]; then wait; fi
    stop_one "${names[i]}" &
  done
  wait
  remove_cgroups
  say "down: $DIR"
}

do_one() {
  local verb=$1 name=$2
  load_settings || die "nothing has been started in $DIR"
  grep -qxF -- "$name" <(all_names) || die "no part '$name' here; there are: $(all_names | tr '\n' ' ')"
  lock
  case $verb in
    stop) stop_one "$name" ;;
    kill) kill_one "$name" ;;
    start | restart)
      if [[ $verb == restart ]]; then stop_one "$name"; elif running "$name"; then say "$name runs already"; return 0; fi
      check_port "$name" "$(port_of "$name")"
      start_one "$name"
      wait_until "$name to be healthy" "$name" healthy "$name" || { stop_one "$name"; exit 1; }
      ;;
  esac
}

main() {
  local verb=${1:-} name=''
  (($# > 0)) || usage_error "say what to do"
  shift
  case $verb in
    up | status | down) ;;
    start | stop | kill | restart)
      if (($# == 0)) || [[ $1 == --* ]]; then usage_error "$verb needs the name of a part"; fi
      name=$1
      shift
      ;;
    -h | --help | help) usage; exit 0 ;;
    *) usage_error "unknown command '$verb'" ;;
  esac
  while (($# > 0)); do
    local option=$1 value
    case $option in
      --*=*) value=${option#*=} option=${option%%=*}; shift ;;
      --dir | --port-base | --backends | --store | --programs | --memory-limit)
        (($# > 1)) || usage_error "$option needs a value"
        value=$2
        shift 2
        ;;
      *) usage_error "unknown option '$option'" ;;
    esac
    case $option in
      --dir) [[ -n $value ]] || usage_error "--dir is empty"; DIR=$value ;;
      --programs) PROGRAMS=$(cd -- "$value" && pwd) PROGRAMS_GIVEN=1 ;;
      --port-base) [[ $value =~ ^[1-9][0-9]{0,4}$ ]] || usage_error "--port-base must be a port number"; PORT_BASE=$value ;;
      --backends) [[ $value =~ ^[1-9][0-9]?$ ]] || usage_error "--backends must be 1 to 19"; BACKENDS=$value ;;
      --store) [[ $value == sqlite || $value == postgres ]] || usage_error "--store must be sqlite or postgres"; STORE=$value ;;
      --memory-limit)
        [[ $value =~ ^[1-9][0-9]*[KMG]?$ ]] || usage_error "--memory-limit must be bytes, or as 512M"
        MEMORY_LIMIT=$value
        ;;
      *) usage_error "unknown option '$option'" ;;
    esac
  done
  if [[ $verb != up && -d $DIR ]]; then DIR=$(readlink -f "$DIR"); fi
  case $verb in
    up) do_up ;;
    status) do_status ;;
    down) do_down ;;
    *) do_one "$verb" "$name" ;;
  esac
}

main "$@"
