#!/usr/bin/env bash
# Writes a report every five minutes and at start. Deletes the report when the operator removes the module.
set -euo pipefail

if [[ "${1:-}" == "--config" ]]; then
  cat <<'EOF'
configVersion: v1
onStartup: 10
afterDeleteHelm: 10
schedule:
  - name: report
    crontab: "*/5 * * * *"
    allowFailure: true
    queue: census
    includeSnapshotsFrom: [namespaces]
kubernetes:
  - name: namespaces
    apiVersion: v1
    kind: Namespace
    executeHookOnEvent: []
    jqFilter: '.metadata.name'
    keepFullObjectsInMemory: false
    queue: census
    includeSnapshotsFrom: [namespaces]
EOF
  exit 0
fi

namespace="${ADDON_OPERATOR_NAMESPACE:-addon-operator}"
binding="$(jq -r '.[-1].binding' "$BINDING_CONTEXT_PATH")"

case "$binding" in
  onStartup)
    jq -n -c '{name: "census_starts", action: "add", value: 1}' >"$METRICS_PATH"
    ;;
  afterDeleteHelm)
    jq -n -c --arg ns "$namespace" '
      {operation: "DeleteInBackground", apiVersion: "v1", kind: "ConfigMap", namespace: $ns, name: "namespace-census-report"}' \
      >"$KUBERNETES_PATCH_PATH"
    ;;
  *)
    ignored="$(jq -c '.namespaceCensus.ignored' "$VALUES_PATH")"
    jq -c --arg ns "$namespace" --argjson ignored "$ignored" '
      [.[-1].snapshots.namespaces[].filterResult] | map(select(. as $n | $ignored | index($n) | not)) | sort
      | {
          operation: "CreateOrUpdate",
          object: {
            apiVersion: "v1",
            kind: "ConfigMap",
            metadata: {name: "namespace-census-report", namespace: $ns},
            data: {count: (length | tostring), namespaces: join("\n")}
          }
        }' "$BINDING_CONTEXT_PATH" >"$KUBERNETES_PATCH_PATH"
    ;;
esac
