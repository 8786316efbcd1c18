# SPDX-License-Identifier: Apache-2.0
# To be sourced: install_tools FOLDER REQUIREMENT... puts a virtual environment with these into FOLDER, unless it is there.
install_tools() {
  local folder=$1
  shift
  [ "$(cat "$folder/installed" 2>/dev/null)" != "$*" ] || return 0
  echo "== python: tools"
  python3 -m venv --clear "$folder"
  "$folder/bin/python" -m pip -q --disable-pip-version-check install "$@"
  echo "$*" >"$folder/installed"
}
