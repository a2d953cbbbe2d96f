# What a hook asks of the binding context that is being handled, BINDING_CONTEXT_CURRENT_INDEX of the array in
# BINDING_CONTEXT_PATH. PATHs are jq paths, the first dot may be left out: `object.metadata.name`, `.objects[0]`,
# `snapshots["my-pods"]`.

# context::global::jq ARGS… — jq over the whole array of contexts.
context::global::jq() {
  jq "$@" "${BINDING_CONTEXT_PATH:?}"
}

# context::jq ARGS… — jq with any options over the current context.
context::jq() {
  context::global::jq -c ".[${BINDING_CONTEXT_CURRENT_INDEX:-0}]" | jq "$@"
}

# context::get PATH — the value: text and numbers as they are, maps and lists as JSON in one line; `null` if absent.
context::get() {
  context::jq -rc ".${1#.}"
}

# context::has PATH — succeeds when the path exists, with null too.
context::has() {
  context::jq -e "try (path(.${1#.}) as \$path | getpath(\$path[:-1]) | has(\$path[-1])) catch false" >/dev/null
}

# context::is_true PATH — succeeds when the value is true (or the text "true").
context::is_true() {
  context::jq -e "(try (.${1#.}) catch false) | . == true or . == \"true\"" >/dev/null
}

# context::is_false PATH — succeeds when the value is false (or the text "false").
context::is_false() {
  context::jq -e "(try (.${1#.}) catch null) | . == false or . == \"false\"" >/dev/null
}
