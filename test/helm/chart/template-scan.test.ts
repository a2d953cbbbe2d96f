import { describe, expect, test } from "vitest";

import { scanTemplates } from "../../../src/helm/chart/template-scan.ts";

function reach(...templates: string[]): { globals: string[]; dynamic: boolean } {
  const { globals, dynamic } = scanTemplates(templates);
  return { globals: [...globals].sort(), dynamic };
}

describe("literal paths are followed", () => {
  test.each<[string, string[]]>([
    ["plain text .Values.global.a", []],
    ["{{ .Values.m.a }}", []],
    ["{{ .Values.global.a.b }} {{- $.Values.global.c -}}", ["a.b", "c"]],
    ["{{/* .Values.global.a and toYaml .Values */}}", []],
    ["{{- /* toYaml .Values */ -}}", []],
    ["{{ if and .Values.global.a (not .Values.m.b) }}x{{ end }}", ["a"]],
    ["{{ range .Values.global.list }}{{ . }}{{ toYaml . }}{{ end }}", ["list"]],
    ["{{ with .Values.global.a }}{{ .b }}{{ toYaml . | nindent 4 }}{{ end }}", ["a"]],
    ["{{ with .Values.m.a }}{{ toYaml . }}{{ else }}{{ .Values.global.x }}{{ end }}", ["x"]],
    ["{{ $root := . }}{{ range .Values.m.list }}{{ $root.Values.global.a }}{{ end }}", ["a"]],
    ["{{ range $i, $x := .Values.m.list }}{{ $x }}{{ include `h` $ }}{{ end }}", []],
    [`{{ toYaml .Values.m | indent 2 }}{{ .Values.global.a | default "x" | quote }}`, ["a"]],
    [`{{ include "x" (dict "root" $ "value" .Values.m.a) }}`, []],
    [`{{ $r := dict "root" . }}`, []],
    [`{{ printf "%s}}" .Values.global.a }}`, ["a"]],
    [`{{ "{{ .Values.global.zzz }}" }}`, []],
    ["{{ .Values.m.global }}{{ .Values.globally.a }}", []],
    ["{{- if .Values.global.a }}{{- else if .Values.global.b }}{{- end }}", ["a", "b"]],
    ["{{ .Subcharts.x.Values.global.a }}", ["a"]],
    ["{{ not . }}{{ if . }}x{{ end }}{{ with $ }}{{ .Values.global.a }}{{ end }}", ["a"]],
  ])("%s", (template, globals) => {
    expect(reach(template)).toEqual({ globals, dynamic: false });
  });

  test("an included template is scanned for itself, whoever includes it", () => {
    const helper = `{{ define "x" }}{{ .Values.global.a }}{{ .root.Values.global.b }}{{ end }}`;
    expect(reach(`{{ include "x" . }}{{ template "x" $ }}`, helper)).toEqual({
      globals: ["a", "b"],
      dynamic: false,
    });
  });
});

describe("what cannot be followed counts as everything", () => {
  test.each([
    "{{ toYaml .Values }}",
    "{{ .Values | toJson }}",
    "{{ toYaml .Values.global }}",
    "{{ range $k, $v := .Values.global }}{{ end }}",
    "{{ with .Values }}{{ .global.a }}{{ end }}",
    "{{ with $.Values.global }}{{ .a }}{{ end }}",
    `{{ index .Values "global" "a" }}`,
    `{{ index . "Values" }}`,
    `{{ get $ "Values" }}`,
    "{{ $v := .Values }}{{ $v.global.a }}",
    "{{ $g := .Values.global }}",
    "{{ $root := . }}{{ toYaml $root }}",
    "{{ (.Values).global.a }}",
    "{{ tpl .Values.m.text . }}",
    "{{ toYaml . }}",
    "{{ . | toYaml }}",
    "{{ . }}",
    "{{ range $ }}{{ toYaml . }}{{ end }}",
    "{{ range $k, $v := . }}{{ end }}",
    "{{ with . }}{{ toYaml . }}{{ end }}",
    "{{ with .Values.m }}{{ toYaml $ }}{{ end }}",
    `{{ include "x" (list . 1) }}`,
    `{{ include "x" .Values }}`,
    `{{ $x := dict "root" $ }}{{ toYaml $x.root }}`,
    `{{ include "x" (dict "root" $) }}{{ define "x" }}{{ toYaml .root }}{{ end }}`,
    `{{ include "x" (dict "root" $) }}{{ define "x" }}{{ $r := .root }}{{ toJson $r }}{{ end }}`,
    `{{ include "x" (dict "root" $) }}{{ define "x" }}{{ with .root }}{{ toYaml . }}{{ end }}{{ end }}`,
    `{{ include "x" (dict "v" .Values) }}`,
    "{{ .Values.AsMap }}",
    `{{ merge .Values.m .Values.global }}`,
    `{{ hasKey .Values "global" }}`,
    `{{ dig "global" "a" 1 (.Values | mustToJson | fromJson) }}`,
    "{{ if true }}{{ toYaml . }}{{ end }}",
    "{{ with .Values.m.x }}a{{ else }}{{ toYaml . }}{{ end }}",
  ])("%s", (template) => {
    expect(reach(template).dynamic).toBe(true);
  });
});

