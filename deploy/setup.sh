#!/usr/bin/env bash
# Installs the Debian packages that dlb needs and are missing, and says which. Nothing is downloaded from elsewhere.
#
#   deploy/setup.sh [run]      what building and running with the embedded store needs (the default)
#   deploy/setup.sh postgres   … and the PostgreSQL server, for `deploy/local.sh --store postgres`
#   deploy/setup.sh test       … and what test/run.sh needs
#   deploy/setup.sh bench      … and what bench/ measures against and with, and the compiler of the fuzzers
#   deploy/setup.sh clients    as test, and the clients of `make clients`
#
# Safe to run again: with everything there it touches nothing and asks for no password. It never starts a service that a
# package brings: while apt runs, a policy-rc.d says no, PostgreSQL is told not to make a cluster of its own, and what was
# installed here is not enabled for the next boot either. What stood there before is put back as it was.
set -euo pipefail

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }
usage() { sed -n '2,8s/^# \{0,1\}//p' "$0"; }

installed() { [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null || true) == installed ]]; }

# llhttp is a library on newer systems; Debian 12 has its C source in node-llhttp.
llhttp_package() {
  if installed libllhttp-dev || installed node-llhttp; then return; fi
  if ! compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null; then update_lists >&2; fi
  if apt-cache show libllhttp-dev >/dev/null 2>&1; then echo libllhttp-dev; else echo node-llhttp; fi
}

run_packages() {
  echo g++ make pkg-config libssl-dev libpq-dev libsimdjson-dev libfmt-dev libtomlplusplus-dev libsqlite3-dev \
    zlib1g-dev curl openssl "$(llhttp_package)"
}
postgres_packages() { echo postgresql; }
test_packages() { echo catch2 python3 tmux; }
clients_packages() { echo wrk apache2-utils nghttp2-client hey nodejs node-undici node-ws python3-websockets chromium; }
bench_packages() { echo haproxy nginx-light wrk apache2-utils hey nghttp2-client strace linux-perf valgrind gnuplot-nox clang; }

# pkgconf has taken pkg-config's place on newer systems, and any nginx or gnuplot will do.
missing_of() {
  local package
  for package in "$@"; do
    case $package in
      pkg-config) installed pkgconf || installed pkg-config || echo "$package" ;;
      nginx-light | gnuplot-nox) command -v "${package%-*}" >/dev/null || [[ -x /usr/sbin/${package%-*} ]] || echo "$package" ;;
      nodejs) command -v node >/dev/null || echo "$package" ;;
      chromium) command -v chromium >/dev/null || command -v google-chrome >/dev/null || echo "$package" ;;
      postgresql) compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || echo "$package" ;;
      *) installed "$package" || echo "$package" ;;
    esac
  done
}

as_root() {
  if ((EUID == 0)); then "$@"; else sudo -- "$@"; fi
}

# --- No service starts: invoke-rc.d and systemd's helper ask policy-rc.d, 101 means "forbidden".
POLICY=/usr/sbin/policy-rc.d
POLICY_KEPT=/usr/sbin/policy-rc.d.dlb-kept
PG_COMMON=/etc/postgresql-common/createcluster.d
PG_RULE=$PG_COMMON/dlb-no-cluster.conf
made_pg_common=0

