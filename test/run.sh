#!/usr/bin/env bash
# From a fresh Debian machine to a tested tree: installs what is missing, builds, runs every test. The last line is
# `N passed, N failed, N skipped`; the exit code is 1 when anything failed.
#
#   test/run.sh [--quick]     --quick: without the sanitizer builds of the programs (unit tests keep theirs)
#
# Stages: packages · release build · checks of the tree · unit tests with ASan and UBSan (the fuzzers' corpora among
# them) · integration with real processes · a part of it on ASan builds · a part on TSan with two workers.
set -uo pipefail

ROOT=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
cd -- "$ROOT" || exit 1
BUILD_DIR=$ROOT/build
mkdir -p -- "$BUILD_DIR"
WORK=$(mktemp -d)
trap 'rm -rf -- "$WORK"' EXIT
trap 'exit 130' INT TERM HUP

quick=0
case ${1:-} in
  '') ;;
  --quick) quick=1 ;;
  *) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac

passed=0 failed=0 skipped=0
started=$SECONDS stage_started=$SECONDS stage_name=''
JOBS=$(nproc)
export PYTHONDONTWRITEBYTECODE=1
# A compiler cache is used where there is one; nothing depends on it.
if [[ -z ${CXX:-} ]] && command -v ccache >/dev/null; then export CXX='ccache g++'; fi

stage() {
  stage_end
  stage_name=$1 stage_started=$SECONDS
  printf '\n== %s\n' "$1"
}
stage_end() {
  if [[ -n $stage_name ]]; then printf -- '-- %s took %s s\n' "$stage_name" $((SECONDS - stage_started)); fi
  stage_name=''
}
finish() {
  stage_end
  printf '\ntest/run.sh took %s s\n' $((SECONDS - started))
  printf '%s passed, %s failed, %s skipped\n' "$passed" "$failed" "$skipped"
  ((failed == 0))
  exit
}
add_tally() {  # a stage that left no tally has failed
  local p f s
  if read -r p f s <"$1" 2>/dev/null; then
    ((passed += p, failed += f, skipped += s))
  else
    ((failed += 1))
  fi
}
# A check that is one test: run it, show its output when it fails.
check() {
  local name=$1
  shift
  if "$@" >"$WORK/check.log" 2>&1; then
    ((passed += 1))
    printf '  %s: ok\n' "$name"
  else
    ((failed += 1))
    printf '  %s: FAILED\n' "$name"
    tail -n 60 "$WORK/check.log"
  fi
}
# A build that all the rest needs: without it there is nothing to go on with.
build() {
  local log=$BUILD_DIR/$1.log
  shift
  if ! make "-j$JOBS" "$@" >"$log" 2>&1; then
    grep -nE -A12 'error|Error [0-9]|undefined reference' "$log" | head -n 80
    printf '  the build failed; all of it is in %s\n' "$log"
    ((failed += 1))
    finish
  fi
}
integration() {  # integration TALLY ARGUMENT…
  local tally=$WORK/$1
  shift
  python3 test/support/run_integration.py --tally "$tally" "$@"
  add_tally "$tally"
}

stage "Packages"
if ! deploy/setup.sh test; then
  ((failed += 1))
  finish
fi

stage "Release build"
build release all

stage "Checks of the tree"
check "include rules" python3 test/check_includes.py
check "style" python3 test/check_style.py

stage "Unit tests (ASan, UBSan)"
build asan-unit asan-unit
mapfile -t units < <(find build/asan/unit -maxdepth 1 -type f -perm -u+x | sort)
python3 test/support/run_unit.py --tally "$WORK/unit" "${units[@]}"
add_tally "$WORK/unit"

stage "Integration (release build)"
integration release

if ((!quick)); then
  stage "Integration (ASan and UBSan build)"
  build asan asan
  integration asan --programs build/asan/bin --time-factor 4 --only lb_proxy --only lb_framing --only lb_failures \
    --only backend_api --only backend_store

  stage "Integration (TSan build, two workers)"
  build tsan tsan-lb
  integration tsan --programs build/tsan/bin --time-factor 6 --only lb_workers
fi

finish
