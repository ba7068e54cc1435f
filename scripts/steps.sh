# Sourced by the other scripts: one named step after the other, each with its log, its time, a sign
# of life while it runs, and a clear sentence if it fails.

# Help is the comment that a script begins with.
case ${1:-} in
  -h | --help) exec sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0" ;;
esac

unset CDPATH # with it, cd may go elsewhere, and prints where it is
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
logs=$root/build/logs
me=scripts/$(basename "$0")
columns=$(stty size 2>/dev/null </dev/tty | cut -d ' ' -f 2) || true
((${columns:-0} >= 40)) || columns=80

# Says one sentence on standard error and ends the script.
fail() {
  printf '%s: %s\n' "$me" "$1" >&2
  exit 1
}

# at_most COUNT ARGUMENT…: refuses what a script would ignore.
at_most() {
  local count=$1
  shift
  (($# <= count)) || fail "unexpected argument '${*:count+1:1}'; $me --help says what there is"
}

# A dumb terminal gets lines, as a file does.
is_drawn() { [ -t 1 ] && [ "${TERM:-dumb}" != dumb ]; }

# step NAME COMMAND…: runs the command into a log. While it runs, its latest line is shown on a
# terminal and every half minute elsewhere. Where it fails, the script ends with the log's tail. Steps of
# scripts that run at the same time come one after the other: they build in the same folders. The command
# itself has no part in that, so that what a killed script leaves behind is in nobody's way.
step() {
  local name=$1 turn log started pid status=0 last='' shown=0
  shift
  mkdir -p "$logs"
  exec {turn}>>"$logs/turn"
  flock --nonblock "$turn" || status=$?
  if ((status == 1)); then # not where files cannot be locked
    printf '%s: waiting for another script in this checkout, %s\n' "$name" "$(cat "$logs/turn")"
    flock "$turn"
  fi
  status=0
  printf '%s: %s\n' "$me" "$name" >"$logs/turn"
  log=$logs/$(printf '%s' "$name" | tr -cs 'a-zA-Z0-9' '-').log
  : >"$log"
  # Root may install the packages in the checkout of a user, who builds there afterwards.
  ((EUID != 0)) || chown --reference="$root" "${logs%/*}" "$logs" "$logs/turn" "$log" 2>/dev/null || true
  started=$SECONDS
  is_drawn || printf '%s …\n' "$name"
  set -m # a process group of its own, so that an interrupt can end all of it
  "$@" >"$log" 2>&1 </dev/null {turn}>&- &
  pid=$!
  set +m
  trap 'kill -- "-$pid" 2>/dev/null; exit 130' HUP INT TERM
  while kill -0 "$pid" 2>/dev/null; do
    if is_drawn; then
      last=$(tail -n 1 "$log" | tr -d '\r')
      printf '\r\033[K%s … %d s  %s' "$name" $((SECONDS - started)) "${last:0:$((columns - ${#name} - 14))}"
    elif ((SECONDS - started >= shown + 30)); then
      shown=$((SECONDS - started))
      printf '  %d s: %s\n' "$shown" "$(tail -n 1 "$log" | cut -c 1-100)"
    fi
    sleep 0.2
  done
  wait "$pid" || status=$?
  trap - HUP INT TERM
  exec {turn}>&-
  is_drawn && printf '\r\033[K'
  if ((status != 0)); then
    printf '%s: failed after %d s\n' "$name" $((SECONDS - started))
    tail -n "${failure_lines:-60}" "$log"
    fail "the step '$name' failed with status $status; all it said is in ${log#"$root"/}"
  fi
  printf '%s: done in %d s\n' "$name" $((SECONDS - started))
}
