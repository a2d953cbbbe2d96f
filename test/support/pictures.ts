/** Pictures of the page for the documents, which tests make and compare. */

import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

import { PNG } from "pngjs";

const root = join(import.meta.dirname, "../..");
/** Fonts and their edges differ between machines: what is compared is how dark and how coloured each square is. */
const SQUARE_PX = 16;
/** Of 255: a square that differs by more counts. */
const NOTICED = 28;

/** Mean colour of each square. */
function squares({ width, height, data }: PNG): number[] {
  const across = Math.ceil(width / SQUARE_PX);
  const sums = new Float64Array(across * Math.ceil(height / SQUARE_PX) * 3);
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++) {
      const at = 3 * (Math.floor(y / SQUARE_PX) * across + Math.floor(x / SQUARE_PX));
      for (let colour = 0; colour < 3; colour++)
        sums[at + colour] = (sums[at + colour] ?? 0) + (data[4 * (y * width + x) + colour] ?? 0);
    }
  return [...sums].map((sum) => sum / SQUARE_PX ** 2);
}

/** Which share of two pictures looks different; 1 where they are not of one size. */
export function difference(before: Buffer, after: Buffer): number {
  const [old, now] = [PNG.sync.read(before), PNG.sync.read(after)];
  if (old.width !== now.width || old.height !== now.height) return 1;
  const [a, b] = [squares(old), squares(now)];
  const changed = a.filter((value, index) => Math.abs(value - (b[index] ?? 0)) > NOTICED);
  return changed.length / a.length;
}

/**
 * How much a picture differs from the one of the documents. `PICTURES=write` makes that anew; what differs lies in
 * `.tmp/pictures` for whoever wants to look.
 */
export function compared(name: string, picture: Buffer): number {
  const kept = join(root, "page/pictures", `${name}.png`);
  if (process.env["PICTURES"] === "write" || !existsSync(kept)) write(kept, picture);
  const found = difference(readFileSync(kept), picture);
  if (found > 0) write(join(root, ".tmp/pictures", `${name}.png`), picture);
  return found;
}

function write(path: string, picture: Buffer): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, picture);
}
