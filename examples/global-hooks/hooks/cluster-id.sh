#!/usr/bin/env bash
# Gives the cluster an id once and keeps it in the ConfigMap.
set -euo pipefail

if [[ "${1:-}" == "--config" ]]; then
  cat <<'EOF'
configVersion: v1
onStartup: 10
beforeAll: 10
EOF
  exit 0
fi

if [[ -n "$(jq -r '.global.clusterId // ""' "$VALUES_PATH")" ]]; then
  exit 0
fi

id="$(od -An -N8 -tx1 /dev/urandom | tr -d ' \n')"
jq -n -c --arg id "$id" '[{op: "add", path: "/global/clusterId", value: $id}]' >"$CONFIG_VALUES_JSON_PATCH_PATH"
echo "this cluster is now called $id"
