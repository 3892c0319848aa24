#!/usr/bin/env bash
# The study on a machine with a GPU and without a network, in short commands:
#
#   slice.sh get FOLDER        keep the pieces of a set (benchmarks/pieces.py) that came with this command
#   slice.sh start COMMAND     put the sets together, copy code and journals aside, run the command there in the background
#   slice.sh wait SECONDS      wait for it, show the end of its log, pack its journals into $OUT
#
# The command finds the sets in $WORK/data and goes on in $WORK/study, a copy of results/study:
#
#   slice.sh start python3 benchmarks/study.py run --data $WORK/data --out $WORK/study --minutes 27
set -euo pipefail
WORK=${WORK:-${TMPDIR:-/tmp}/slice}
here=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$WORK/pieces"
running() { kill -0 "$(cat "$WORK/pid")" 2>/dev/null; }
case ${1:-} in
get)
  cp -v "$2"/*.bin "$WORK/pieces/"
  ;;
start)
  shift
  python3 "$here/benchmarks/pieces.py" join "$WORK/pieces" "$WORK/data"
  if [ ! -e "$WORK/code" ]; then
    mkdir "$WORK/code"
    cp -r "$here/src" "$here/benchmarks" "$here/results" "$WORK/code/"
    cp -r "$here/results/study" "$WORK/study"
  fi
  cd "$WORK/code"
  PYTHONUNBUFFERED=1 setsid nohup "$@" >>"$WORK/log" 2>&1 </dev/null &
  echo $! >"$WORK/pid"
  sleep "${SHOW:-5}"
  tail -n 20 "$WORK/log"
  ;;
wait)
  end=$((SECONDS + $2))
  while [ $SECONDS -lt $end ] && running; do sleep 1; done
  tail -n "${LINES_SHOWN:-40}" "$WORK/log"
  tail -n 2 "$WORK/study/slices.jsonl"
  nvidia-smi --query-gpu=utilization.gpu,memory.used,power.draw --format=csv,noheader || true
  if running; then echo "still running"; else echo "ended"; fi
  if [ -n "${OUT:-}" ]; then
    cp "$WORK/log" "$OUT/slice.log"
    tar czf "$OUT/study.tar.gz" --exclude=models -C "$WORK" study
  fi
  ;;
*)
  sed -n '2,11s/^# \{0,1\}//p' "$0"
  exit 2
  ;;
esac
