//! Decides which names of keys are those of credentials.

use crate::logs::redact::text::Words;

/// The kind of credential that a name indicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Secret {
    /// A password, a token, a key.
    Plain,
    /// A name that ends in "secret", which may also refer to a Kubernetes Secret.
    Object,
    /// A name such as `orders_key` or `auth`, which often has another meaning. Its value must look random.
    Opaque,
    /// A plural, whose value may be a count.
    Plural,
    /// The authorization header.
    Authorization,
    /// A cookie header.
    Cookie,
}

/// Words that indicate a credential, also at the end of a longer word such as `PGPASSWORD`.
static ENDINGS: Words = Words::new(
    "password passwd passwort passphrase passcode passkey pwd pswd secret token apikey accesskey secretkey privatekey \
     authkey accountkey signingkey credential dbpw userpw bindpw rootpw adminpw mnemonic jsessionid phpsessid sessionid \
     masterauth sharedaccesskeyvalue kennwort motdepasse contrasena wachtwoord",
);

/// Whole words that indicate a credential.
static WHOLE: Words = Words::new("pass passe pw pword mnemonic otp totp pepper creds cred senha psk hmac pkey");

/// Words that end in "pass" and have nothing to do with passwords.
static NOT_PASS: Words = Words::new("bypass compass encompass overpass underpass surpass trespass multipass");

/// Words that indicate a credential if "key" follows.
static KEYS: Words = Words::new(
    "api access private secret auth account signing encryption master shared session storage subscription functions \
     token host service app application fernet jwt jws jwe license licence sdk integration preshared psk aes hmac des \
     crypto cipher webhook hook deploy unseal root admin write ingest ingestion instrumentation merchant consumer csrf \
     wallet recovery backup sign signature decryption kek dek bot stripe mailgun sendgrid datadog sentry twilio openai \
     anthropic maps server client developer dev vault algolia segment honeycomb newrelic pagerduty opsgenie user passwd",
);

/// Words that make "key" one of data, not of a lock.
static DATA_KEYS: Words = Words::new(
    "public pub primary foreign partition sort cache object idempotency dedup deduplication group index unique \
     row lock map hash message topic event translation label annotation registry duplicate dup natural composite \
     surrogate shard record item entry field column config setting property redis s3 etag request trace span range \
     bucket file meta metadata dict json yaml header param query schema table join document doc sorted set list pod",
);

/// Words that may follow in the name of a credential, if the notation also occurs in prose.
static ALLOWED_SUFFIXES: Words = Words::new(
    "key value val data base64 b64 text plain plaintext string str hex hash salt old new current confirm confirmation \
     prod production dev default primary secondary master stage staging test live raw rotated next previous again base",
);

/// Words that make the name one of something else, such as the path, name or lifetime of a credential.
static EXCLUDING_SUFFIXES: Words = Words::new(
    "name names file files filename path paths dir directory ref refs url uri type types count counts ttl expiry \
     expires expired expiration exp length len size policy version endpoint endpoints mode age limit limits field prefix \
     provider providers manager store namespace enabled required rotation status error errors reason usage used class \
     kind issuer audience scope scopes source volume mount informer controller review cache exception changed change at \
     updated created date time since last reset hint strength min max hasher hashers encryption method methods algorithm \
     algo backend helper expire lifetime timeout seconds secs days minutes ms left remaining budget per domain samesite \
     httponly header headers uris server filter filters go py js ts rs rb java kt cs cpp php sh id ids in \
     validation validator validity valid invalid request response exchange revoked revocation check checks attempts \
     retries rate position index idx offset alg state auth authentication authenticator location format pattern regex \
     rules rule label labels title description help prompt placeholder tooltip input form page link issue issued owner \
     generator generation factory service client handler middleware interceptor parser stream bucket verified \
     verification verify present exists missing set unset empty null changes rotated",
);

