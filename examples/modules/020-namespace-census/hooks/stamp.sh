#!/usr/bin/env bash
# Annotates each new namespace with the time when the hook first saw it.
set -euo pipefail

if [[ "${1:-}" == "--config" ]]; then
  cat <<'EOF'
configVersion: v1
kubernetes:
  - name: new-namespaces
    apiVersion: v1
    kind: Namespace
    executeHookOnEvent: [Added]
    executeHookOnSynchronization: false
    jqFilter: '{name: .metadata.name, seen: .metadata.annotations["census/first-seen"]}'
    keepFullObjectsInMemory: false
    queue: census
EOF
  exit 0
fi

now="$(date -u +%Y-%m-%dT%H:%M:%SZ)"
jq -c --arg now "$now" '
  .[] | select(.type == "Event") | .filterResult | select(.seen == null)
  | {
      operation: "MergePatch",
      apiVersion: "v1",
      kind: "Namespace",
      name: .name,
      ignoreMissingObject: true,
      mergePatch: {metadata: {annotations: {"census/first-seen": $now}}}
    }' "$BINDING_CONTEXT_PATH" >"$KUBERNETES_PATCH_PATH"
