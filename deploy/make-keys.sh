#!/usr/bin/env bash
# Makes the secrets of a deployment, and renews them: the key that encrypts messages, and certificates under an own authority.
#
#   deploy/make-keys.sh encryption FILE                     a new key, for message-encryption-key-file of every backend
#   deploy/make-keys.sh encryption FILE --rotate add|use|now      another one; the old ones stay, since old rows need them
#   deploy/make-keys.sh encryption FILE --show              which keys there are, by their ids (no secret)
#   deploy/make-keys.sh certificate DIR --hosts NAME,ADDRESS,…    DIR/server.crt and .key, for tls-cert and tls-key of lb and of
#                                                           the backends; DIR/ca.crt, for clients, and ca.key when not there yet
#   deploy/make-keys.sh certificate DIR --renew             the certificate anew, for the same key and the same hosts
#   deploy/make-keys.sh certificate DIR --check [--days N]  until when it is good; exit 1 when that is under N days (30)
#
#   --days N      how long the certificate is good (397)          --name NAME  other files than server.*, for another system
#   --ca-days N   how long a new authority is good (3650)         --rsa        RSA 3072 in place of ECDSA P-256
#   --force       overwrites what is there; a key file is kept beside itself as FILE.old-TIME
#
# Rotating keys, so that no backend meets a row of a key that it doesn't know: `--rotate add`, copy FILE to every backend,
# restart them one after the other (deploy/rolling.sh), then `--rotate use`, copy, restart again. `--rotate now` does both at
# once: for one backend, or when all are stopped. Secrets are written for their owner only (0600), put in place whole, never
# printed, and stand on no command line.
set -euo pipefail
umask 077

