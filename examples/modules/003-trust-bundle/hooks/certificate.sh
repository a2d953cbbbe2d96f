#!/usr/bin/env bash
# Passes the certificate in the Secret internal-ca to the chart.
set -euo pipefail

if [[ "${1:-}" == "--config" ]]; then
  cat <<EOF
configVersion: v1
beforeHelm: 10
kubernetes:
  - name: authority
    apiVersion: v1
    kind: Secret
    nameSelector:
      matchNames: [internal-ca]
    namespace:
      nameSelector:
        matchNames: ["${ADDON_OPERATOR_NAMESPACE:-addon-operator}"]
    jqFilter: '.data["tls.crt"]'
    keepFullObjectsInMemory: false
    includeSnapshotsFrom: [authority]
EOF
  exit 0
fi

certificate="$(jq -r '.[-1].snapshots.authority[0].filterResult // "" | @base64d' "$BINDING_CONTEXT_PATH")"
if [[ -z "$certificate" ]]; then
  echo "the Secret internal-ca does not exist yet"
  exit 0
fi
jq -n -c --arg certificate "$certificate" \
  '[{op: "add", path: "/trustBundle/internal", value: {certificate: $certificate}}]' >"$VALUES_JSON_PATCH_PATH"
