/** One word of a template action: a string literal, a path such as `$.Values.a`, or punctuation. */
export interface Token {
  readonly type: "string" | "word" | "mark";
  readonly text: string;
}

const TOKEN = /"(?:[^"\\]|\\.)*"|`[^`]*`|'(?:[^'\\]|\\.)*'|:=|[$.\w]+|[^\s]/g;
const ACTION =
  /\{\{-?\s*\/\*[\s\S]*?\*\/\s*-?\}\}|\{\{((?:"(?:[^"\\\n]|\\.)*"|`[^`]*`|'(?:[^'\\\n]|\\.)*'|[^}]|\}(?!\}))*)\}\}/g;

/** The actions (`{{ … }}`) of a template, each as its tokens; comments left out. */
export function actionsOf(template: string): Token[][] {
  const actions: Token[][] = [];
  for (const [, body] of template.matchAll(ACTION)) {
    if (body !== undefined) actions.push(tokensOf(body.replace(/^-\s/, " ").replace(/\s-$/, " ")));
  }
  return actions;
}

function tokensOf(body: string): Token[] {
  return Array.from(body.matchAll(TOKEN), ([text]) => ({ type: typeOf(text), text: unquoted(text) }));
}

function typeOf(text: string): Token["type"] {
  if (/^["'`]/.test(text)) return "string";
  return /^[$.\w]/.test(text) ? "word" : "mark";
}

function unquoted(text: string): string {
  return /^["'`]/.test(text) ? text.slice(1, -1) : text;
}
