// Every page, by reader and in the order of reading; test/docs/site.test.ts compares it with the files.

const page = (folder) => (path, text) => ({ text, link: `/${folder}/${path}` });
const start = page("get-started");
const guide = page("guides");
const reference = page("reference");
const internal = page("internals");

export const sidebar = [
  {
    text: "Get started",
    items: [
      { text: "Overview", link: "/" },
      { text: "Concepts", link: "/concepts" },
      start("install", "Install"),
      start("first-module", "Your first module"),
      start("comparison", "Comparison"),
    ],
  },
  {
    text: "Guides",
    items: [
      guide("on-call", "Troubleshoot"),
      guide("configure-values", "Configure values"),
      guide("write-hooks", "Write hooks"),
      guide("webhooks", "Webhooks"),
      guide("secrets", "Handle secrets"),
      guide("tenancy", "Modules of several teams"),
      guide("running", "Run the operator"),
      guide("web-page", "The web page"),
      guide("gitops", "GitOps"),
      guide("module-sources", "Modules from registries"),
      guide("upgrading", "Upgrade"),
      guide("migrating", "Migrate from the Go operator"),
      { text: "Changelog", link: "/changelog" },
    ],
  },
  {
    text: "Reference",
    items: [
      reference("commands", "Commands"),
      reference("cli", "Command line"),
      reference("settings", "Settings"),
      reference("addon-yaml", "addon.yaml"),
      reference("modules", "Modules"),
      reference("hooks", "Hooks"),
      reference("values", "Values"),
      reference("lifecycle", "Lifecycle"),
      reference("status", "Status"),
      reference("metrics", "Metrics and traces"),
    ],
  },
  {
    text: "Internals",
    items: [internal("architecture", "Architecture")],
  },
];
