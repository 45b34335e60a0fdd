#!/usr/bin/env bash
# Compares thresholds (or policies) of the balancer: the whole system anew for each run, one seed, rounds in random order, and
# at the end one page (index.html in --out) and a verdict, which may be "no difference". How to read it: bench/README.md.
#
#   bench/sweep.sh [--quick | --full] [--thresholds 55,60,65,70,75 | --policies score,adaptive,least_conn] [--out DIR]
#   bench/sweep.sh --plot-only --out DIR       bench/sweep.sh --self-check 10       bench/sweep.sh --help
#
# A sweep that was stopped goes on where it was when the same is called again with the same --out.
set -euo pipefail
ROOT=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
case " $* " in
  *" --plot-only "* | *" --help "* | *" -h "*) ;;
  *)
    # As test/run.sh and deploy/demo.sh build, where they have: compiling all once more takes minutes.
    unity=UNITY=
    if [[ -d $ROOT/build/release/unity ]]; then unity=UNITY=1; fi
    mkdir -p -- "$ROOT/build"
    make -C "$ROOT" -s "-j$(nproc)" "$unity" lb backend loadgen >"$ROOT/build/sweep-build.log" 2>&1 || {
      tail -n 25 -- "$ROOT/build/sweep-build.log" >&2
      echo "sweep: the build failed (build/sweep-build.log)" >&2
      exit 1
    }
    ;;
esac
exec python3 "$ROOT/bench/sweep.py" "$@"
