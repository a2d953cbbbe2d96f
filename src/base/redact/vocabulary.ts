/** Word lists that classify keys and values. */

/** The set of words in a text that is separated by white space. */
export const list = (words: string): ReadonlySet<string> => new Set(words.trim().split(/\s+/));

/** Words that make a key secret at any position, unless its last word says that it is only about a secret. */
export const SECRET_ANYWHERE = list(`
  password passwords passwd passwds passphrase passphrases passcode passcodes passkey pwd pass pw secret secrets token tokens
  credential credentials creds cred dsn apikey apikeys privatekey privatekeys accesskey secretkey authkey masterkey
  signingkey encryptionkey licensekey sharedkey sessionkey psk totp otp mnemonic kubeconfig dockerconfigjson
  dockerconfig dockercfg htpasswd htaccess connectionstring connstring connstr masterauth requirepass secretkeybase
  pgpass nkey netrc keytab kerberoskeytab sas webhookurl authtoken authtok`);

/** Words that make a key secret as its last one: `totpSeed`, but not `seedNodes`. */
export const SECRET_AT_END = list(`
  pat pats pfx pkcs p12 jks keystore truststore pin pins salt pepper cookie bearer hmac signature sig jwt seed seeds
  pincode nonce setcookie recoverycode recoverycodes backupcode backupcodes snmpcommunity`);

/** As the last word they make a key secret if its value does not look like a name, a path or a number. */
export const LIKELY_AT_END = list(`
  key keys auth authorization cert certs certificate certificates crt pem cacert session license licence sid csrf
  crypt cipher ca bundle identity kek dek hash auths`);

/** Words before `key` if the value is a cryptographic key or an API key. */
export const WORDS_BEFORE_SECRET_KEY = list(`
  api access private sec encryption encrypt decryption signing sign master shared account ssh license licence tls ssl app
  application server client storage integration auth session hmac aes rsa dsa ecdsa ed gpg pgp csrf jwt root admin kek
  dek crypt crypto cipher webhook write read ingest ingestion instrumentation psk deploy recovery unseal seal gossip
  routing datadog newrelic fernet pre host service gateway subscription consumer cookie token oauth sas symmetric
  validator backup cluster join replica set rndc tsig dkim wireguard wg smtp stripe sendgrid mailgun openai registry
  bootstrap security field db database data rest at flask django encoded rails laravel`);

/** Words before `key` if the value is a name. */
export const WORDS_BEFORE_KEY_NAME = list(`
  topology label labels annotation annotations taint toleration password passwd pass username email name cache
  partition sort hash primary foreign lookup map object config image index group public bucket path metric env property
  header claim query tag order common hot row column attribute credentials credential id url existing ref authorized
  known trusted dsn uri selector domain group hostname port endpoint region namespace context site`);

/** Words before `secret` if the value is the name of a Secret. */
export const WORDS_BEFORE_SECRET_NAME = list(`
  tls ca bundle cert certs certificate certificates config conf kubeconfig env docker registry credentials credential password passwords passwd key keys
  keystore ingress volume file storage auth token k8s kube kubernetes object basic tokens license`);
export const WORDS_BEFORE_SECRET_LIST = list("pull external sealed image extra reloader");

/** A last word that says the value only names, places or describes the secret: `secretName`, `tokenTTL`, `passwordFile`. */
export const DESCRIBING_LAST_WORDS = list(`
  name names namespace namespaces ref refs reference references path paths file files filename dir directory folder
  mount mounts mountpath enabled enable disabled disable ttl expiry expiration expires expire lifetime age duration
  length len size sizes type types kind count days hours seconds minutes milliseconds ms version versions algorithm
  algorithms alg manager issuer issuers class classes mode policy policies rotation timeout interval period url urls
  uri uris format encoding prefix suffix provider providers method methods header headers field fields claim claims
  scope scopes audience audiences aud endpoint endpoints host hosts hostname port ports server servers domain domains
  user users username usernames login email id ids uid gid role roles rolename group groups annotation annotations label
  labels create created generate generated auto automount template templates selector selectors strategy usage usages
  rules required optional validation verify verification check renew before after store stores operator volume volumes
  image images repository tag registry resource resources replicas replica property properties regex pattern alias
  aliases subject cn dns sans organization organizations storage backend backends engine driver plugin plugins request
  requests limit limits min max case complexity special digits iterations cost rounds schedule cron status reason
  description comment comments hint title message level log logs source sources target targets from to affinity
  database db dbname schema region zone bucket context allowed denied whitelist blacklist allowlist denylist supported
  reviews review controller webhook webhooks service services account accounts permissions perms checksum checksums
  digest digests sha sha1 sha256 sha512 md5 fingerprint fingerprints thumbprint etag revision rev commit build uuid guid
  reloader reload sync injector agent csi store location locations protocol signer signers distinguished bits curve
  item items subpath num threshold percent ratio style theme timezone locale language minlength maxlength ports default
  exporter keyref fieldref algo grant grants validity skew leeway cleanup window chart app component instance part
  params args parameters options settings command entrypoint arn duration ciphers suites cidr cidrs ip ips address
  addresses subnet subnets size cluster clusters environment owner team project projects tenant org public
  preset presets job jobs cronjob update updates authority responder requirements features feature compare comparison attempts retries budget
  encryption connector attribute attributes mtime link links placeholder stdin binding bindings second minute hour site
  process burst chars mechanism mechanisms`);

/** A first word that says that a key only chooses or names: `existingSecret`, `useToken`. */
export const CHOOSING_FIRST_WORDS = list(`
  existing use using enable enabled disable disabled allow skip has is create generate auto automount validate verify
  rotate mount ignore show inject from expose external pull sealed image num number max min stop`);

/** Last words that say nothing of their own: the one before them counts. */
export const FILLER_WORDS = list(`
  old new prev previous current next backup bak data b64 base64 encoded value values val raw plain plaintext literal
  content contents override json yaml string str text primary secondary main tmp temp inline hex bin bytes env
  initial init ci dev prod staging test`);

/** Words in which others run together: `dbpassword`, `authtoken`. */
export const SECRET_SUBSTRING =
  /passw(?:or)?d|passphrase|secret|token|credential|privatekey|apikey|accesskey|dockerconfig/;
/** `rootpass` and `tokenvalue` have such a part, these have not. */
export const WORDS_WITHOUT_SECRET = list(
  "bypass compass trespass overpass underpass surpass multipass tokenizer tokenizers tokenize secretariat",
);

/** Members of an object that name what another member gives: `{name: DB_PASSWORD, value: …}`. */
export const NAME_KEYS = list(
  "name key env variable var header field property option parameter param setting attribute",
);
export const VALUE_KEYS = list("value val content data default text string defaultValue stringValue");
/** Members of an object that refers to a secret kept elsewhere. */
export const REFERENCE_KEYS = list(
  "name key optional namespace kind apiVersion secretName objectName field property version path group valueType",
);

/** Words of sentences: what follows `--password is required` or `"password": a string` is no secret. */
export const PROSE_WORDS = list(`
  a an the is are was were be must should may can cannot could will would has have had does did not no and or of in
  into to for from on at by as with without needs need requires required expects expected given missing already only
  if when that which this but because flag option field key value found set unset empty invalid`);
