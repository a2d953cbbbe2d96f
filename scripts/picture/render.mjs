// A recorded terminal as an SVG that plays by itself: text, so that it can be read, searched and compared.

const COLUMNS = 104;
const ROWS = 25;
const LINE = 18;
const CHARACTER = 7.8;
const MARGIN = 16;
/** Output within this time appears at once. */
const TOGETHER_MS = 60;
const LONGEST_WAIT_MS = 1500;
const LAST_LOOK_MS = 5000;

const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
const plain = (text) => text.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");

/** `recording` is a list of `{ text, at }`: a line as the terminal got it, and when, in milliseconds. */
export function svgOf(recording, title) {
  const width = Math.ceil(COLUMNS * CHARACTER) + 2 * MARGIN;
  const height = ROWS * LINE + 2 * MARGIN;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">
<title>${escaped(title)}</title>
<style>
rect { fill: #ffffff; stroke: #d1d9e0; }
text { fill: #1f2328; font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
.step { fill: #0550ae; font-weight: 600; }
@media (prefers-color-scheme: dark) {
rect { fill: #0d1117; stroke: #3d444d; }
text { fill: #d1d7e0; }
.step { fill: #79c0ff; }
}
${scrolling(recording)}
</style>
<rect x="0.5" y="0.5" width="${width - 1}" height="${height - 1}" rx="8"/>
<svg x="${MARGIN}" y="${MARGIN}" width="${width - 2 * MARGIN}" height="${ROWS * LINE}">
<g xml:space="preserve">
${recording.map(({ text }, index) => lineOf(text, (index + 1) * LINE - 5)).join("\n")}
</g>
</svg>
</svg>
`;
}

function lineOf(text, y) {
  const isStep = text.startsWith("\u001b[1m") || text.startsWith("$ ");
  return `<text y="${y}"${isStep ? ' class="step"' : ""}>${escaped(cut(withoutCodes(text)))}</text>`;
}

/** Escape sequences that set colours. */
// oxlint-disable-next-line no-control-regex
const withoutCodes = (text) => text.replaceAll(/\u001b\[[\d;]*m/g, "");
const cut = (text) => (text.length > COLUMNS ? `${text.slice(0, COLUMNS - 1)}…` : text);

/** The last line is always the lowest; where nothing may move, one sees the end. */
function scrolling(recording) {
  const frames = framesOf(recording);
  const length = frames.at(-1).from + LAST_LOOK_MS;
  const moved = (lines) => `transform: translateY(${(ROWS - lines) * LINE}px)`;
  const steps = frames.map(
    ({ from, lines }) => `${((100 * from) / length).toFixed(2)}% { ${moved(lines)}; }`,
  );
  return `g { ${moved(recording.length)}; animation: play ${(length / 1000).toFixed(1)}s step-end infinite; }
@keyframes play { ${steps.join(" ")} }
@media (prefers-reduced-motion: reduce) { g { animation: none; } }`;
}

/** When how many lines are there: `{ from, lines }`. Long waits are shortened. */
function framesOf(recording) {
  const frames = [];
  let now = 0;
  recording.forEach(({ at }, index) => {
    const gap = at - (recording[index - 1]?.at ?? at);
    now += Math.min(gap, LONGEST_WAIT_MS);
    const last = frames.at(-1);
    if (last && now - last.from < TOGETHER_MS) last.lines = index + 1;
    else frames.push({ from: now, lines: index + 1 });
  });
  return frames;
}

/** The lines that a picture shows. */
export function linesOf(svg) {
  return [...svg.matchAll(/<text [^>]*>([^<]*)<\/text>/g)].map(([, text]) => plain(text));
}

/**
 * Lines of the demo without what differs from run to run: times, ages, ids, and what a table tells beside its names
 * (whether a module is just running). So the picture can be compared with what the demo prints today.
 */
export function sameEachTime(lines) {
  let isTable = false;
  return lines.map((line) => {
    const text = cut(withoutCodes(line));
    isTable = text.startsWith("NAME ") || (isTable && / {2}/.test(text));
    if (isTable) return text.startsWith("NAME ") ? text.split(/ {2,}/).join(" ") : text.split(" ")[0];
    return text
      .replace(/^\[ *[\d.]+ s\]/, "[0.0 s]")
      .replaceAll(/\b\d+ ms\b/g, "0 ms")
      .replaceAll(/\b[0-9a-f]{16}\b/g, "0123456789abcdef");
  });
}

/** What the demo prints on any cluster: from the operator's start to the end of the tour. */
export function tourIn(lines) {
  const at = (words) => lines.findIndex((line) => line.includes(words));
  return lines.slice(at("] Create the namespace"), at("] Stop the operator"));
}
