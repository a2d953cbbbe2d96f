// Captured blocks in a Markdown page, each between two markers.
const block = (name) => new RegExp(`(<!-- captured: ${name} -->\n)[\\s\\S]*?(\n<!-- end of ${name} -->)`);

/** The page with each block filled in; throws for a block without its markers. */
export function withBlocks(page, blocks) {
  return Object.entries(blocks).reduce((text, [name, content]) => {
    if (!block(name).test(text)) throw new Error(`the page has no markers for "${name}"`);
    return text.replace(block(name), (_, begin, end) => `${begin}\`\`\`\n${content.trimEnd()}\n\`\`\`${end}`);
  }, page);
}

/** What stands between the markers of a block, without the fences. */
export function blockIn(page, name) {
  const [all = "", begin = "", end = ""] = block(name).exec(page) ?? [];
  return all.slice(begin.length, all.length - end.length).replaceAll(/^```\n|\n```$/g, "");
}
