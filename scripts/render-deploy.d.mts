/** The chart with its defaults, without what only helm needs. */
export function renderDeploy(): string;
