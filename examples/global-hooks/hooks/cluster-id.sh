#!/usr/bin/env bash
# Generates an ID for the cluster once, and saves it permanently.
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
echo "the ID of this cluster is $id"
