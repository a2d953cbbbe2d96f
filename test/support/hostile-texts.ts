import { sample, stringMatching } from "fast-check";

/** Makes a text of about that many characters. */
export type TextMaker = (length: number) => string;

/** Texts that a pattern with backtracking may choke on, made from the pattern itself. */
export function* hostileTexts(pattern: RegExp): Generator<TextMaker> {
  const chars = charsOf(pattern);
  const heads = headsOf(pattern);
  const pairs = chars.flatMap((a) => chars.map((b) => a + b)).slice(0, 20);
  for (const unit of new Set([...chars, ...pairs, ...heads])) {
    const repeated: TextMaker = (length) => unit.repeat(Math.ceil(length / unit.length));
    yield repeated;
    // What almost matches, and fails at its end.
    yield (length) => `${repeated(length)}\u0000`;
  }
  for (const head of heads) for (const char of chars) yield (length) => `${head}${char.repeat(length)}\u0000`;
}

const PROBES = Array.from("aZ0_-. \n\t\"'\\/|=+:,;!$%&()*<>?@[]^`{}~#\r\u0000\u00e9");
const MOST_CHARS = 6;
const MOST_HEADS = 12;

/** One character for each literal, escape and class of the pattern. */
function charsOf(pattern: RegExp): string[] {
  const atoms = pattern.source.match(/\\.|\[(?:\\.|[^\]\\])*\]|[^()?*+|^$]/gs) ?? [];
  const found = new Set<string>();
  for (const atom of atoms) for (const char of matching(atom, pattern)) found.add(char);
  return [...found].slice(0, MOST_CHARS);
}

function matching(atom: string, { flags }: RegExp): string[] {
  try {
    const one = new RegExp(`^(?:${atom})$`, flags.replaceAll(/[gy]/g, ""));
    const literal = atom.replace("\\", "");
    return [literal, ...PROBES].filter((char) => char.length === 1 && one.test(char)).slice(0, 2);
  } catch {
    return [];
  }
}

/** Matches of the pattern and their beginnings. */
function headsOf(pattern: RegExp): string[] {
  const heads = new Set<string>();
  for (const match of matchesOf(pattern)) {
    for (let end = match.length; end > 0 && end > match.length - 12; end--) heads.add(match.slice(0, end));
    for (let end = 1; end < Math.min(match.length, 12); end++) heads.add(match.slice(0, end));
  }
  const all = [...heads];
  const step = Math.max(1, Math.floor(all.length / MOST_HEADS));
  return all.filter((_, index) => index % step === 0).slice(0, MOST_HEADS);
}

function matchesOf(pattern: RegExp): string[] {
  // What the generator does not know is nothing that a match consumes.
  const source = pattern.source.replaceAll(/\(\?<?[=!](?:\\.|[^()\\])*\)/g, "");
  try {
    const plain = stringMatching(new RegExp(source, pattern.flags.replaceAll(/[^su]/g, "")), {
      size: "small",
    });
    return sample(plain, { numRuns: 6, seed: 1 }).map((match) => match.slice(0, 200));
  } catch {
    return [];
  }
}
