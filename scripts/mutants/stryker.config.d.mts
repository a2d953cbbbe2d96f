declare const config: {
  readonly mutate: readonly string[];
  readonly inProcess: { readonly include: readonly string[]; readonly exclude: readonly string[] };
};
export default config;
