# SPDX-License-Identifier: Apache-2.0
# Source this: which languages can be built here, and why the others cannot. tests/tools/test_languages.py

# needs_of LANGUAGE: the tools of a language, each with the minimum version, or 0 for any.
needs_of() {
  case $1 in
    Python) echo "python3 3.10" ;;
    Rust) echo "rustc 1.88 cargo 1.88" ;;  # of the binding's tests and their dependencies
    Go) echo "go 1.24" ;;
    Java) echo "swig 4.0 javac 11 java 11 jar 11" ;;
    'C#') echo "swig 4.0 mcs 0 mono 0" ;;
    Lua) echo "swig 4.0 lua5.4 0" ;;
    Ruby) echo "swig 4.0 ruby 0" ;;
    *) echo "needs_of: no language $1" >&2; return 1 ;;
  esac
}

# version_of TOOL: the first version number that it prints, such as 1.85.0.
version_of() {
  local option=--version
  case $1 in
    go) option=version ;;
    swig) option=-version ;;
  esac
  local words
  words=$("$1" $option 2>&1 || true)
  [[ $words =~ [0-9]+(\.[0-9]+)+ ]] && echo "${BASH_REMATCH[0]}"
}

# at_least HAVE WANTED: whether HAVE is at least WANTED.
at_least() {
  local -a have wanted
  local i
  IFS=. read -ra have <<<"$1"
  IFS=. read -ra wanted <<<"$2"
  for ((i = 0; i < ${#wanted[@]}; ++i)); do
    ((${have[i]:-0} == wanted[i])) || { ((${have[i]:-0} > wanted[i])); return; }
  done
}

# lacks LANGUAGE: why the language cannot be built here, in a few words; nothing if it can.
lacks() {
  local needs tool wanted have
  read -ra needs <<<"$(needs_of "$1")"
  set -- "${needs[@]}"
  for (( ; $# > 0; )); do
    tool=$1 wanted=$2
    shift 2
    if ! command -v "$tool" >/dev/null; then
      echo "$tool is not here"
      return
    fi
    [ "$wanted" != 0 ] || continue
    have=$(version_of "$tool" || true)
    if ! at_least "${have:-0}" "$wanted"; then
      echo "$tool is ${have:-of no known version}, and $wanted or later is needed"
      return
    fi
  done
}

fits() { [ -z "$(lacks "$1")" ]; }
