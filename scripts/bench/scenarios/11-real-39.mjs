import { measureConverge } from "../measure.mjs";
import { realCharts } from "../public-charts.mjs";

export default {
  name: "real-39",
  title: "first converge, and restart with nothing changed, of 39 public charts",
  peer: true,
  async run(bench) {
    const { kind, charts } = await realCharts();
    return measureConverge(bench, charts, `${kind} charts: `);
  },
};
