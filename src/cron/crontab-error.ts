/** A crontab line that is not understood; the message names the field, what it may hold, and the line. */
export class CrontabError extends Error {
  constructor(problem: string, line: string) {
    super(`${problem}: ${line}`);
    this.name = "CrontabError";
  }
}
