// Serves the documentation as a site, or builds it. The arguments are those of VitePress:
//   node scripts/run.mjs docs.mjs dev docs --host 127.0.0.1
await import(new URL("../node_modules/vitepress/bin/vitepress.js", import.meta.url));