guard_on() {
  guard_off  # an earlier run that was killed may have left its own
  if [[ -e $POLICY || -L $POLICY ]]; then as_root mv -- "$POLICY" "$POLICY_KEPT"; fi
  printf '#!/bin/sh\n# dlb setup: no service starts while packages are installed\nexit 101\n' |
    as_root tee "$POLICY" >/dev/null
  as_root chmod 755 "$POLICY"
  # postgresql-common reads this directory from its default createcluster.conf; when the package is not there yet, the
  # directory is taken as it is. A cluster that a user has, or configures, is never touched.
  if [[ ! -d $PG_COMMON ]]; then made_pg_common=1; as_root mkdir -p "$PG_COMMON"; fi
  printf '# dlb setup: removed again at its end\ncreate_main_cluster = false\n' | as_root tee "$PG_RULE" >/dev/null
}
guard_off() {
  if [[ -f $POLICY ]] && grep -q '^# dlb setup:' "$POLICY" 2>/dev/null; then as_root rm -f -- "$POLICY"; fi
  if [[ -e $POLICY_KEPT || -L $POLICY_KEPT ]]; then as_root mv -- "$POLICY_KEPT" "$POLICY"; fi
  if [[ -f $PG_RULE ]]; then as_root rm -f -- "$PG_RULE"; fi
  if ((made_pg_common)); then
    as_root rmdir --ignore-fail-on-non-empty -- "$PG_COMMON" "$(dirname "$PG_COMMON")" 2>/dev/null || true
  fi
  return 0
}

apt=(env DEBIAN_FRONTEND=noninteractive apt-get -y -q -o Dpkg::Use-Pty=0)

update_lists() {
  say "fetching the package lists (apt-get update)"
  local output
  output=$(as_root "${apt[@]}" update 2>&1) || {
    tail -n 15 <<<"$output" >&2
    die "apt-get update failed: is this machine online, and are its apt sources right?"
  }
}

# A service that came with a package installed here is not to come up at the next boot; one that was there is left alone.
keep_off_at_boot() {
  local unit
  command -v systemctl >/dev/null || return 0
  for unit in postgresql haproxy nginx; do
    if [[ " $* " == *" $unit"[\ -]* ]]; then as_root systemctl disable -q "$unit" 2>/dev/null || true; fi
  done
}

install_packages() {
  local log
  log=$(mktemp)
  trap 'guard_off; rm -f "$log"' EXIT
  trap 'exit 130' INT TERM HUP
  guard_on
  # The lists are fetched only when they are needed: none there yet, or too old for what the mirror has.
  if ! as_root "${apt[@]}" install --no-install-recommends --no-remove -- "$@" >"$log" 2>&1; then
    update_lists
    as_root "${apt[@]}" install --no-install-recommends --no-remove -- "$@" >"$log" 2>&1 ||
      { tail -n 25 "$log" >&2; die "apt-get could not install: $*"; }
  fi
  keep_off_at_boot "$@"
  guard_off
  rm -f "$log"
  trap - EXIT INT TERM HUP
}

main() {
  local set=${1:-run}
  (($# <= 1)) || { usage >&2; exit 2; }
  case $set in
    run | postgres | test | bench | clients) ;;
    -h | --help | help) usage; exit 0 ;;
    *) usage >&2; printf 'setup: unknown set "%s"\n' "$set" >&2; exit 2 ;;
  esac
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    die "this script knows Debian's apt only; its first lines list the packages to install elsewhere"
  fi

  if ((EUID != 0)) && ! command -v sudo >/dev/null; then
    as_root() { die "packages are missing: run this script as root, or install sudo"; }
  fi
  local -a wanted more missing
  read -ra wanted <<<"$(run_packages)"
  if [[ $set != run ]]; then wanted+=("$(postgres_packages)"); fi
  if [[ $set == test || $set == bench || $set == clients ]]; then read -ra more <<<"$(test_packages)"; wanted+=("${more[@]}"); fi
  if [[ $set == bench ]]; then read -ra more <<<"$(bench_packages)"; wanted+=("${more[@]}"); fi
  if [[ $set == clients ]]; then read -ra more <<<"$(clients_packages)"; wanted+=("${more[@]}"); fi
  mapfile -t missing < <(missing_of "${wanted[@]}")

  if ((${#missing[@]} == 0)); then
    say "$set: nothing to install, all ${#wanted[@]} packages are there"
    return
  fi
  say "$set: installing ${missing[*]}"
  install_packages "${missing[@]}"
  mapfile -t missing < <(missing_of "${wanted[@]}")
  ((${#missing[@]} == 0)) || die "still missing after installation: ${missing[*]}"
  say "$set: done; no service was started"
}

main "$@"
