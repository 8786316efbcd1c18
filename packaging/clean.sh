# SPDX-License-Identifier: Apache-2.0
# To be sourced by packaging/*/try.sh, after `set -euo pipefail`. Takes the folder with the packages as its argument,
# and goes to an empty folder that is removed at the end. Sets
#
#   packages  the folder with the packages
#   here      the folder of try.sh
#   home      the empty folder, which is the home of what `clean` runs
packages=$(realpath "${1:?say where the packages are}")
here=$(dirname "$(realpath "$0")")
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
mkdir "$home/tmp"
cd "$home"

# Nothing that the project has built must be found by chance.
path=
for folder in ${PATH//:/ }; do
  case $folder in "$(realpath "$here/../..")"/*) ;; *) path=${path:+$path:}$folder ;; esac
done

# clean [NAME=VALUE...] COMMAND...: runs the command on the simulated device, with nothing of our own environment.
clean() {
  env -i PATH="$path" HOME="$home" TMPDIR="$home/tmp" LANG=C.UTF-8 GPUPOOL_BACKEND=sim "$@"
}

# package PATTERN: the one package of that name.
package() {
  local found
  mapfile -t found < <(compgen -G "$packages/$1")
  if [ ${#found[@]} != 1 ]; then
    echo "$packages has ${#found[@]} packages $1, not one" >&2
    return 1
  fi
  echo "${found[0]}"
}

# says WORDS FILE: ends the try if the file does not have the words.
says() {
  grep -qF -- "$1" "$2" || { echo "not said: $1" >&2; cat "$2" >&2; exit 1; }
}
