declare const config: {
  readonly inProcess: { readonly include: readonly string[]; readonly exclude: readonly string[] };
};
export default config;
