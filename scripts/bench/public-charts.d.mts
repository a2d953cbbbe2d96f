interface GeneratedChart {
  name: string;
  version: string;
  templates: number;
  objects: number;
  crds: number;
  kib: number;
  /** Texts by path. */
  files: Record<string, string>;
}

/** Charts with the numbers of the public ones. */
export function generatedCharts(): GeneratedChart[];
