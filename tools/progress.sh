# SPDX-License-Identifier: Apache-2.0
# Source this: runs commands in parallel. Each gets one line that says how long it took, instead of its output, and a
# log in $logs. At most $lanes run at a time; unset: all. With $quiet, what goes well gets no line: seconds_of has the time.

names=()      # of what is under way
processes=()  # theirs, by name's place
built=        # the names of all that went well so far
failed=       # and of what did not

# begin NAME COMMAND...: waits for a lane if there is none.
begin() {
  local log=$logs/$1.log begun=$SECONDS
  mkdir -p "$logs"
  while [ ${#names[@]} -ge "${lanes:-1000}" ]; do watch_all; done
  (
    SECONDS=0
    trap 'echo $SECONDS >"$log.seconds"' EXIT
    "${@:2}" >"$log" 2>&1 </dev/null
  ) &
  names+=("$1")
  processes+=($!)
}

# finish: waits for all commands begun. If one of them fails, it fails too.
finish() {
  local begun=$SECONDS
  while [ ${#names[@]} -gt 0 ]; do watch_all; done
  [ -z "$failed" ]
}

# Reports those that have ended. On a terminal, one line shows the progress of the others, as ninja's [12/75] does.
watch_all() {
  local i line='' step
  for i in "${!names[@]}"; do
    if kill -0 "${processes[i]}" 2>/dev/null; then
      step=$(tail -n 1 "$logs/${names[i]}.log" 2>/dev/null | grep -o '^\[[0-9]*/[0-9]*\]' || true)
      line+=" ${names[i]}$step"
    else
      report "$i"
      unset "names[i]" "processes[i]"
    fi
  done
  names=("${names[@]}") processes=("${processes[@]}")
  [ ! -t 1 ] || printf '\r\033[K   %d s:%.100s' $((SECONDS - begun)) "$line"
  sleep 0.2
}

seconds_of() { cat "$logs/$1.log.seconds"; }

# report PLACE: reports one that has ended. If it failed, shows the end of its log.
report() {
  local name=${names[$1]} log=$logs/${names[$1]}.log
  [ ! -t 1 ] || printf '\r\033[K'
  if wait "${processes[$1]}"; then
    built+=" $name"
    [ -n "${quiet:-}" ] || echo "   $name: $(seconds_of "$name") s"
  else
    failed+=" $name"
    echo "   $name failed; the end of ${log#"$PWD"/}:"
    tail -n 40 "$log" | sed 's/^/      /'
  fi
}
