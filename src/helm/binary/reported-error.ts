/**
 * Redacts helm's errors, which quote values of Secrets, results of `lookup`, and generated passwords. An error of rendering quotes
 * templates and values; other errors come from the API server, which quotes objects.
 */

import { HIDDEN, hideQuotedValues, readRegularFile } from "../../base/index.ts";
import { listChartFiles } from "../../modules/index.ts";
import { unpackedText } from "../chart/chart.ts";
import { parseActions } from "../chart/template-tokens.ts";

/** An error is about a Secret: `Secret "db" is invalid`, `Kind=Secret`. */
const SECRET_KIND = /\bSecret\b/;
/** Template functions that return live objects, passwords or keys, which no known value of the module reveals. */
const SECRET_FUNCTIONS =
  /^(?:lookup|rand[A-Z]\w*|gen[A-Z]\w*|derivePassword|htpasswd|bcrypt|shuffle|uuidv4|encryptAES|decryptAES)$/;

const RENDERING =
  /(?:^|FAILED: )(?:execution error at |template: |YAML parse error |parse error )|\bexecuting "/;
/** The parts of a template's error that may contain values: its own message, and texts in quotes. */
const EXECUTION_ERROR_MESSAGE = /(?<=execution error at \([^)]{0,500}\): )[^]*/;
const QUOTED = /(["'`])(?:\\[^]|(?!\1)[^\\])*\1?/g;

interface HelmWork {
  readonly release: string;
  readonly namespace: string;
  readonly chartDir?: string;
  readonly valuesFile?: string;
}

/**
 * Removes quoted values of Secrets from an error of helm. Where templates look up objects or generate passwords, only words
 * of the chart and its values remain in quotes, and nothing that the API server quotes from an object.
 */
export function redactHelmError(errorText: string, work: HelmWork): string {
  const isRendering = RENDERING.test(errorText);
  // An uninstallation, for example, renders nothing.
  const rendersChart = work.chartDir !== undefined || isRendering;
  const publicTexts = rendersChart ? readPublicTexts(work) : [];
  const rendersNoSecrets = publicTexts !== undefined && !publicTexts.some(callsSecretFunction);
  if (rendersNoSecrets) return isRendering ? errorText : withoutSecretValues(errorText);
  // The chart may have put looked up or generated values into any object, not only into Secrets.
  const known = [...(publicTexts ?? []), ...(isRendering ? [] : listWebhookNames(errorText))];
  return hideForeignWords(isRendering ? errorText : hideQuotedValues(errorText), known);
}

/** How the API server names a webhook in an error: a domain name of three parts, which is no secret, and which a user must find. */
const WEBHOOK_NAME = /\bwebhook "([a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63}){2,8})"/g;

/** The names of the webhooks that an API server's error blames. */
function listWebhookNames(errorText: string): string[] {
  return Array.from(errorText.matchAll(WEBHOOK_NAME), ([, name = ""]) => name);
}

/** Removes quoted values of Secrets from an API server's error. */
export function withoutSecretValues(errorText: string): string {
  return SECRET_KIND.test(errorText) ? hideQuotedValues(errorText) : errorText;
}

/**
 * Hides in the message of a failed template, and in quoted passages, each part between blanks that has a foreign word. A foreign word
 * occurs in none of `publicTexts` (files of the chart, its values and names), so it may come from a Secret or a `lookup`.
 */
function hideForeignWords(errorText: string, publicTexts: readonly string[]): string {
  const foreign = findForeignWords(errorText, publicTexts);
  const isForeign = (part: string): boolean => splitWords(part).some((word) => foreign.has(word));
  const hide = (passage: string): string =>
    passage.replaceAll(/[^\s"'`]+/g, (part) => (isForeign(part) ? HIDDEN : part));
  return errorText.replace(EXECUTION_ERROR_MESSAGE, hide).replaceAll(QUOTED, hide);
}

/** Whether a template calls a function that looks up objects or generates secrets. */
function callsSecretFunction(text: string): boolean {
  return parseActions(text).some((tokens) =>
    tokens.some((token) => token.type === "word" && SECRET_FUNCTIONS.test(token.text)),
  );
}

/** Reads the texts whose words are no secrets: files of the chart, its values and names. Undefined if they cannot be read. */
function readPublicTexts({ release, namespace, chartDir = "", valuesFile }: HelmWork): string[] | undefined {
  try {
    const files = listChartFiles(chartDir, false).map(({ rel, path }) => [
      rel,
      unpackedText(rel, readRegularFile(path)),
    ]);
    const values = valuesFile === undefined ? "{}" : readRegularFile(valuesFile).toString("utf8");
    // Secrets among the values are removed elsewhere (`HelmOptions.hideOf`).
    return [...files.flat(), withoutEscapes(values), release, namespace];
  } catch {
    return undefined;
  }
}

/** Replaces the escape sequences in quoted strings, whose letters belong to no word, except those of letters such as `\u00e9`. */
function withoutEscapes(text: string): string {
  return text.replaceAll(/\\(?:u([0-9a-f]{4})|[^])/g, (_, hex?: string) =>
    hex === undefined ? " " : String.fromCharCode(parseInt(hex, 16)),
  );
}

/** Finds the words of a message that occur in none of these texts. */
function findForeignWords(message: string, texts: readonly string[]): ReadonlySet<string> {
  const foreign = new Set(splitWords(message));
  for (const text of texts) for (const [word] of text.matchAll(WORD)) foreign.delete(word);
  return foreign;
}

const WORD = /[\p{L}\p{N}]+/gu;
const splitWords = (text: string): string[] => text.match(WORD) ?? [];
