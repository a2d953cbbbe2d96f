/**
 * Finds what is left of a secret where a text was cut: its beginning before a *mark* such as `…`, or its end after one. Messages are cut in
 * many places, also by other programs, before the redaction sees them. A *form* is a text as which a secret may appear.
 */

import type { Hide } from "../placeholder.ts";
import { findBase64End, findBase64Start } from "./runs.ts";
import type { Form } from "./secret-forms.ts";

/** So many characters beside a mark identify a form. Fewer of them stay. */
const EDGE_LENGTH = 4;
/** `SecretSearch` finds a longer beginning of a form without a mark. */
const LONGEST_HEAD = 32;
/** Longest text after a mark that is compared with the ends of forms. */
const LONGEST_TAIL = 2048;
/** Most forms with one edge that are compared. If there are more, any text with this edge beside a mark is hidden. */
const MAX_FORMS_PER_EDGE = 16;
/**
 * What stands in place of text that was cut: `…`, and `:truncated` at the end of a line of output. Three dots only before a quote or a bracket, as jq and Go write them: `string ("s3cr3t...)`.
 * Elsewhere, they end a sentence.
 */
const MARK = / ?(?:\u2026|:truncated|\.{3}(?=["'`)\]}])) ?/g;

/** A part of a form beside a mark: its range in the text, and the secret. */
interface CutForm {
  readonly from: number;
  readonly to: number;
  readonly secret: string;
}

/** Forms by their first or last characters. Most of these have a single form, which needs no set. */
type FormsByEdge = Map<string, Form | Set<Form>>;

/** Knows the beginnings and the ends of forms. */
export class CutForms {
  readonly #byHead: FormsByEdge = new Map();
  readonly #byTail: FormsByEdge = new Map();

  add(form: Form): void {
    append(this.#byHead, headOf(form), form);
    append(this.#byTail, tailOf(form), form);
  }

  /** Reverses `add` of the same object. */
  remove(form: Form): void {
    drop(this.#byHead, headOf(form), form);
    drop(this.#byTail, tailOf(form), form);
  }

  /** `text` with each part of a form beside a mark replaced by the placeholder that `hide` returns for its secret. Takes linear time. */
  replace(text: string, hide: Hide): string {
    if (this.#byHead.size === 0) return text;
    const marks = findMarks(text);
    const parts: string[] = [];
    let copiedUntil = 0;
    const hidePart = (cut: CutForm | undefined): void => {
      if (cut === undefined) return;
      parts.push(text.slice(copiedUntil, cut.from), hide(cut.secret));
      copiedUntil = cut.to;
    };
    for (const [index, { from, to }] of marks.entries()) {
      hidePart(this.#findHead(text, Math.max(copiedUntil, marks[index - 1]?.to ?? 0), from));
      hidePart(this.#findTail(text, to, marks[index + 1]?.from ?? text.length));
    }
    return parts.join("") + text.slice(copiedUntil);
  }

  /** Finds the longest beginning of a form that ends at `end`, but does not begin before `minIndex`. */
  #findHead(text: string, minIndex: number, end: number): CutForm | undefined {
    for (let from = Math.max(minIndex, end - LONGEST_HEAD); from <= end - EDGE_LENGTH; from++) {
      const candidates = this.#byHead.get(text.slice(from, from + EDGE_LENGTH));
      if (candidates === undefined) continue;
      const head = text.slice(from, end);
      const form = findForm(candidates, (each) => each.text.startsWith(head));
      if (form === undefined) continue;
      return {
        from: form.isPart ? findBase64Start(text, from, minIndex) : from,
        to: end,
        secret: form.secret,
      };
    }
    return undefined;
  }

  /** Finds the longest end of a form that begins at `start`, but does not end after `maxIndex`. */
  #findTail(text: string, start: number, maxIndex: number): CutForm | undefined {
    for (let to = Math.min(maxIndex, start + LONGEST_TAIL); to >= start + EDGE_LENGTH; to--) {
      const candidates = this.#byTail.get(text.slice(to - EDGE_LENGTH, to));
      if (candidates === undefined) continue;
      const tail = text.slice(start, to);
      const form = findForm(candidates, (each) => completeTextOf(each).endsWith(tail));
      if (form === undefined) continue;
      return { from: start, to: form.isPart ? findBase64End(text, to) : to, secret: form.secret };
    }
    return undefined;
  }
}

/** The ranges of the marks in a text. */
function findMarks(text: string): { readonly from: number; readonly to: number }[] {
  return Array.from(text.matchAll(MARK), ({ 0: mark, index }) => ({ from: index, to: index + mark.length }));
}

/** The first candidate that matches. Any one if there are very many, because comparing them all would be slow. */
function findForm(candidates: Form | Set<Form>, isMatch: (form: Form) => boolean): Form | undefined {
  const forms = candidates instanceof Set ? candidates : new Set([candidates]);
  return forms.size > MAX_FORMS_PER_EDGE ? forms.values().next().value : forms.values().find(isMatch);
}

/** The text of a form; of a very long secret, the form has only the beginning. */
function completeTextOf({ text, secret }: Form): string {
  return secret.startsWith(text) ? secret : text;
}

function headOf({ text }: Form): string {
  return text.slice(0, EDGE_LENGTH);
}

function tailOf(form: Form): string {
  return completeTextOf(form).slice(-EDGE_LENGTH);
}

/** Adds a form to those with an edge. */
function append(forms: FormsByEdge, edge: string, form: Form): void {
  const entry = forms.get(edge);
  if (entry === undefined) forms.set(edge, form);
  else if (entry instanceof Set) entry.add(form);
  else forms.set(edge, new Set([entry, form]));
}

/** Removes a form from those with an edge. */
function drop(forms: FormsByEdge, edge: string, form: Form): void {
  const entry = forms.get(edge);
  if (entry instanceof Set) entry.delete(form);
  if (entry === form || (entry instanceof Set && entry.size === 0)) forms.delete(edge);
}
