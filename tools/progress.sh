# SPDX-License-Identifier: Apache-2.0
# Source this: runs commands in parallel. Each gets one line that says how long it took, instead of its output, and a
# log in $demo/logs.

names=()      # of what is under way
processes=()  # theirs, by name's place
built=        # the names of all that went well so far
failed=       # and of what did not

# begin NAME COMMAND...
begin() {
  local log=$demo/logs/$1.log
  (
    SECONDS=0
    code=0
    "${@:2}" >"$log" 2>&1 </dev/null || code=$?
    echo $SECONDS >"$log.seconds"
    exit $code
  ) &
  names+=("$1")
  processes+=($!)
}

# finish: waits for all commands begun. On a terminal, one line shows their progress, as ninja's [12/75] does. If one of
# them fails, it fails too and shows the end of that log.
finish() {
  local i waiting line step code=0 begun=$SECONDS
  local -A seen=()
  while :; do
    waiting=0 line=
    for i in "${!names[@]}"; do
      [ -z "${seen[$i]:-}" ] || continue
      if kill -0 "${processes[i]}" 2>/dev/null; then
        waiting=1
        step=$(tail -n 1 "$demo/logs/${names[i]}.log" 2>/dev/null | grep -o '^\[[0-9]*/[0-9]*\]' || true)
        line+=" ${names[i]}$step"
      else
        seen[$i]=yes
        report "$i" || code=1
      fi
    done
    [ $waiting = 1 ] || break
    [ ! -t 1 ] || printf '\r\033[K   %d s:%.100s' $((SECONDS - begun)) "$line"
    sleep 0.2
  done
  names=() processes=()
  return $code
}

# report PLACE: reports one that has ended.
report() {
  local name=${names[$1]} log=$demo/logs/${names[$1]}.log
  [ ! -t 1 ] || printf '\r\033[K'
  if wait "${processes[$1]}"; then
    built+=" $name"
    echo "   $name: $(cat "$log.seconds") s"
  else
    failed+=" $name"
    echo "   $name failed; the end of ${log#"$PWD"/}:"
    tail -n 15 "$log" | sed 's/^/      /'
    return 1
  fi
}
