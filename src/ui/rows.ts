/** The rows of a table as the pages know them, and what has changed of them. */

/** A row has a name of its own in its table. */
export interface Row {
  readonly name: string;
}

interface Known {
  /** Before secrets were taken out. */
  readonly raw: string;
  readonly text: string;
}

/** The rows that were shown last, as JSON. */
export class Rows {
  readonly #redact: <T>(value: T) => T;
  readonly #known = new Map<string, Known>();

  /** `redact` takes secrets out of all texts. */
  constructor(redact: <T>(value: T) => T) {
    this.#redact = redact;
  }

  /** Takes the rows of this moment; what changed, as the JSON of a `Change`, or undefined. */
  take(rows: readonly Row[]): string | undefined {
    const set = rows.flatMap((row) => this.#changed(row) ?? []);
    const names = new Set(rows.map(({ name }) => name));
    const gone = [...this.#known.keys()].filter((name) => !names.has(name));
    for (const name of gone) this.#known.delete(name);
    return set.length + gone.length === 0 ? undefined : change(set, gone);
  }

  /** All rows, as the JSON of a `Change`. */
  whole(): string {
    return change(
      [...this.#known.values()].map(({ text }) => text),
      [],
    );
  }

  /** Keeps nothing any more. */
  forget(): void {
    this.#known.clear();
  }

  #changed(row: Row): string | undefined {
    const raw = JSON.stringify(row);
    if (this.#known.get(row.name)?.raw === raw) return undefined;
    const text = JSON.stringify(this.#redact(row));
    this.#known.set(row.name, { raw, text });
    return text;
  }
}

function change(set: readonly string[], gone: readonly string[]): string {
  return `{"set":[${set.join(",")}],"gone":${JSON.stringify(gone)}}`;
}
