#!/bin/sh
# The first and only process of the machine that scripts/kernels boots: sets the kernel's settings one
# after the other and runs the programs under each. The last line says how many passed; the script
# knows by it that the machine came to its end.

passed=0
failed=0
newline='
'
thp=/sys/kernel/mm/transparent_hugepage/enabled
export PATH=/bin
export STRATA_RELEASE_DELAY_MS=0 # no second thread: calls come in the same order in each run

pass() {
  passed=$((passed + 1))
  echo "passed $1"
}

# fail WHAT OUTPUT
fail() {
  failed=$((failed + 1))
  echo "FAILED $1"
  [ -z "$2" ] || echo "  ${2//$newline/$newline  }"
}

# check COMMAND…: passed with status 0; the last line of a program is its figures.
check() {
  output=$(timeout 120 "$@" 2>&1)
  status=$?
  if [ "$status" = 0 ]; then
    pass "$setting, $*: ${output##*"$newline"}"
  else
    fail "$setting, $*: status $status" "$output"
  fi
}

# put FILE VALUE: what the kernel then says must be the value, or show it as the one chosen.
put() {
  echo "$2" >"$1"
  now=$(cat "$1") # read would take it byte by byte, and /proc/sys gives no second one
  case " $now " in
    " $2 " | *"[$2]"*) ;;
    *) fail "$1 could not be set to $2" "$now" ;;
  esac
}

# under NAME FILE VALUE [COMMAND…]: all programs, and the command, while the file has the value.
under() {
  setting="$1 $3"
  put "$2" "$3"
  shift 3
  check load.linked blocks
  check little_commitment.linked
  check no_mappings_left.linked
  check small_program.linked
  [ $# = 0 ] || check "$@"
}

mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev

under overcommit_memory /proc/sys/vm/overcommit_memory 2
put /proc/sys/vm/overcommit_memory 0
many=$(cat /proc/sys/vm/max_map_count)
under max_map_count /proc/sys/vm/max_map_count 100 # with 25 the loader has too few
put /proc/sys/vm/max_map_count "$many"
# Where the kernel has huge pages to give, a program that asks for them gets them: so a small program
# that has none shows something.
under 'huge pages' $thp always env STRATA_HUGE_PAGES=always small_program.linked huge
under 'huge pages' $thp madvise env STRATA_HUGE_PAGES=always small_program.linked huge
under 'huge pages' $thp never

echo "$passed passed, $failed failed"
poweroff -f
