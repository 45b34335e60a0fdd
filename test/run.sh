#!/usr/bin/env bash
# From a fresh Debian machine to a tested tree: installs what is missing, builds, runs every test. The last line is
# `N passed, N failed, N skipped`; the exit code is 1 when anything failed.
#
#   test/run.sh [--quick]     --quick: without the sanitizer builds of the programs (unit tests keep theirs)
#
# Stages: packages · release build · checks of the tree · integration with real processes · unit tests with ASan and UBSan
# (the fuzzers' corpora among them) · a part of the integration on ASan builds · a part on a TSan build with two workers.
# Integration waits more than it computes, so the sanitizer builds run beside it; they are compiled in groups of files.
set -uo pipefail

ROOT=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
cd -- "$ROOT" || exit 1
BUILD_DIR=$ROOT/build
mkdir -p -- "$BUILD_DIR"
WORK=$(mktemp -d)
cleanup() {
  local job
  for job in $(jobs -p); do kill "$job" 2>/dev/null; done
  rm -rf -- "$WORK"
}
trap cleanup EXIT
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
build_failed() {
  grep -nE -A12 'error|Error [0-9]|undefined reference' "$1" | grep -v 'Werror' | head -n 80
  printf '  the build failed; all of it is in %s\n' "$1"
  ((failed += 1))
}
# A build that all the rest needs: without it there is nothing to go on with.
build() {
  local log=$BUILD_DIR/$1.log
  shift
  make "-j$JOBS" "$@" >"$log" 2>&1 || { build_failed "$log"; finish; }
}
# Builds beside the tests, with less of the processor; await_build NAME tells whether it came to a good end.
declare -A builders=()
build_aside() {
  local name=$1
  shift
  nice -n 10 make "-j$JOBS" "$@" >"$BUILD_DIR/$name.log" 2>&1 &
  builders[$name]=$!
}
await_build() {
  wait "${builders[$1]}" && return 0
  build_failed "$BUILD_DIR/$1.log"
  return 1
}
integration() {  # integration TALLY ARGUMENT…
  local tally=$WORK/$1
  shift
  python3 test/support/run_integration.py --tally "$tally" "$@"
  add_tally "$tally"
}

# Which compiler the sanitizer builds get: clang where it is there with its runtime, since it takes half of g++'s time for
# them, and since a second compiler sees what the first doesn't.
sanitizer_compiler() {
  local sanitizers
  echo 'int main() {}' >"$WORK/probe.cc"
  for sanitizers in address,undefined thread; do
    clang++ "-fsanitize=$sanitizers" -o "$WORK/probe" "$WORK/probe.cc" 2>/dev/null && "$WORK/probe" || return
  done
  echo CC=clang
  if [[ ${CXX:-} == ccache* ]]; then echo 'CXX=ccache clang++'; else echo CXX=clang++; fi
}

stage "Packages"
if ! deploy/setup.sh test; then
  ((failed += 1))
  finish
fi

stage "Release build"
# In groups of files and without debug data: that takes a tenth of the time of `make` alone.
build release UNITY=1 all OPT="-O2 -g0 -fno-omit-frame-pointer"

# Warnings and debug data come with other builds: a tenth of the time of this one.
mapfile -t compiler < <(sanitizer_compiler)
bare=(UNITY=1 WARN=-w DEBUG=-g0 "${compiler[@]}")
if ((quick)); then build_aside asan "${bare[@]}" asan-unit; else build_aside asan "${bare[@]}" asan-test; fi

stage "Checks of the tree"
check "include rules" python3 test/check_includes.py
check "include rules, the check itself" python3 test/check_includes.py --self-test
check "style" python3 test/check_style.py

stage "Integration (release build)"
integration release --jobs 3

stage "Unit tests (ASan, UBSan)"
asan_built=0
if await_build asan; then
  asan_built=1
  if ((!quick)); then build_aside tsan "${bare[@]}" tsan-lb; fi
  mapfile -t units < <(find build/asan/unit -maxdepth 1 -type f -perm -u+x | sort)
  python3 test/support/run_unit.py --tally "$WORK/unit" "${units[@]}"
  add_tally "$WORK/unit"
fi

if ((!quick)); then
  if ((asan_built)); then
    stage "Integration (ASan and UBSan build)"
    integration asan --programs build/asan/bin --time-factor 4 --jobs 3 --only lb_framing --only lb_failures --only lb_endings
  fi

  stage "Integration (TSan build, two workers)"
  if ((!asan_built)); then build_aside tsan "${bare[@]}" tsan-lb; fi
  if await_build tsan; then
    integration tsan --programs build/tsan/bin --time-factor 6 --workers 2 --jobs 3 --only lb_workers --only lb_endings \
      --only lb_memory --only lb_proxy_protocol --only lb_tls_test --only lb_tunnel \
      --only lb_upgrade --only lb_reload
  fi
fi

finish
