import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

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

/** `bench-m001` …: the name of module `index`, from 1. */
export const nameOf = (index) => `bench-m${String(index).padStart(3, "0")}`;

/**
 * Writes that many enabled modules, `bench-m001` …, each with one ConfigMap and one Service, below `dir`; returns `dir`.
 * `data(name)` gives further lines of the ConfigMap's data, `files(name)` further files by path, those below hooks/
 * executable; with `number` all have this one.
 */
export function writeModules(dir, count, { data = () => "", files = () => ({}), number } = {}) {
  const names = Array.from({ length: count }, (_, index) => nameOf(index + 1));
  writeFileSync(join(dir, "values.yaml"), names.map((name) => `${camel(name)}Enabled: true\n`).join(""));
  for (const name of names) {
    const home = join(dir, `${number ?? name.slice(7)}-${name}`);
    mkdirSync(join(home, "templates"), { recursive: true });
    writeFileSync(join(home, "Chart.yaml"), `apiVersion: v2\nname: ${name}\nversion: 1.0.0\n`);
    writeFileSync(join(home, "values.yaml"), `${camel(name)}:\n  text: first\n`);
    writeFileSync(join(home, "templates", "objects.yaml"), template(camel(name), data(name)));
    for (const [path, text] of Object.entries(files(name))) {
      mkdirSync(dirname(join(home, path)), { recursive: true });
      writeFileSync(join(home, path), text, { mode: path.startsWith("hooks/") ? 0o755 : 0o644 });
    }
  }
  return dir;
}

const camel = (name) => name.replace("-m", "M");