/// Words before "token" that make it one of a text or of a list.
static NO_TOKENS: Words = Words::new(
    "eos bos pad unk sep cls mask stop start end special image img audio video page next continuation sync resume \
     pagination cursor first last draft think bytes",
);

/// Words before "secret" that leave no doubt: it is not the name of a Kubernetes Secret.
static SECRET_OWNERS: Words = Words::new(
    "client app consumer signing jwt webhook session cookie api shared oauth csrf access user admin encryption auth \
     hmac totp otp mfa key master next nextauth django flask rails stripe github google slack",
);

/// Words that make a number a quantity: `max_token=512`.
static QUANTITIES: Words = Words::new(
    "max min num n total count prompt completion input output cached reasoning remaining used new avg mean processed \
     next number current per sum bad invalid failed first second third",
);

/// Whether "key" after this word is the name of a credential: `api key`.
pub(super) fn precedes_key(word: &str) -> bool {
    static BEFORE_KEY: Words = Words::new(
        "api access private auth account signing encryption master shared session storage subscription functions client \
         host service unseal root license secret license integration deploy recovery application app",
    );
    BEFORE_KEY.contains_lower(word)
}

/// Whether "key" after this word is one of data: `primary key`.
pub(super) fn is_data_key(word: &str) -> bool {
    DATA_KEYS.contains_lower(word)
}

/// The name of a key, in words.
#[derive(Debug)]
pub(super) struct Name {
    /// The words in lower case, without trailing digits, separated by spaces.
    words: String,
    pub has_lower: bool,
}

impl Name {
    pub(super) fn new(name: &str) -> Self {
        Self { words: words(name), has_lower: name.bytes().any(|byte| byte.is_ascii_lowercase()) }
    }

    /// Whether a value that is a number is a quantity.
    pub(super) fn counts(&self) -> bool {
        matches!(self.words.as_str(), "pass" | "token" | "cookie" | "auth")
            || self.words.split(' ').any(|word| QUANTITIES.contains(word))
    }

    /// Whether the name is the single word.
    pub(super) fn is(&self, word: &str) -> bool {
        self.words == word
    }

    /// Whether a word follows that no credential is named with, as in `password_history`. A number is then a quantity.
    pub(super) fn is_qualified(&self) -> bool {
        let words: Vec<&str> = self.words.split(' ').collect();
        let end =
            (0..words.len()).rev().find(|&at| classify_word(&words, at).is_some()).map_or(words.len(), |at| at + 1);
        words.get(end..).unwrap_or_default().iter().any(|word| !ALLOWED_SUFFIXES.contains(word))
    }

    pub(super) fn last(&self) -> &str {
        self.words.rsplit(' ').next().unwrap_or_default()
    }

    /// The kind of credential that the name is that of. After the word that indicates it, `strict` allows only
    /// [`ALLOWED_SUFFIXES`]; otherwise every suffix except [`EXCLUDING_SUFFIXES`] is allowed.
    pub(super) fn classify(&self, strict: bool) -> Option<Secret> {
        let words: Vec<&str> = self.words.split(' ').collect();
        let (end, secret) = (0..words.len()).rev().find_map(|at| Some((at + 1, classify_word(&words, at)?)))?;
        let rest = words.get(end..).unwrap_or_default();
        let header = matches!(secret, Secret::Authorization | Secret::Cookie);
        let fits = rest.iter().all(|word| match *word {
            _ if header => false,
            // The secret_id of a Vault AppRole is a secret.
            "id" => words == ["secret", "id"],
            word if strict => ALLOWED_SUFFIXES.contains(word),
            word => !EXCLUDING_SUFFIXES.contains(word),
        });
        let owner = end.checked_sub(2).and_then(|at| words.get(at));
        let of_program =
            owner.is_some_and(|owner| SECRET_OWNERS.contains(owner)) || (end < words.len() && rest != ["id"]);
        let secret = if secret == Secret::Object && of_program { Secret::Plain } else { secret };
        fits.then_some(secret)
    }
}

