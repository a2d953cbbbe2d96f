import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const template = (key, data) => `apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
data:
  text: {{ .Values.${key}.text | quote }}
${data}---
apiVersion: v1
kind: Service
metadata:
  name: {{ .Release.Name }}
spec:
  clusterIP: None
  ports: [{port: 80}]
`;

/**
 * Writes that many enabled modules, `bench-m001` …, each with one ConfigMap and one Service, below `dir`; returns `dir`.
 * `data(name)` gives further lines of the ConfigMap's data.
 */
export function writeModules(dir, count, data = () => "") {
  const names = Array.from({ length: count }, (_, index) => `bench-m${String(index + 1).padStart(3, "0")}`);
  writeFileSync(join(dir, "values.yaml"), names.map((name) => `${camel(name)}Enabled: true\n`).join(""));
  for (const name of names) {
    const home = join(dir, `${name.slice(7)}-${name}`);
    mkdirSync(join(home, "templates"), { recursive: true });
    writeFileSync(join(home, "Chart.yaml"), `apiVersion: v2\nname: ${name}\nversion: 1.0.0\n`);
    writeFileSync(join(home, "values.yaml"), `${camel(name)}:\n  text: first\n`);
    writeFileSync(join(home, "templates", "objects.yaml"), template(camel(name), data(name)));
  }
  return dir;
}

const camel = (name) => name.replace("-m", "M");