test.each<[string, readonly string[] | undefined]>([
  ["{{ .Capabilities.KubeVersion.Version }}{{ .Values.a }}", []],
  [`{{ if $.Capabilities.APIVersions.Has "apps/v1" }}`, ["apps/v1"]],
  ["{{ if and .Values.a (.Capabilities.APIVersions.Has `a/v1/B`) }}", ["a/v1/B"]],
  [
    `{{ $root.Capabilities.APIVersions.Has "a/v1" }}{{ .Capabilities.APIVersions.Has "b/v1" }}`,
    ["a/v1", "b/v1"],
  ],
  [`{{ .Capabilities.APIVersions.Has "a/v1" }}{{ .Capabilities.APIVersions }}`, undefined],
  [`{{ .Capabilities.APIVersions }}{{ .Capabilities.APIVersions.Has "a/v1" }}`, undefined],
  [`{{ .Capabilities.APIVersions.Has (printf "%s/v1" "a") }}`, undefined],
  [`{{ .Capabilities.APIVersions.Has .Values.api }}`, undefined],
  [`{{ .Capabilities.APIVersions.Has "\\x61/v1" }}`, undefined],
  [`{{ "a/v1" | .Capabilities.APIVersions.Has }}`, undefined],
  ["{{ $c := .Capabilities }}", undefined],
  ["{{ with .Capabilities.KubeVersions }}", undefined],
  [`{{ index $ "Capabilities" }}`, undefined],
])("%s asks for the APIs %j", (template, wanted) => {
  const { apis } = scanTemplates([template]);
  expect(apis && [...apis]).toEqual(wanted);
});

const mayHook = (text: string): [string, object] => [text, { hooks: true }];
const hasNoHook = (text: string): [string, object] => [text, { hooks: false }];

test.each<[string, object]>([
  ["{{ .Capabilities.KubeVersion }}", { capabilities: true, lookup: false }],
  [`{{ $.Capabilities.APIVersions.Has "x" }}`, { capabilities: true }],
  [`{{ (lookup "v1" "Secret" "a" "b").data }}`, { capabilities: false, lookup: true }],
  ["lookup in a text, Capabilities too", { capabilities: false, lookup: false }],
  [`{{ "lookup" }}`, { lookup: false }],
  [`{{ $ca := genCA "a" 1 }}`, { random: true, lookup: false }],
  [`{{ htpasswd "a" .Values.b | quote }}`, { random: true }],
  [`{{ .Values.a | default (randAlphaNum 9) }}`, { random: true }],
  [`{{ now | date "2006" }}`, { random: true }],
  [`{{ .now }}{{ "genCA" }}genCA{{ generate }}`, { random: false }],
  ["kind: CustomResourceDefinition", { crds: true, hooks: false }],
  ["kind: ConfigMap", { crds: false }],
  ...["helm.sh/hook: pre-install", `"helm.sh/hook": test,pre-install`, `{"helm.sh/hook": test, "a": b}`].map(
    mayHook,
  ),
  ...[
    `{{ $k := "helm.sh/hook" }}`,
    `{{ printf "helm.sh/%s" .a }}`,
    `helm.sh/{{ .a }}: b`,
    `{{ "helm.sh/" }}`,
  ].map(mayHook),
  ...[`"helm.sh/hook": test{{ .a }}`, `"helm.sh/hook": "test`, `"helm.sh/hook": {{ .a }}`].map(mayHook),
  ...[`"helm.sh/hook": test`, `"helm.sh/hook": 'test-success' \n"helm.sh/hook-weight": "1"`].map(hasNoHook),
  ...["helm.sh/chart: a", "see https://helm.sh/docs/howto", "type: helm.sh/release.v1"].map(hasNoHook),
])("%s looks at the cluster: %o", (template, wanted) => {
  expect(scanTemplates([template])).toMatchObject(wanted);
});
