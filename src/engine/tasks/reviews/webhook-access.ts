/**
 * Which webhooks the hooks of a module with an account may have. The operator registers webhooks with its own permissions and passes
 * each object to the hook, so a webhook must not select objects that the account may not list, and must not change objects that it may
 * not write (docs/guides/tenancy.md, "Webhooks of hooks").
 */

import type { AccountLimits } from "../../../hooks/index.ts";
import { NAMESPACE_LABEL, type Permission } from "../../../kube/index.ts";
import { oneLine } from "../../../base/index.ts";
import {
  ProblemError,
  type AdmissionBinding,
  type Hook,
  type JsonObject,
  type Problem,
} from "../../../base/model/index.ts";

/** The access of a module without `--webhook-modules`. */
export type AccountLimitsOf = (module: string) => Pick<AccountLimits, "isUnlimited"> | undefined;

/** More permissions would take long to check; each needs a request. */
const MAX_PERMISSIONS = 200;
const MAX_NAME_LENGTH = 253;
/**
 * Most bytes of the webhooks of a module. All modules share one object for each type of webhook, and the API server stores objects up to
 * 1.5 MiB.
 */
const MAX_WEBHOOK_BYTES = 128 * 1024;
/** What the registration adds to a webhook: the CA of the server, its address, and conditions. */
const REGISTRATION_BYTES = 3072;
const READ_VERBS = ["list", "watch"];
/** What an account could do itself in place of a mutating webhook. */
const WRITE_VERBS: Readonly<Record<string, readonly string[]>> = {
  CREATE: ["create"],
  UPDATE: ["update"],
  CONNECT: ["create"],
  "*": ["create", "update"],
};
/** Who may change roles and their bindings can give permissions of other users to the account. */
const RBAC_GROUPS = new Set(["*", "rbac.authorization.k8s.io"]);
const ALLOW_MODULE = "or let the installer name the module in --webhook-modules";

/**
 * The name under which a webhook is registered. That of a module with an account ends with the module, so that no module can take the name of
 * another module's webhook. The number of labels keeps the names of a module `a.b` apart from those of a module `b`.
 */
export function registeredName({ name }: Pick<AdmissionBinding, "name">, accountModule?: string): string {
  if (accountModule === undefined) return name;
  const labels = accountModule.split(".").length;
  return `${name}.${accountModule}.modules${labels === 1 ? "" : `-${labels}`}.addon-operator.io`;
}

/** The module of a hook if it has an account, which limits its webhooks. Undefined for other modules, and for global hooks. */
export function accountModuleOf({ module }: Hook, accountLimitsOf: AccountLimitsOf): string | undefined {
  return module !== undefined && accountLimitsOf(module) !== undefined ? module : undefined;
}

/** Problems of `hooks` with webhooks that no permissions of the account allow. */
export function findForbiddenWebhooks(hooks: readonly Hook[], accountLimitsOf: AccountLimitsOf): Problem[] {
  const problems = hooks.flatMap((hook) => {
    const access = hook.module === undefined ? undefined : accountLimitsOf(hook.module);
    return access === undefined ? [] : findProblems(hook, access.isUnlimited);
  });
  const hooksByModule = Map.groupBy(hooks, (hook) => accountModuleOf(hook, accountLimitsOf));
  const oversized = [...hooksByModule].flatMap(([module, ofModule]) =>
    module === undefined ? [] : findOversizedWebhooks(ofModule),
  );
  return [...problems, ...oversized];
}

/** The problem of a module whose webhooks would leave no room for those of other modules; it names the hook that exceeds the limit. */
function findOversizedWebhooks(hooks: readonly Hook[]): Problem[] {
  let bytes = 0;
  const excess = hooks.find((hook) => (bytes += countWebhookBytes(hook)) > MAX_WEBHOOK_BYTES);
  if (excess === undefined) return [];
  const message = `the webhooks of the hooks of the module need more than ${MAX_WEBHOOK_BYTES / 1024} KiB in the configuration that all modules share`;
  const remedy = "use fewer webhooks, or shorten rules, matchConditions and selectors";
  return [{ file: excess.path, key: "--config", message, remedy }];
}

/** At least the bytes that the webhooks of a hook need in the configuration that registers them. */
function countWebhookBytes(hook: Hook): number {
  const bindings = admissionBindings(hook);
  return bindings.reduce((sum, each) => sum + JSON.stringify(each).length + REGISTRATION_BYTES, 0);
}

/** Throws ProblemError or MissingPermissionsError unless a hook may have its webhooks. Throws ApiError, ConnectionError. */
export async function assertMayRegister(hook: Hook, access: AccountLimits): Promise<void> {
  if (access.isUnlimited) return;
  const [problem] = findProblems(hook, false);
  if (problem !== undefined) throw new ProblemError(problem);
  await access.assertPermitted(listPermissions(hook));
}

/** Why the webhooks of a hook are not registered, for a user. */
export function explainRefusal(hook: Hook, error: Error): string {
  const isUnbounded = admissionBindings(hook).some((binding) => selectedNamespaces(binding).includes(""));
  const remedy = isUnbounded
    ? `, or select namespaces by the label ${NAMESPACE_LABEL} in namespace.labelSelector`
    : "";
  return `hook ${hook.name}: its webhooks are not registered: ${oneLine(error)}${remedy}`;
}

