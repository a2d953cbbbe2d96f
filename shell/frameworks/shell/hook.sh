# Calls the functions of a hook.

# hook::run ARGS… — with `--config` calls __config__, else for each binding context, in order, the first of these
# functions that the hook defines:
#
#   onStartup                 __on_startup
#   beforeAll and friends     __on_before_all __on_after_all __on_before_helm __on_after_helm
#                             __on_before_delete_helm __on_after_delete_helm
#   schedule                  __on_schedule::NAME
#   a group                   __on_group::GROUP
#   kubernetes, at start      __on_kubernetes::NAME::synchronization
#   kubernetes, an event      __on_kubernetes::NAME::added (modified, deleted)
#                             __on_kubernetes::NAME::added_or_modified
#   kubernetes, both          __on_kubernetes::NAME
#   all of them               __main__
#
# The functions find the index in BINDING_CONTEXT_CURRENT_INDEX and the binding's name in
# BINDING_CONTEXT_CURRENT_BINDING, and ask for the rest with context::*. The first one that fails ends the hook.
hook::run() {
  if [[ "${1:-}" == "--config" ]]; then
    hook::config
    return
  fi

  local summary line contexts=() index=-1
  # One jq for all contexts: reading a large file is what costs.
  summary="$(context::global::jq -r '.[] | [.type, .binding, .watchEvent, .groupName] | map(. // "" | tostring) | join("\u001f")')"
  [[ -n "$summary" ]] || return 0
  mapfile -t contexts <<<"$summary"

  for line in "${contexts[@]}"; do
    index=$((index + 1))
    hook::handle "$index" "$line"
  done
}

hook::config() {
  if ! declare -F __config__ >/dev/null; then
    echo "the hook defines no function __config__" >&2
    return 1
  fi
  __config__
}

# hook::handle INDEX LINE — finds the function for one context and calls it.
hook::handle() {
  local type binding event group handler
  IFS=$'\x1f' read -r type binding event group <<<"$2"
  export BINDING_CONTEXT_CURRENT_INDEX="$1"
  export BINDING_CONTEXT_CURRENT_BINDING="$binding"

  local handlers=()
  mapfile -t handlers < <(hook::handlers "$type" "$binding" "$event" "$group")
  for handler in "${handlers[@]}"; do
    if declare -F -- "$handler" >/dev/null; then
      # Not as a condition: errexit must hold inside of it.
      "$handler"
      return
    fi
  done
  echo "the hook defines none of the functions for binding '$binding': ${handlers[*]}" >&2
  return 1
}

# hook::handlers TYPE BINDING EVENT GROUP — names of functions for a context, the best first.
hook::handlers() {
  local type="$1" binding="$2" event="$3" group="$4"
  if [[ -n "$group" ]]; then
    echo "__on_group::${group}"
  else
    case "$type" in
      Schedule) echo "__on_schedule::${binding}" ;;
      Synchronization) printf '%s\n' "__on_kubernetes::${binding}::synchronization" "__on_kubernetes::${binding}" ;;
      Event) hook::event_handlers "$binding" "$event" ;;
      *) hook::lifecycle_handler "$binding" ;;
    esac
  fi
  echo __main__
}

hook::event_handlers() {
  local prefix="__on_kubernetes::$1"
  case "$2" in
    Added) printf '%s\n' "${prefix}::added" "${prefix}::added_or_modified" ;;
    Modified) printf '%s\n' "${prefix}::modified" "${prefix}::added_or_modified" ;;
    Deleted) echo "${prefix}::deleted" ;;
  esac
  echo "$prefix"
}

hook::lifecycle_handler() {
  case "$1" in
    onStartup) echo __on_startup ;;
    beforeAll) echo __on_before_all ;;
    afterAll) echo __on_after_all ;;
    beforeHelm) echo __on_before_helm ;;
    afterHelm) echo __on_after_helm ;;
    beforeDeleteHelm) echo __on_before_delete_helm ;;
    afterDeleteHelm) echo __on_after_delete_helm ;;
  esac
}
