/** A generated file, and the CRD that it is made from. */
export interface GeneratedModel {
  readonly crd: string;
  readonly file: string;
}
export const models: readonly GeneratedModel[];
export function modelOf(model: GeneratedModel): Promise<string>;
