# Calls the functions of a hook.

# hook::run ARGS… — with `--config` calls __config__ and ends the hook. Else calls for each binding context, in order,
# the first of these functions that the hook defines:
#
#   onStartup                 __on_startup
#   beforeAll and friends     __on_before_all __on_after_all __on_before_helm __on_after_helm
#                             __on_before_delete_helm __on_after_delete_helm
#   Schedule                  __on_schedule::NAME
#   Group                     __on_group::GROUP
#   Synchronization           __on_kubernetes::NAME::synchronization __on_kubernetes::NAME
#   Event                     __on_kubernetes::NAME::added (modified, deleted)
#                             __on_kubernetes::NAME::added_or_modified (not deleted)
#                             __on_kubernetes::NAME
#   Validating, Mutating      __on_validating::NAME __on_mutating::NAME
#   Conversion                __on_conversion::NAME::FROM::TO (versions with a dot for the slash) __on_conversion::NAME
#   all of them               __main__
#
# Each function runs in a subshell: `exit 0`, `cd` and variables end with its context. One that fails ends the hook with
# its status. The functions find the index in BINDING_CONTEXT_CURRENT_INDEX and the binding's name in
# BINDING_CONTEXT_CURRENT_BINDING, and read the rest with context::*.
hook::run() {
  if [[ "${1:-}" == --config ]]; then hook::_config; fi

  local lines line index=0
  local -a contexts=()
  # One jq for all contexts: reading a large file is what costs.
  lines="$(hook::_contexts '.[]')" || exit
  if [[ -n "$lines" ]]; then mapfile -t contexts <<<"$lines"; fi
  CONTEXT_LENGTH=${#contexts[@]}
  for line in "${contexts[@]}"; do
    export BINDING_CONTEXT_CURRENT_INDEX="$index"
    hook::_handle "$line"
    index=$((index + 1))
  done
}

hook::_config() {
  if ! declare -F __config__ >/dev/null; then
    echo 'ERROR: The hook defines no function __config__' >&2
    exit 127
  fi
  __config__
  exit
}

# hook::_contexts FILTER — one line for each context that the filter selects: what its handlers' names are made of.
hook::_contexts() {
  context::global::jq -r "if type != \"array\" then error(\"the file holds no array of binding contexts\") else $1 end
    | [.type, .binding // \"unknown\", .watchEvent, .groupName, .fromVersion, .toVersion]
    | map(. // \"\" | tostring | split(\"\\n\") | join(\" \")) | join(\"\\u001f\")"
}

# hook::_handle LINE — calls the handler of one context.
hook::_handle() {
  local type binding name
  local -a names=()
  IFS=$'\x1f' read -r type binding _ <<<"$1"
  export BINDING_CONTEXT_CURRENT_BINDING="$binding"
  HANDLERS="$(hook::_handler_names "$1")" || exit
  IFS=$' \t' read -ra names <<<"$HANDLERS"
  for name in "${names[@]}"; do
    declare -F -- "$name" >/dev/null || continue
    # Not as a condition: errexit must stay in effect in the handler.
    ("$name")
    hook::_end_unless_ok $?
    return
  done
  local list
  list="$(printf ', %s' "${names[@]}")"
  echo "ERROR: Can't find any handler from the list: ${list:2}" >&2
  exit 1
}

# Without errexit, which a hook may switch off, a failed handler still ends the hook.
hook::_end_unless_ok() {
  if (($1 != 0)); then exit "$1"; fi
}

# hook::_handler_names LINE — names of functions for a context, the best first.
hook::_handler_names() {
  local type binding event group from to
  IFS=$'\x1f' read -r type binding event group from to <<<"$1"
  case "$binding/$type" in
    onStartup/*) printf '__on_startup ' ;;
    */Schedule) printf '__on_schedule::%s ' "$binding" ;;
    */Group)
      if [[ -z "$group" ]]; then
        echo "ERROR: The context of type Group for binding '$binding' has no groupName" >&2
        return 1
      fi
      printf '__on_group::%s ' "$group"
      ;;
    */Synchronization) printf '__on_kubernetes::%s ' "$binding::synchronization" "$binding" ;;
    */Event) hook::_event_handler_names "$binding" "$event" ;;
    */Validating) printf '__on_validating::%s ' "$binding" ;;
    */Mutating) printf '__on_mutating::%s ' "$binding" ;;
    */Conversion) printf '__on_conversion::%s ' "$binding::${from/\//.}::${to/\//.}" "$binding" ;;
    *) hook::_lifecycle_handler_name "$binding" ;;
  esac
  echo __main__
}

hook::_event_handler_names() {
  case "$2" in
    Added) printf '__on_kubernetes::%s ' "$1::added" "$1::added_or_modified" "$1" ;;
    Modified) printf '__on_kubernetes::%s ' "$1::modified" "$1::added_or_modified" "$1" ;;
    Deleted) printf '__on_kubernetes::%s ' "$1::deleted" "$1" ;;
  esac
}

hook::_lifecycle_handler_name() {
  case "$1" in
    beforeAll) printf '__on_before_all ' ;;
    afterAll) printf '__on_after_all ' ;;
    beforeHelm) printf '__on_before_helm ' ;;
    afterHelm) printf '__on_after_helm ' ;;
    beforeDeleteHelm) printf '__on_before_delete_helm ' ;;
    afterDeleteHelm) printf '__on_after_delete_helm ' ;;
  esac
}

# The names below are those that libraries with a hook::run of their own call.

# hook::_get_possible_handler_names — the names for the current context.
hook::_get_possible_handler_names() {
  local line
  line="$(hook::_contexts ".[${BINDING_CONTEXT_CURRENT_INDEX:-0}]")" || return
  hook::_handler_names "$line"
}

# The same for libraries from before 2024, where the handler of a group was named after the binding.
hook::_determine_kubernetes_and_scheduler_handlers() {
  local line type binding
  line="$(hook::_contexts ".[${BINDING_CONTEXT_CURRENT_INDEX:-0}]")" || return
  IFS=$'\x1f' read -r type binding _ <<<"$line"
  if [[ "$type" == Group ]]; then printf '__on_group::%s ' "$binding"; fi
  hook::_handler_names "$line"
}
