import { startCluster } from "./scripts/control-plane.mjs";
import { writeFileSync } from "node:fs";
const c = await startCluster();
writeFileSync("/tmp/cp.json", JSON.stringify({ kubeconfig: c.kubeconfig, bin: c.bin, dir: c.dir }));
process.on("SIGTERM", async () => { await c.stop(); process.exit(0); });
setInterval(() => {}, 1000);