/** The rules of a webhook as they are registered for a module with an account: they match no cluster-scoped objects. */
export function limitRules(rules: readonly JsonObject[]): JsonObject[] {
  return rules.map((rule) => ({ ...rule, scope: "Namespaced" }));
}

/** The permissions on objects that the webhooks of a hook pass to it: to list them and, where the hook may change them, to write them. */
export function listPermissions(hook: Hook): Permission[] {
  const permissions = admissionBindings(hook).flatMap((binding) =>
    rulesOf(binding).flatMap((rule) => listRulePermissions(rule, binding)),
  );
  return [...new Map(permissions.map((each) => [JSON.stringify(each), each])).values()];
}

function listRulePermissions(rule: Rule, binding: AdmissionBinding): Permission[] {
  const verbs = verbsFor(rule, binding);
  const kinds = rule.apiGroups.flatMap((group) =>
    rule.resources.map((path) => {
      const [resource = "", subresource] = path.split("/");
      return { group, resource, ...(subresource === undefined ? {} : { subresource }) };
    }),
  );
  return selectedNamespaces(binding).flatMap((namespace) =>
    kinds.flatMap((kind) => verbs.map((verb) => ({ verb, ...kind, namespace }))),
  );
}

function verbsFor({ operations }: Rule, { type }: AdmissionBinding): string[] {
  const writes = operations.flatMap((operation) => WRITE_VERBS[operation] ?? []);
  return [...READ_VERBS, ...(type === "mutating" ? writes : [])];
}

/** At least the number of permissions of a hook, without building them: a short configuration can need very many. */
function countPermissions(hook: Hook): number {
  const counts = admissionBindings(hook).flatMap((binding) =>
    rulesOf(binding).map((rule) => {
      const kinds = rule.apiGroups.length * rule.resources.length;
      return kinds * selectedNamespaces(binding).length * verbsFor(rule, binding).length;
    }),
  );
  return counts.reduce((sum, count) => sum + count, 0);
}

/** The namespaces that the selector of a binding names; one empty name, which stands for all namespaces, if it names none. */
function selectedNamespaces({ namespaceLabels = {} }: AdmissionBinding): readonly string[] {
  const { matchLabels = {}, matchExpressions = [] } = namespaceLabels;
  const named = matchLabels[NAMESPACE_LABEL];
  if (named !== undefined) return [named];
  const isNaming = ({ key, operator }: { key: string; operator: string }): boolean =>
    key === NAMESPACE_LABEL && operator === "In";
  return matchExpressions.find(isNaming)?.values ?? [""];
}

function admissionBindings({ config }: Hook): AdmissionBinding[] {
  return [...config.bindings.validating, ...config.bindings.mutating];
}

interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly operations: readonly string[];
  readonly scope?: string;
}

/** The rules of a binding, whose shape was checked when the configuration was read. */
function rulesOf({ rules }: AdmissionBinding): readonly Rule[] {
  return rules as unknown as readonly Rule[];
}

/** Problems of one hook of a module with an account. */
function findProblems(hook: Hook, isUnlimited: boolean): Problem[] {
  const faults = [...findLongNames(hook), ...(isUnlimited ? [] : findExcess(hook))];
  return faults.map(([id, message, remedy]) => {
    return { file: hook.path, key: "--config", message: `${id} ${message}`, remedy };
  });
}

/** What is wrong with which field of the configuration, and the remedy. */
type Fault = readonly [field: string, message: string, remedy: string];

function findLongNames(hook: Hook): Fault[] {
  return admissionBindings(hook)
    .filter((binding) => registeredName(binding, hook.module).length > MAX_NAME_LENGTH)
    .map(({ id }) => [`${id}.name`, "is too long together with the name of the module", "shorten the name"]);
}

/** Webhooks that only modules of `--webhook-modules` may have. */
function findExcess(hook: Hook): Fault[] {
  const bindings = admissionBindings(hook);
  const conversions = hook.config.bindings.conversion.map(({ id }): Fault => [
    id,
    "is not allowed: a module with a ServiceAccount may not convert custom resources",
    `remove the binding, ${ALLOW_MODULE}`,
  ]);
  const clusterScoped = bindings
    .filter((binding) => rulesOf(binding).some(({ scope }) => scope === "Cluster"))
    .map(({ id }): Fault => [
      `${id}.rules`,
      "is not allowed: a module with a ServiceAccount may not select cluster-scoped objects",
      `set scope: Namespaced, ${ALLOW_MODULE}`,
    ]);
  const changesRoles = ({ apiGroups }: Rule): boolean => apiGroups.some((group) => RBAC_GROUPS.has(group));
  const roles = hook.config.bindings.mutating
    .filter((binding) => rulesOf(binding).some(changesRoles))
    .map(({ id }): Fault => [
      `${id}.rules`,
      "is not allowed: a module with a ServiceAccount may not change roles and their bindings",
      `name other API groups, ${ALLOW_MODULE}`,
    ]);
  const faults = [...conversions, ...clusterScoped, ...roles];
  if (faults.length > 0 || countPermissions(hook) <= MAX_PERMISSIONS) return faults;
  const message = `need more than ${MAX_PERMISSIONS} permissions of the ServiceAccount`;
  return [["webhooks", message, `shorten rules and namespaces, ${ALLOW_MODULE}`]];
}