/// The kind of credential that the words up to this one indicate.
fn classify_word(words: &[&str], at: usize) -> Option<Secret> {
    let word = *words.get(at)?;
    let before = at.checked_sub(1).and_then(|at| words.get(at)).copied().unwrap_or_default();
    let is_first = at == 0;
    match (before, word) {
        (_, "secret" | "credential" | "credentials") => return Some(Secret::Object),
        (_, "authorization") => return Some(Secret::Authorization),
        ("erlang", "cookie") if at + 1 == words.len() => return Some(Secret::Plain),
        (_, "cookie" | "cookies") => return Some(Secret::Cookie),
        ("seed" | "pass" | "recovery", "phrase")
        | ("pass", "word")
        | ("recovery" | "backup" | "pass" | "otp" | "mfa" | "totp", "code")
        | ("code", "verifier")
        | ("snmp", "community")
        | ("connect", "sid") => return Some(Secret::Plain),
        (_, "pat") if !is_first => return Some(Secret::Plain),
        ("pass", "words")
        | ("recovery" | "backup", "codes")
        | ("unseal" | "recovery" | "secret" | "private" | "api" | "access", "keys") => return Some(Secret::Plural),
        ("session" | "sess", "id") | (_, "auth" | "bearer" | "session" | "signature" | "sig" | "jwt" | "hec") => {
            return Some(Secret::Opaque);
        }
        (_, "salt" | "seed") if !is_first => return Some(Secret::Opaque),
        (_, "sid") if words.len() == 1 => return Some(Secret::Opaque),
        (before, "login") if before.ends_with("sonar") => return Some(Secret::Opaque),
        (before, "token" | "tokens") if NO_TOKENS.contains(before) => return None,
        (before, "key") if KEYS.contains(before) => return Some(Secret::Plain),
        // `client-key-data` in a kubeconfig.
        ("key", "data") if at.checked_sub(2).and_then(|at| words.get(at)) == Some(&"client") => {
            return Some(Secret::Plain);
        }
        (before, "key") if !DATA_KEYS.contains(before) => return Some(Secret::Opaque),
        _ => {}
    }
    let is_credential = WHOLE.contains(word)
        || ENDINGS.has_ending_of(word)
        || word.strip_suffix("key").is_some_and(|owner| KEYS.contains(owner))
        || (word.ends_with("pass") && !NOT_PASS.contains(word));
    if is_credential {
        return Some(Secret::Plain);
    }
    ENDINGS.has_ending_of(word.strip_suffix('s')?).then_some(Secret::Plural)
}

/// The words of a name in lower case, without trailing digits, separated by spaces.
fn words(name: &str) -> String {
    let mut words = String::with_capacity(name.len() + 8);
    let mut before = 0_u8;
    let mut bytes = name.bytes().peekable();
    while let Some(byte) = bytes.next() {
        let after = bytes.peek().copied().unwrap_or_default();
        let is_hump = byte.is_ascii_uppercase()
            && (before.is_ascii_lowercase() || (before.is_ascii_uppercase() && after.is_ascii_lowercase()));
        if is_hump || !byte.is_ascii_alphanumeric() {
            end_word(&mut words);
        }
        if byte.is_ascii_alphanumeric() {
            words.push(char::from(byte.to_ascii_lowercase()));
        }
        before = byte;
    }
    end_word(&mut words);
    words.truncate(words.trim_end().len());
    words
}

/// Ends the last word, without its digits.
fn end_word(words: &mut String) {
    let start = words.rfind(' ').map_or(0, |at| at + 1);
    if !matches!(words.get(start..), Some("base64" | "b64")) {
        words.truncate(words.trim_end_matches(|digit: char| digit.is_ascii_digit()).len());
    }
    if words.len() > start {
        words.push(' ');
    }
}
