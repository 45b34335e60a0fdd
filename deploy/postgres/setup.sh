#!/usr/bin/env bash
# Makes, or brings up to date, the PostgreSQL that the backends share, on a Debian system of 512 MiB: a cluster with the
# settings of dlb.conf, database `chat`, role `chat_user` (no superuser, nothing but this database), TLS only, SCRAM only.
#
#   deploy/postgres/setup.sh --host NAME --allow CIDR [--allow CIDR]…
#
#   --host NAME         what the backends call this system: a name or an address; stands in the certificate and in the URL
#   --allow CIDR        where backends may come from, `10.0.0.0/24` or `10.0.0.5/32`; once for each
#   --listen ADDRESS    where PostgreSQL listens besides the Unix socket (default `*`; pg_hba.conf decides who gets in)
#   --port PORT         default 5432
#   --cluster V/NAME    default: the newest version that is installed, `main`; made when it isn't there
#   --data DIR          where a new cluster's data goes, if not where Debian puts it
#   --env-file FILE     gets DATABASE_URL, for root only (default /etc/dlb/database.env); a password in it is kept
#
# Run as root. Safe to run again: the certificate and the password stay, the cluster restarts only when a setting changed.
# The certificate (`dlb-server.crt`, beside pg_hba.conf) is its own authority: copy it and FILE to each backend's system.
set -euo pipefail

HERE=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
PATH=$PATH:/usr/sbin:/sbin
say() { printf 'postgres: %s\n' "$*"; }
die() { printf 'postgres: %s\n' "$*" >&2; exit 1; }
usage_error() { printf 'postgres: %s\n\n' "$*" >&2; sed -n '5,13s/^# \{0,1\}//p' "$0" >&2; exit 2; }

HOST='' LISTEN='*' PORT=5432 CLUSTER='' DATA='' ENV_FILE=/etc/dlb/database.env ALLOW=()
while (($#)); do
  case $1 in
    -h | --help) sed -n '2,17s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --host | --allow | --listen | --port | --cluster | --data | --env-file) (($# > 1)) || usage_error "$1 needs a value" ;;
    *) usage_error "unknown argument $1" ;;
  esac
  case $1 in
    --host) HOST=$2 ;;
    --allow) ALLOW+=("$2") ;;
    --listen) LISTEN=$2 ;;
    --port) PORT=$2 ;;
    --cluster) CLUSTER=$2 ;;
    --data) DATA=$2 ;;
    --env-file) ENV_FILE=$2 ;;
  esac
  shift 2
