#!/usr/bin/env bash
# Library for hooks written in bash. A hook sources it, defines functions and ends with `hook::run "$@"`:
#
#   #!/usr/bin/env bash
#   source "${SHELL_LIB_PATH:-/shell_lib.sh}"
#   __config__() { echo 'configVersion: v1'; echo 'onStartup: 1'; }
#   __on_startup() { echo started; }
#   hook::run "$@"
#
# In the image this file is /shell_lib.sh. Elsewhere the operator tells hooks where it is in SHELL_LIB_PATH.
# It needs bash 4 and jq 1.6 or newer. A command that fails ends the hook (errexit, pipefail).
#
# frameworks/shell/hook.sh     hook::run and the functions it calls
# frameworks/shell/context.sh  context::jq, context::get, context::has, context::is_true

set -Eeo pipefail
# Command substitutions too, from bash 4.4 on.
shopt -s inherit_errexit 2>/dev/null || true

for __shell_lib_file in "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")"/frameworks/shell/*.sh; do
  # shellcheck source=/dev/null
  source "$__shell_lib_file"
done
unset __shell_lib_file
