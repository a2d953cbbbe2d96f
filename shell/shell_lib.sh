#!/usr/bin/env bash
# Library for hooks written in bash. A hook sources it, defines functions and ends with `hook::run "$@"`:
#
#   #!/usr/bin/env bash
#   source "${SHELL_LIB_PATH:-/shell_lib.sh}"
#   __config__() { echo 'configVersion: v1'; echo 'onStartup: 1'; }
#   __on_startup() { echo started; }
#   hook::run "$@"
#
# In the image this file is /shell_lib.sh. Elsewhere the operator sets SHELL_LIB_PATH.
# It needs bash 4.4 and jq 1.6 or newer, and runs no other program. docs/reference/hooks.md, "The shell library".
#
# This file sets the shell's options and reports failures. Every *.sh below frameworks/shell beside it is sourced:
#
# frameworks/shell/hook.sh     hook::run
# frameworks/shell/context.sh  context::jq, context::get, context::has, context::is_true, context::is_false,
#                              context::is_null
#
# A hook with options of its own may source those files without this one.

set -Eeuo pipefail
shopt -s inherit_errexit failglob

# The ERR trap: prints the calls that led to the failed command, the outermost first. It prints once for a failure, and only if
# the hook ends.
backtrace() {
  local status=$? depth file line calls=" ${FUNCNAME[*]} " level=0
  local -a source_line
  # After `set +e` the hook handles failures itself.
  [[ $- == *e* ]] || return 0
  # Each function that handles a context runs in a subshell of hook::run. Whether the failure of a subshell in there, such as
  # $(…) or a pipe, ends the hook, decides the command around it, which then has this trap, too.
  if [[ "$calls" == *' hook::run '* && "$calls" != *' hook::_config '* ]]; then level=1; fi
  ((BASH_SUBSHELL <= level)) || return 0
  # The failed function has reported the failure.
  if ((BASH_SUBSHELL < level)) && [[ "${FUNCNAME[1]}" == hook::* ]]; then return 0; fi
  {
    echo 'Traceback (most recent call last):'
    for ((depth = ${#FUNCNAME[@]} - 1; depth > 0; depth--)); do
      file="${BASH_SOURCE[depth]}" line="${BASH_LINENO[depth - 1]}" source_line=()
      printf '  File "%s", line %d, in %s\n' "$file" "$line" "${FUNCNAME[depth]}"
      if [[ -r "$file" && "$line" -gt 0 ]]; then mapfile -t -s "$((line - 1))" -n 1 source_line <"$file"; fi
      printf '    %s\n' "${source_line[@]#"${source_line[*]%%[![:space:]]*}"}"
    done
    # It ended without a failed command, such as by `return 1`.
    if [[ "${FUNCNAME[1]}" == hook::_handle ]]; then
      read -r _ line file < <(shopt -s extdebug && declare -F "$name")
      printf '  File "%s", line %d, in %s\n' "$file" "$line" "$name"
    fi
    echo "Exiting with status $status"
  } >&2
}
trap backtrace ERR

# The files lie beside this one, or beside what it is a link to. A copy of it alone uses those of the image.
__shell_lib_file="${BASH_SOURCE[0]}"
if [[ -L "$__shell_lib_file" ]]; then __shell_lib_file="$(readlink -f "$__shell_lib_file")"; fi
if [[ "$__shell_lib_file" != */* ]]; then __shell_lib_file="./$__shell_lib_file"; fi
__shell_lib_dir="${__shell_lib_file%/*}/frameworks/shell"
if [[ ! -d "$__shell_lib_dir" ]]; then __shell_lib_dir=/frameworks/shell; fi
mapfile -t __shell_lib_files < <(
  shopt -s globstar nocaseglob
  printf '%s\n' "$__shell_lib_dir"/**/*.sh
)
for __shell_lib_file in "${__shell_lib_files[@]}"; do
  # shellcheck source=/dev/null
  source "$__shell_lib_file"
done
unset __shell_lib_dir __shell_lib_files __shell_lib_file
