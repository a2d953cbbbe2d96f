/** A node of a syntax tree of oxc-parser, or any object in it. */
export type Node = Readonly<Record<string, unknown>>;

export const isNode = (value: unknown): value is Node => typeof value === "object" && value !== null;

/** Every node of a syntax tree. */
export function* nodes(value: unknown): Generator<Node> {
  if (!isNode(value)) return;
  yield value;
  for (const child of Object.values(value)) yield* nodes(child);
}
