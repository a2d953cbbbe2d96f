/** True for the code points of ASCII words: letters, digits, underscore. */
export function isWordCode(code: number): boolean {
  const isLetter = (code >= 65 && code <= 90) || (code >= 97 && code <= 122);
  return isLetter || (code >= 48 && code <= 57) || code === 95;
}
