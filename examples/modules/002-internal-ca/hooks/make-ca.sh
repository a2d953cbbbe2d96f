#!/usr/bin/env bash
# Creates the certificate authority if it does not exist.
set -euo pipefail

if [[ "${1:-}" == "--config" ]]; then
  cat <<'EOF'
configVersion: v1
beforeHelm: 10
EOF
  exit 0
fi

if jq -e '.internalCa.ca.key and .internalCa.ca.certificate' "$VALUES_PATH" >/dev/null; then
  exit 0
fi

name="$(jq -r '.internalCa.commonName' "$VALUES_PATH")"
days="$(jq -r '.internalCa.days' "$VALUES_PATH")"

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
umask 077
openssl req -x509 -newkey rsa:2048 -nodes -sha256 -days "$days" -subj "/CN=$name" \
  -keyout "$work/ca.key" -out "$work/ca.crt" 2>"$work/log" || {
  cat "$work/log" >&2
  exit 1
}

jq -n -c --rawfile key "$work/ca.key" --rawfile certificate "$work/ca.crt" \
  '[{op: "add", path: "/internalCa/ca", value: {key: $key, certificate: $certificate}}]' \
  >"$CONFIG_VALUES_JSON_PATCH_PATH"
echo "created the certificate authority $name"
