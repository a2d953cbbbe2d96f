#!/usr/bin/env bash
# Passes the names of the labeled namespaces to the chart.
set -euo pipefail

if [[ "${1:-}" == "--config" ]]; then
  cat <<'EOF'
configVersion: v1
beforeHelm: 10
kubernetes:
  - name: namespaces
    apiVersion: v1
    kind: Namespace
    labelSelector:
      matchLabels:
        guard-rails: "true"
    jqFilter: |
      {
        name: .metadata.name,
        pods: .metadata.annotations["guard-rails/pods"],
        going: (.metadata.deletionTimestamp != null)
      }
    keepFullObjectsInMemory: false
    includeSnapshotsFrom: [namespaces]
    queue: guard-rails
EOF
  exit 0
fi

# Skip namespaces that Kubernetes deletes: Kubernetes also deletes their objects, and Helm cannot create objects in them.
jq -c '[.[-1].snapshots.namespaces[].filterResult
        | select(.going | not)
        | {name} + (if (.pods // "" | test("^[0-9]+$")) then {pods} else {} end)]
       | sort_by(.name)
       | [{op: "add", path: "/guardRails/internal", value: {namespaces: .}}]' \
  "$BINDING_CONTEXT_PATH" >"$VALUES_JSON_PATCH_PATH"
