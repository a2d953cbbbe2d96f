/** The camelCase key of a kebab-case module name, as the Go operator builds it: `ingress-nginx` → `ingressNginx`. */
export function camelCase(kebab: string): string {
  return kebab.replaceAll(/-([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}
