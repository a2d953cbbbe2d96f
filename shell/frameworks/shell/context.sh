# What a hook reads from the binding context that is being handled: item BINDING_CONTEXT_CURRENT_INDEX of the array in
# BINDING_CONTEXT_PATH.
#
# A PATH names a value by keys with dots: `object.metadata.name`, `snapshots.pods.0.filterResult`, `labels.my-label`,
# `labels."app.kubernetes.io/name"`. It may begin with a dot, and any jq may follow: `objects[0]`, `snapshots | keys`.

# context::global::jq ARGS… — jq over the whole array of contexts.
context::global::jq() {
  jq "$@" "${BINDING_CONTEXT_PATH:?}"
}

# context::jq ARGS… — jq with any options over the current context.
context::jq() {
  context::global::jq -c ".[${BINDING_CONTEXT_CURRENT_INDEX:-0}]" | jq "$@"
}

# context::get [--required] [PATH] — the value: text as it is, the rest as JSON, maps and lists over several lines;
# `null` if the path does not exist. With --required a missing path is an error, a null is not.
context::get() {
  local status=0
  if [[ "${1:-}" == --required ]]; then
    shift
    context::has "${1:-}" || status=$?
    if ((status == 1)); then
      echo "Error: Value ${1:-} required, but doesn't exist" >&2
      return 1
    fi
  fi
  context::global::jq -r ".[${BINDING_CONTEXT_CURRENT_INDEX:-0}] | $(context::_convert_user_path_to_jq_path "${1:-}")"
}

# The conditions print nothing. They return 0 for yes, 1 for no, and 5 where the path does not fit the data: a key of a
# text, an index of a map.

# context::has PATH — the path exists, with null too.
context::has() {
  context::_test "path($(context::_convert_user_path_to_jq_path "${1:-}")) as \$path
    | \$path == [] or (getpath(\$path[:-1]) | . != null and has(\$path[-1]))"
}

# context::is_true PATH — the value is true; the text "true" is not.
context::is_true() {
  context::_test "$(context::_convert_user_path_to_jq_path "${1:-}") | . == true"
}

# context::is_false PATH — the value is false.
context::is_false() {
  context::_test "$(context::_convert_user_path_to_jq_path "${1:-}") | . == false"
}

# context::is_null PATH — the value is null, or the path does not exist.
context::is_null() {
  context::_test "$(context::_convert_user_path_to_jq_path "${1:-}") | . == null"
}

# context::_test FILTER — succeeds when the filter is true for the current context.
context::_test() {
  context::global::jq -e ".[${BINDING_CONTEXT_CURRENT_INDEX:-0}] | try ($1) catch (\"\" | halt_error(5))" >/dev/null
}

# The functions below have names that libraries built on this one call.

# context::_convert_user_path_to_jq_path PATH — the same as a jq path.
context::_convert_user_path_to_jq_path() {
  local -a keys
  local rest
  context::_split "${1:-}"
  context::_join "$rest" "${keys[@]}"
}

# context::_dirname PATH — the jq path of what contains the value.
context::_dirname() {
  local -a keys
  local rest
  context::_split "${1:-}"
  if ((${#keys[@]} > 0)); then unset 'keys[-1]'; fi
  context::_join "" "${keys[@]}"
}

# context::_basename PATH — the last key or index, without quotes and brackets.
context::_basename() {
  local -a keys
  local rest key=""
  context::_split "${1:-}"
  if ((${#keys[@]} > 0)); then key="${keys[-1]}"; fi
  key="${key#.}" key="${key#[}" key="${key%]}"
  key="${key#\"}" key="${key%\"}"
  printf '%s\n' "$key"
}

# context::_join REST KEYS…
context::_join() {
  local IFS=""
  local path="${*:2}$1"
  [[ "$path" == .* ]] || path=".$path"
  printf '%s\n' "$path"
}

# context::_split PATH — sets `keys` to the keys at the beginning of the path as jq writes them (.key, ."my-key", [0]),
# and `rest` to what follows them, any jq.
context::_split() {
  local word='^\.([A-Za-z0-9_-]+)' double='^\."([^"\\]|\\.)*"' single="^\.'([^']*)'" brackets='^\.?\[[^][]*\]|^\?'
  local key
  keys=() rest=".${1#.}"
  while true; do
    if [[ "$rest" =~ $word ]]; then
      key="${BASH_REMATCH[1]}"
      if [[ "$key" != *[!0-9]* ]]; then
        keys+=("[$key]")
      elif [[ "$key" == [0-9]* || "$key" == *-* ]]; then
        keys+=(".\"$key\"")
      else
        keys+=(".$key")
      fi
    elif [[ "$rest" =~ $single ]]; then
      key="${BASH_REMATCH[1]}"
      keys+=(".\"${key//\"/\\\"}\"")
    elif [[ "$rest" =~ $double || "$rest" =~ $brackets ]]; then
      keys+=("${BASH_REMATCH[0]}")
    else
      return 0
    fi
    rest="${rest:${#BASH_REMATCH[0]}}"
  done
}
