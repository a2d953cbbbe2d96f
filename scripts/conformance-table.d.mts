export interface ConformanceReport {
  readonly kubernetes?: string;
  readonly cases: readonly {
    readonly id: string;
    readonly statement: string;
    readonly passed: boolean;
    readonly failure?: string;
  }[];
}
export interface KeptReport {
  readonly name: string;
  readonly kubernetes?: string;
  readonly cases: readonly string[];
  readonly failures: Readonly<Record<string, { readonly statement: string; readonly failure: string }>>;
}
export function keptPart(name: string, report: ConformanceReport): KeptReport;
export function readReports(dir?: string): KeptReport[];
export function tableOf(reports: readonly KeptReport[]): string;
export function withConformance(page: string, reports: readonly KeptReport[]): string;
