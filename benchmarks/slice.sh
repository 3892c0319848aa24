#!/usr/bin/env bash
# The study on a machine with a GPU and without a network, in short commands:
#
#   slice.sh get FOLDER         keep the pieces of sets (benchmarks/pieces.py) that came with this command, and put
#                               together what is whole; while something runs, too
#   slice.sh start 'COMMAND'    copy code and journals aside, run the command there in the background
#   slice.sh wait SECONDS       wait for it, show the end of its log, pack its journals into $OUT; there every minute
#                               too, for the case that this is cut
#
# The command finds the sets in $WORK/data and goes on in $WORK/study, a copy of results/study:
#
#   slice.sh start 'python3 benchmarks/study.py run --data $WORK/data --out $WORK/study --minutes 27'
set -euo pipefail
export WORK=${WORK:-${TMPDIR:-/tmp}/slice}
here=$(cd "$(dirname "$0")/.." && pwd)
pack() { # whole at once, whenever the machine goes
  [ -n "${OUT:-}" ] || return 0
  cp "$WORK/log" "$OUT/slice.log"
  tar czf "$WORK/study.tar.gz" --exclude=models -C "$WORK" study || [ $? = 1 ] || return 0 # 1: a journal grew meanwhile
  cp "$WORK/study.tar.gz" "$OUT/.study" && mv "$OUT/.study" "$OUT/study.tar.gz"
}
mkdir -p "$WORK/pieces"
case ${1:-} in
get)
  cp -r "$2"/. "$WORK/pieces/"
  nice python3 "$here/benchmarks/pieces.py" join "$WORK/pieces" "$WORK/data"
  ;;
start)
  if [ -e "$WORK/pid" ] && [ ! -e "$WORK/ended" ]; then
    echo "the last command has not ended (process $(cat "$WORK/pid")); wait for it, or end it and remove $WORK/pid" >&2
    exit 1
  fi
  rm -rf "$WORK/code" "$WORK/ended"
  mkdir "$WORK/code"
  cp -r "$here/src" "$here/benchmarks" "$here/results" "$WORK/code/"
  [ -e "$WORK/study" ] || cp -r "$here/results/study" "$WORK/study"
  : >>"$WORK/log" # there for whoever reads it before the command has begun
  cd "$WORK/code"
  # in brackets, so that `exit` and `set -e` end the command and not what says that it has ended
  PYTHONUNBUFFERED=1 setsid nohup bash -c "($2"$'\n''); echo $? >"$WORK/ended"' >>"$WORK/log" 2>&1 </dev/null &
  echo $! >"$WORK/pid"
  sleep "${SHOW:-5}"
  tail -n 20 "$WORK/log"
  ;;
wait)
  if [ ! -e "$WORK/pid" ]; then
    echo "nothing was started on this machine; if the machine is new, get the pieces again and start" >&2
    exit 1
  fi
  end=$((SECONDS + $2)) packed=$SECONDS
  while [ $SECONDS -lt $end ] && [ ! -e "$WORK/ended" ]; do
    sleep 1
    if [ $((SECONDS - packed)) -ge 60 ]; then
      pack
      packed=$SECONDS
    fi
  done
  tail -n "${LINES_SHOWN:-40}" "$WORK/log"
  tail -n 2 "$WORK/study/slices.jsonl" || true
  nvidia-smi --query-gpu=utilization.gpu,memory.used,power.draw,clocks.sm,clocks.max.sm --format=csv,noheader || true
  if [ -e "$WORK/ended" ]; then echo "ended with $(cat "$WORK/ended")"; else echo "still running"; fi
  pack
  ;;
*)
  sed -n '2,12s/^# \{0,1\}//p' "$0"
  exit 2
  ;;
esac