say() { printf '%s\n' "$*"; }
die() { printf 'make-keys: %s\n' "$*" >&2; exit 1; }
usage() { sed -n '2,21s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }
usage_error() { printf 'make-keys: %s\n' "$1" >&2; usage >&2; exit 2; }

NEW=''  # a file beside the one that it is to replace, or a folder to work in
trap '[[ -z $NEW ]] || rm -rf -- "$NEW"; [[ $NEW != */.new.*/* ]] || rmdir -- "${NEW%/*}" 2>/dev/null || :' EXIT
trap 'exit 130' INT TERM HUP

put_in_place() {  # put_in_place FILE MODE: NEW becomes FILE, whole or not at all; who owned it keeps it
  chmod "$2" -- "$NEW"
  if [[ -e $1 ]] && ((EUID == 0)); then chown --reference="$1" -- "$NEW"; fi
  sync -- "$NEW"
  mv -f -- "$NEW" "$1"
  NEW=''
}

# --- The encryption keys: one a line, urlsafe base64 of 32 bytes; the first one encrypts, every one decrypts

MARK='# not in use yet: --rotate use puts the next line first'

random_key() { local text; text=$(head -c 32 /dev/urandom | base64 -w 0); text=${text//+/-}; printf '%s\n' "${text//\//_}"; }

key_id() {  # of a key, as it stands beside each row and in the metrics; printf is the shell's own: nothing shows in a list
  local text=${1%=} hash  # of processes
  text=${text//-/+}
  hash=$({ printf dlb-key-id-v1; printf '%s=' "${text//_//}" | base64 -d; } | sha256sum)
  printf '%s' "${hash:0:16}"
}

# KEYS: the keys of a file; WAITS: the number of the one that is not in use yet, or empty.
read_keys() {
  local line waits=''
  KEYS=() WAITS=''
  [[ -f $1 ]] || die "there is no $1: without --rotate one is made"
  while read -r line || [[ -n $line ]]; do
    if [[ $line == "$MARK" ]]; then waits=1; fi
    [[ -n $line && $line != '#'* ]] || continue
    [[ $line =~ ^[A-Za-z0-9_-]{43}=?$ ]] || die "$1 has a line that is no key"
    if [[ -n $waits ]]; then WAITS=${#KEYS[@]} waits=''; fi
    KEYS+=("$line")
  done <"$1"
  ((${#KEYS[@]} > 0)) || die "$1 has no key"
}

show_keys() {
  local number does
  read_keys "$1"
  for number in "${!KEYS[@]}"; do
    does=decrypts
    if ((number == 0)); then does=encrypts; fi
    if [[ $number == "$WAITS" ]]; then does+=', waits for --rotate use'; fi
    say "$(key_id "${KEYS[number]}")  $does"
  done
}

new_file_beside() { NEW=$(mktemp -- "$1.new.XXXXXX"); }

next_steps() {  # next_steps FILE add|use|now
  case $2 in
    add) say "next: copy $1 to every backend, restart them one after the other, then: make-keys.sh encryption $1 --rotate use" ;;
    use) say "next: copy $1 to every backend and restart them one after the other; all know the key already" ;;
    now) say "next: copy $1 to every backend while all are stopped, and start them; one that runs on can't read new rows" ;;
  esac
  say "keep every old key for as long as its rows are in the database, and a copy of $1 where the database's backups are not"
}

rotate() {  # the file is written anew: its keys in their order, without comments of others
  local file=$1 how=$2 lines
  read_keys "$file"
  if [[ $how == use ]]; then
    [[ -n $WAITS ]] || die "$file has no key that waits: --rotate add"
    lines=("${KEYS[WAITS]}")
    unset "KEYS[WAITS]"
    lines+=("${KEYS[@]}")
  else
    [[ -z $WAITS ]] || die "$file has a key that is not in use yet: --rotate use"
    if [[ $how == add ]]; then lines=("${KEYS[@]}" "$MARK" "$(random_key)"); else lines=("$(random_key)" "${KEYS[@]}"); fi
  fi
  new_file_beside "$file"
  printf '%s\n' "${lines[@]}" >"$NEW"
  put_in_place "$file" 600
  show_keys "$file"
  next_steps "$file" "$how"
}

encryption() {
  local file=$1
  if [[ -L $file ]]; then file=$(readlink -f -- "$file"); fi  # the file is renewed, not the link to it
  if [[ -n $ROTATE ]]; then rotate "$file" "$ROTATE"; return; fi
  if ((SHOW)); then show_keys "$file"; return; fi
  if [[ -e $file ]]; then
    ((FORCE)) || die "$file is there already; without its keys the rows that they encrypted are lost (--rotate keeps them)"
    cp -p -- "$file" "$file.old-$(date -u +%Y%m%dT%H%M%SZ)"
  fi
  new_file_beside "$file"
  random_key >"$NEW"
  put_in_place "$file" 600
  show_keys "$file"
  say "made $file: give every backend the same one (message-encryption-key-file), owned by its user"
}

# --- Certificates

OCTET='(25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])'
subject_names() {  # HOST,HOST,… as OpenSSL wants subjectAltName
  local host out=''
  local -a hosts
  IFS=',' read -ra hosts <<<"$1"
  ((${#hosts[@]} > 0)) || die "--hosts names nobody"
  for host in "${hosts[@]}"; do
    if [[ $host =~ ^$OCTET(\.$OCTET){3}$ || $host =~ ^[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*$ ]]; then
      out+=",IP:$host"
    elif [[ ! $host =~ ^[0-9.]+$ && $host =~ ^(\*\.)?[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9])?$ ]]; then
      out+=",DNS:$host"
    else
      die "neither a name nor an address: $host"
    fi
  done
  printf '%s' "${out#,}"
}

make_private_key() {  # to a file
  if ((RSA)); then
    openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:3072 -out "$1" 2>/dev/null
  else
    openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1"
  fi
  openssl pkey -in "$1" -noout 2>/dev/null || die "the new key could not be written: is the disk full?"  # genpkey doesn't say
}

serial() { local bytes; bytes=$(od -An -N16 -tx1 /dev/urandom); bytes=${bytes//[[:space:]]/}; printf '0x7%s' "${bytes:1}"; }

make_authority() {
  local dir=$1
  NEW=$(mktemp -d -- "$dir/.new.XXXXXX")
  make_private_key "$NEW/ca.key"
  openssl req -x509 -new -sha256 -key "$NEW/ca.key" -days "$CA_DAYS" -set_serial "$(serial)" -out "$NEW/ca.crt" \
    -subj "/CN=dlb authority $(date -u +%Y-%m-%d)" -addext basicConstraints=critical,CA:TRUE,pathlen:0 \
    -addext keyUsage=critical,keyCertSign,cRLSign
  chmod 644 "$NEW/ca.crt"
  mv -f -- "$NEW/ca.key" "$dir/ca.key"
  mv -f -- "$NEW/ca.crt" "$dir/ca.crt"
  rm -rf -- "$NEW"
  NEW=''
  say "made $dir/ca.crt, the authority: clients get it; $dir/ca.key signs, and belongs on none of the systems"
}

sign() {  # sign DIR KEY NAMES OUT: a certificate of the authority in DIR for KEY
  local usage=digitalSignature
  if openssl pkey -in "$2" -noout -text | grep -q 'modulus:'; then usage+=,keyEncipherment; fi
  openssl req -new -sha256 -key "$2" -subj "/CN=dlb $NAME" |
    openssl x509 -req -sha256 -days "$DAYS" -set_serial "$(serial)" -CA "$1/ca.crt" -CAkey "$1/ca.key" -out "$4" \
      -extfile <(printf '%s\n' "basicConstraints=critical,CA:FALSE" "keyUsage=critical,$usage" extendedKeyUsage=serverAuth \
        "subjectAltName=$3" subjectKeyIdentifier=hash authorityKeyIdentifier=keyid) 2>/dev/null ||
    die "no certificate could be made for $3 by $1/ca.crt and ca.key"
  openssl verify -CAfile "$1/ca.crt" "$4" >/dev/null || die "the new certificate does not verify by $1/ca.crt"
}

names_of() {  # of a certificate, as sign() wants them
  openssl x509 -in "$1" -noout -ext subjectAltName | sed -n '2,$p' | sed 's/IP Address:/IP:/g; s/[[:space:]]//g' | tr -d '\n'
}

good_until() { openssl x509 -in "$1" -noout -enddate | cut -d= -f2; }

certificate() {
  local dir=$1 base=$1/$NAME names
  command -v openssl >/dev/null || die "openssl is missing: run deploy/setup.sh"
  if ((CHECK)); then
    [[ -f $base.crt ]] || die "there is no $base.crt"
    say "$base.crt is good until $(good_until "$base.crt"), for $(names_of "$base.crt")"
    openssl x509 -in "$base.crt" -noout -checkend $((${GIVEN_DAYS:-30} * 86400)) >/dev/null || die "renew it: --renew"
    return
  fi
  if ((RENEW)); then
    [[ -f $base.crt && -f $base.key ]] || die "$base.crt and $base.key are not both there: --hosts makes them"
    names=${HOSTS:+$(subject_names "$HOSTS")}
    names=${names:-$(names_of "$base.crt")}
  else
    [[ -n $HOSTS ]] || usage_error "certificate needs --hosts"
    names=$(subject_names "$HOSTS")
    [[ ! -e $base.crt && ! -e $base.key ]] || ((FORCE)) || die "$base.crt or .key is there already: --renew, or --force"
    mkdir -p -- "$dir"
  fi
  [[ -e $dir/ca.crt && -e $dir/ca.key ]] || {
    [[ ! -e $dir/ca.crt && ! -e $dir/ca.key ]] || die "one of $dir/ca.crt and $dir/ca.key is there without the other"
    ((!RENEW)) || die "$dir/ca.key is not there: bring it back for this"
    make_authority "$dir"
  }
  NEW=$(mktemp -d -- "$dir/.new.XXXXXX")
  local work=$NEW key=$base.key
  if ((!RENEW)); then key=$work/key; make_private_key "$key"; fi
  sign "$dir" "$key" "$names" "$work/crt"
  if ((!RENEW)); then
    rm -f -- "$base.crt"  # never a certificate beside a key that is not its own
    NEW=$key; put_in_place "$base.key" 600
  fi
  NEW=$work/crt; put_in_place "$base.crt" 644
  rm -rf -- "$work"
  say "made $base.crt for $names, good until $(good_until "$base.crt")"
  say "next: SIGHUP (or lb ctl reload) makes lb and the backends read it; new connections get it, none is cut"
}

# --- The command line

ROTATE='' HOSTS='' NAME=server DAYS=397 GIVEN_DAYS='' CA_DAYS=3650
SHOW=0 FORCE=0 RENEW=0 CHECK=0 RSA=0

number() { [[ $2 =~ ^[1-9][0-9]{0,4}$ ]] || usage_error "$1 takes a number of days"; }

main() {
  local command=${1:-} target=${2:-}
  [[ $command != -h && $command != --help && $command != help ]] || { usage; exit 0; }
  [[ $command == encryption || $command == certificate ]] || usage_error "what is to be made: encryption or certificate?"
  [[ -n $target && $target != -* ]] || usage_error "$command where to?"
  shift 2
  while (($# > 0)); do
    case $1 in
      --show) SHOW=1 ;;
      --force) FORCE=1 ;;
      --renew) RENEW=1 ;;
      --check) CHECK=1 ;;
      --rsa) RSA=1 ;;
      --rotate | --hosts | --name | --days | --ca-days)
        (($# > 1)) || usage_error "$1 needs a value"
        case $1 in
          --rotate) ROTATE=$2; [[ $2 =~ ^(add|use|now)$ ]] || usage_error "--rotate add, use or now?" ;;
          --hosts) HOSTS=$2 ;;
          --name) NAME=$2; [[ $2 =~ ^[A-Za-z0-9][A-Za-z0-9._-]*$ && $2 != ca ]] || usage_error "--name: letters and digits" ;;
          --days) number "$1" "$2"; DAYS=$2 GIVEN_DAYS=$2 ;;
          --ca-days) number "$1" "$2"; CA_DAYS=$2 ;;
        esac
        shift
        ;;
      *) usage_error "unknown: $1" ;;
    esac
    shift
  done
  "$command" "$target"
}

main "$@"
