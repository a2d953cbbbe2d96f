// Copies of one small web application, each with a Deployment of 0 replicas, Service, HorizontalPodAutoscaler and Ingress.
import { deployment, filesOfChart, service } from "./generated-charts.mjs";
import { measureConverge } from "./measure.mjs";

const autoscaler = `apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: {{ include "app.fullname" . }}
  labels: {{- include "app.labels" . | nindent 4 }}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: {{ include "app.fullname" . }}}
  minReplicas: 1
  maxReplicas: 4
  metrics:
  - type: Resource
    resource: {name: cpu, target: {type: Utilization, averageUtilization: 99}}
`;

const ingress = `apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: {{ include "app.fullname" . }}
  labels: {{- include "app.labels" . | nindent 4 }}
spec:
  rules:
  - host: {{ include "app.fullname" . }}.example.org
    http:
      paths:
      - path: /
        pathType: Prefix
        backend: {service: {name: {{ include "app.fullname" . }}, port: {name: http}}}
`;

const templates = {
  "deployment.yaml": deployment,
  "service.yaml": service,
  "hpa.yaml": autoscaler,
  "ingress.yaml": ingress,
};

function copy(index) {
  const chart = { name: `podinfo-m${String(index + 1).padStart(4, "0")}`, version: "6.9.0" };
  return { ...chart, files: filesOfChart(chart, templates, { replicas: 0 }) };
}

/** The scenario with `count` copies: a file of its own has the place of each in the order. */
export function podinfoScenario(count) {
  return {
    name: `podinfo-${count}`,
    title: `first converge, and restart with nothing changed, of ${count} copies of podinfo`,
    long: count > 100,
    peer: true,
    run: (bench) =>
      measureConverge(
        bench,
        Array.from({ length: count }, (_, index) => copy(index)),
      ),
  };
}
