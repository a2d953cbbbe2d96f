// The charts of the scenario `real-39`: public ones by name and version, or generated ones of the same size.
import { existsSync, mkdirSync, renameSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { chartFiles } from "./generated-charts.mjs";

const SOURCE = "https://github.com/prometheus-community/helm-charts/releases/download";
const PATIENCE_MS = 20_000;

/** Name, version, templates, objects, CRDs, and KiB of all files. Tests of charts are not counted. */
const CHARTS = [
  ["alertmanager", "1.42.0", 13, 5, 0, 91],
  ["alertmanager-snmp-notifier", "2.1.1", 10, 3, 0, 43],
  ["jiralert", "1.9.0", 9, 4, 0, 24],
  ["kube-state-metrics", "8.4.0", 19, 5, 0, 91],
  ["prom-label-proxy", "0.22.0", 13, 3, 0, 35],
  ["prometheus", "29.27.0", 77, 23, 0, 447],
  ["prometheus-adapter", "5.3.0", 24, 11, 0, 44],
  ["prometheus-blackbox-exporter", "11.17.2", 18, 4, 0, 54],
  ["prometheus-cloudwatch-exporter", "0.28.1", 13, 7, 0, 32],
  ["prometheus-conntrack-stats-exporter", "0.5.39", 5, 2, 0, 10],
  ["prometheus-consul-exporter", "1.1.1", 9, 5, 0, 17],
  ["prometheus-couchdb-exporter", "1.0.1", 9, 5, 0, 15],
  ["prometheus-druid-exporter", "1.2.0", 5, 3, 0, 12],
  ["prometheus-elasticsearch-exporter", "7.4.0", 10, 2, 0, 38],
  ["prometheus-fastly-exporter", "0.13.0", 10, 4, 0, 22],
  ["prometheus-ipmi-exporter", "0.8.2", 7, 3, 0, 49],
  ["prometheus-json-exporter", "0.19.2", 11, 4, 0, 25],
  ["prometheus-memcached-exporter", "0.6.0", 8, 3, 0, 18],
  ["prometheus-modbus-exporter", "0.1.4", 7, 4, 0, 17],
  ["prometheus-mongodb-exporter", "3.22.0", 7, 4, 0, 22],
  ["prometheus-mysql-exporter", "2.14.0", 10, 3, 0, 54],
  ["prometheus-nats-exporter", "2.23.2", 5, 2, 0, 13],
  ["prometheus-nginx-exporter", "1.23.1", 8, 4, 0, 20],
  ["prometheus-node-exporter", "4.56.1", 14, 3, 0, 71],
  ["prometheus-operator-crds", "31.0.1", 10, 0, 10, 4412],
  ["prometheus-pgbouncer-exporter", "0.10.1", 12, 6, 0, 25],
  ["prometheus-pingdom-exporter", "3.4.4", 6, 3, 0, 14],
  ["prometheus-pingmesh-exporter", "0.5.0", 14, 4, 0, 44],
  ["prometheus-pushgateway", "3.8.0", 14, 3, 0, 46],
  ["prometheus-rabbitmq-exporter", "2.1.2", 9, 5, 0, 21],
  ["prometheus-redis-exporter", "6.29.0", 11, 5, 0, 33],
  ["prometheus-smartctl-exporter", "0.17.1", 8, 4, 0, 19],
  ["prometheus-snmp-exporter", "9.17.1", 14, 5, 0, 42],
  ["prometheus-sql-exporter", "0.5.0", 11, 4, 0, 39],
  ["prometheus-stackdriver-exporter", "4.13.0", 8, 2, 0, 30],
  ["prometheus-statsd-exporter", "1.0.0", 10, 3, 0, 24],
  ["prometheus-systemd-exporter", "0.5.2", 7, 2, 0, 20],
  ["prometheus-windows-exporter", "0.12.8", 7, 4, 0, 35],
  ["prometheus-yet-another-cloudwatch-exporter", "0.47.0", 11, 4, 0, 26],
].map(([name, version, templates, objects, crds, kib]) => ({ name, version, templates, objects, crds, kib }));

/**
 * The charts as modules for `writeChartModules`: the archives, downloaded once into the cache that all checkouts share, or generated charts
 * where one of them cannot be had.
 */
export async function realCharts(cache = chartCache()) {
  try {
    const archives = await Promise.all(CHARTS.map((chart) => archiveOf(chart, cache)));
    return { kind: "public", charts: CHARTS.map((chart, index) => ({ ...chart, archive: archives[index] })) };
  } catch (error) {
    process.stderr.write(`real-39 with generated charts: ${error.cause?.message ?? error.message}\n`);
    return { kind: "generated", charts: generatedCharts() };
  }
}

export function generatedCharts() {
  return CHARTS.map((chart) => ({ ...chart, files: chartFiles(chart) }));
}

const chartCache = () =>
  join(process.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "addon-operator", "bench-charts");

async function archiveOf({ name, version }, cache) {
  const id = `${name}-${version}`;
  const file = join(cache, `${id}.tgz`);
  if (existsSync(file)) return file;
  const response = await fetch(`${SOURCE}/${id}/${id}.tgz`, { signal: AbortSignal.timeout(PATIENCE_MS) });
  if (!response.ok) throw new Error(`${response.url}: ${response.status}`);
  mkdirSync(cache, { recursive: true });
  writeFileSync(`${file}.part`, Buffer.from(await response.arrayBuffer()));
  renameSync(`${file}.part`, file);
  return file;
}
