import { useData, withBase } from "vitepress";
import DefaultTheme from "vitepress/theme";
import { h } from "vue";
import VersionSelect from "./VersionSelect.vue";
import "./style.css";

const MarkdownLink = () => {
  const { page } = useData();
  return h("a", { class: "markdown", href: withBase(`/${page.value.relativePath}`), target: "_self" }, "View as Markdown");
};

export default {
  extends: DefaultTheme,
  Layout: () =>
    h(DefaultTheme.Layout, null, {
      "nav-bar-content-after": () => h(VersionSelect),
      "nav-screen-content-after": () => h(VersionSelect),
      "doc-footer-before": () => h(MarkdownLink),
    }),
};
