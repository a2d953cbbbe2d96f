/** Remembers answers, in bounded memory. */

/** Answers by key, each made when it is first asked for; once there are `most`, all are forgotten. */
export class Memo<T> {
  readonly #most: number;
  readonly #answers = new Map<string, T>();

  constructor(most: number) {
    this.#most = most;
  }

  get(key: string, make: () => T): T {
    let answer = this.#answers.get(key);
    if (answer === undefined) {
      answer = make();
      if (this.#answers.size >= this.#most) this.#answers.clear();
      this.#answers.set(key, answer);
    }
    return answer;
  }
}