done
[[ $HOST =~ ^[A-Za-z0-9.:_-]+$ ]] || usage_error "--host: a name or an address is needed"
[[ $PORT =~ ^[0-9]+$ ]] || usage_error "--port: $PORT is not a port"
[[ $LISTEN =~ ^[A-Za-z0-9.:_,*-]+$ ]] || usage_error "--listen: $LISTEN is not an address"
((${#ALLOW[@]})) || usage_error "--allow: at least one is needed"
for network in "${ALLOW[@]}"; do
  [[ $network =~ ^[0-9A-Fa-f.:]+/[0-9]+$ ]] || usage_error "--allow: $network is not ADDRESS/BITS"
done
((EUID == 0)) || die "run as root: it writes where only root and postgres may"
command -v pg_createcluster >/dev/null || die "PostgreSQL is not installed: run deploy/setup.sh postgres"

if [[ -z $CLUSTER ]]; then
  version=$(find /usr/lib/postgresql -mindepth 3 -maxdepth 3 -path '*/bin/postgres' | sed 's|.*/postgresql/||; s|/.*||' |
    sort -rV | head -n 1)
  CLUSTER=$version/main
fi
[[ $CLUSTER =~ ^([0-9.]+)/([A-Za-z0-9_.-]+)$ ]] || usage_error "--cluster: $CLUSTER is not VERSION/NAME"
VERSION=${BASH_REMATCH[1]} NAME=${BASH_REMATCH[2]}
CONF=${PG_CLUSTER_CONF_ROOT:-/etc/postgresql}/$VERSION/$NAME  # the variable is Debian's

# --- The cluster and its files -----------------------------------------------------------------------------------------

if [[ ! -e $CONF/postgresql.conf ]]; then
  say "making the cluster $CLUSTER"
  create=(pg_createcluster --port "$PORT" --start-conf auto)
  if [[ -n $DATA ]]; then create+=(-d "$DATA"); fi
  "${create[@]}" "$VERSION" "$NAME" -- --data-checksums --encoding UTF8 --no-locale --auth-local peer --auth-host reject \
    >/dev/null
fi

changed=0
put() {  # put FILE: standard input becomes FILE, owned by postgres, if that changes it
  local new
  new=$(mktemp "$1.XXXXXX")
  cat >"$new"
  if cmp -s -- "$new" "$1"; then rm -f -- "$new"; return; fi
  chown postgres:postgres "$new"
  chmod 640 "$new"
  mv -- "$new" "$1"
  changed=1
}

if [[ ! -s $CONF/dlb-server.key || ! -s $CONF/dlb-server.crt ]]; then
  kind=DNS
  if [[ $HOST =~ ^[0-9.]+$ || $HOST == *:* ]]; then kind=IP; fi
  (umask 077 && openssl req -x509 -nodes -newkey ec -pkeyopt ec_paramgen_curve:P-256 -days 3650 -subj "/CN=$HOST" \
    -addext "subjectAltName=$kind:$HOST" -keyout "$CONF/dlb-server.key" -out "$CONF/dlb-server.crt" 2>/dev/null) ||
    die "no certificate could be made for $HOST"
  chown postgres:postgres "$CONF/dlb-server.key" "$CONF/dlb-server.crt"
  chmod 644 "$CONF/dlb-server.crt"
  changed=1
fi

mkdir -p -- "$CONF/conf.d"
{
  cat -- "$HERE/dlb.conf"
  printf '\n# Of this system.\nport = %s\nlisten_addresses = '\''%s'\''\n' "$PORT" "$LISTEN"
  printf "ssl_cert_file = '%s'\nssl_key_file = '%s'\n" "$CONF/dlb-server.crt" "$CONF/dlb-server.key"
} | put "$CONF/conf.d/dlb.conf"

{
  echo '# Written by deploy/postgres/setup.sh. The first line that fits decides; who fits none is refused.'
  echo 'local all postgres peer'
  for network in "${ALLOW[@]}"; do printf 'hostssl chat chat_user %s scram-sha-256\n' "$network"; done
} | put "$CONF/pg_hba.conf"

case $(pg_ctlcluster "$VERSION" "$NAME" status 2>/dev/null || true) in
  *'server is running'*) if ((changed)); then say "restarting"; pg_ctlcluster -m fast "$VERSION" "$NAME" restart; fi ;;
  *) pg_ctlcluster "$VERSION" "$NAME" start ;;
esac

# --- The role and the database -----------------------------------------------------------------------------------------

password=$(sed -n "s|^DATABASE_URL='postgresql://chat_user:\\([^@]*\\)@.*|\\1|p" "$ENV_FILE" 2>/dev/null || true)
if [[ ! $password =~ ^[A-Za-z0-9]+$ ]]; then password=$(openssl rand -hex 24); fi

# By standard input, so that the password is on no command line; the log shows no statement.
setpriv --reuid=postgres --regid=postgres --init-groups -- psql --cluster "$CLUSTER" -X -q -v ON_ERROR_STOP=1 -d postgres <<SQL
SELECT 'CREATE ROLE chat_user' WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'chat_user') \gexec
ALTER ROLE chat_user LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS CONNECTION LIMIT 36
  PASSWORD '$password';
SELECT 'CREATE DATABASE chat OWNER chat_user' WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = 'chat') \gexec
REVOKE ALL ON DATABASE chat FROM PUBLIC;
REVOKE ALL ON DATABASE postgres FROM PUBLIC;
\connect chat
REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT ALL ON SCHEMA public TO chat_user;
SQL

mkdir -p -- "$(dirname -- "$ENV_FILE")"
bracketed=$HOST
if [[ $HOST == *:* ]]; then bracketed="[$HOST]"; fi
(umask 077 && printf "DATABASE_URL='postgresql://chat_user:%s@%s:%s/chat?sslmode=verify-full&sslrootcert=%s'\n" "$password" \
  "$bracketed" "$PORT" "$CONF/dlb-server.crt" >"$ENV_FILE.new")
mv -- "$ENV_FILE.new" "$ENV_FILE"

say "ready: database chat on $HOST:$PORT, by TLS from ${ALLOW[*]}"
say "the backends' DATABASE_URL stands in $ENV_FILE; copy $CONF/dlb-server.crt to them and let sslrootcert name that copy"
