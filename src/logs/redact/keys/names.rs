//! Decides which names of keys are those of credentials.

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
const ENDINGS: &str = "password passwd passphrase passcode pwd secret token apikey accesskey secretkey privatekey authkey \
    accountkey signingkey credential dbpw userpw bindpw rootpw adminpw mnemonic jsessionid phpsessid sessionid masterauth \
    sharedaccesskeyvalue";

/// Words that end in "pass" and have nothing to do with passwords.
const NOT_PASS: &str = "bypass compass encompass overpass underpass surpass trespass multipass";

/// Words that indicate a credential if "key" follows.
const KEYS: &str = "api access private secret auth account signing encryption master shared session storage subscription \
    functions token host service app application fernet jwt jws jwe license licence sdk integration preshared psk aes hmac \
    des crypto cipher webhook hook deploy unseal root admin write ingest ingestion instrumentation merchant consumer csrf \
    wallet recovery backup sign signature decryption kek dek bot stripe mailgun sendgrid datadog sentry twilio openai";

/// Words that make "key" one of data, not of a lock.
const DATA_KEYS: &str = "public pub primary foreign partition sort cache object routing idempotency dedup deduplication group \
    index unique row lock map hash message topic event translation label annotation registry duplicate dup natural \
    composite surrogate shard record item entry field column config setting property redis s3 etag request trace span";

/// Words that may follow in the name of a credential, if the notation also occurs in prose.
const ALLOWED_SUFFIXES: &str = "key value val data base base64 b64 text plain plaintext string str hex hash salt old new current \
    confirm confirmation prod dev default primary secondary master";

/// Words that make the name one of something else, such as the path, name or lifetime of a credential.
const EXCLUDING_SUFFIXES: &str = "name names file files filename path paths dir directory ref refs url uri type types count counts ttl \
    expiry expires expired expiration exp length len size policy version endpoint endpoints mode age \
    limit limits field prefix provider providers manager store namespace enabled required rotation \
    status error errors reason usage used class kind issuer audience scope scopes source volume mount \
    informer controller review cache exception changed change at updated created date time since last reset hint strength min max \
    hasher hashers encryption method methods algorithm algo backend helper expire expires lifetime timeout seconds secs days \
    minutes ms left remaining budget per domain samesite secure httponly header headers uris server filter filters go py js ts rs rb java kt cs cpp php sh id in";

/// Words before "secret" that leave no doubt: it is not the name of a Kubernetes Secret.
const SECRET_OWNERS: &str =
    "client app consumer signing jwt webhook session cookie api shared oauth csrf access user admin";

/// Words that make a number a quantity: `max_token=512`.
const QUANTITIES: &str = "max min num n total count prompt completion input output cached reasoning remaining used new avg mean \
    processed next number current";

/// Whether a name is that of a number if its value is one.
pub(super) fn counts(name: &str) -> bool {
    let words = words(name);
    words.iter().any(|word| among(QUANTITIES, word))
        || matches!(words.as_slice(), [word] if matches!(word.as_str(), "pass" | "token"))
}

/// Whether a name is the single word.
pub(super) fn is_word(name: &str, word: &str) -> bool {
    matches!(words(name).as_slice(), [one] if one == word)
}

/// The last word of a name.
pub(super) fn last_word(name: &str) -> Option<String> {
    words(name).pop()
}

/// Whether a name is that of a credential. After the word that indicates it, `strict` allows only
/// [`ALLOWED_SUFFIXES`]; otherwise every suffix except [`EXCLUDING_SUFFIXES`] is allowed.
pub(super) fn classify(name: &str, strict: bool) -> Option<Secret> {
    // The shell's previous directory. The current one is recognized by its value.
    if name == "OLDPWD" {
        return None;
    }
    let words = words(name);
    let (end, secret) = (0..words.len()).rev().find_map(|at| {
        let secret = classify_word(&words, at)?;
        Some((at + 1, secret))
    })?;
    let rest = words.get(end..).unwrap_or_default();
    let header = matches!(secret, Secret::Authorization | Secret::Cookie);
    let fits = rest.iter().all(|word| match word.as_str() {
        _ if header => false,
        // The secret_id of a Vault AppRole is a secret.
        "id" => secret == Secret::Object && rest.len() == 1 && end == 1,
        word if strict => among(ALLOWED_SUFFIXES, word),
        word => !among(EXCLUDING_SUFFIXES, word),
    });
    let owner = end.checked_sub(2).and_then(|at| words.get(at));
    let of_program = owner.is_some_and(|owner| among(SECRET_OWNERS, owner)) || end < words.len();
    let secret = if secret == Secret::Object && of_program { Secret::Plain } else { secret };
    fits.then_some(secret)
}

/// The kind of credential that the words up to this one indicate.
fn classify_word(words: &[String], at: usize) -> Option<Secret> {
    let word = words.get(at)?.as_str();
    let before = at.checked_sub(1).and_then(|at| words.get(at)).map(String::as_str);
    match word {
        "secret" | "credential" | "credentials" => return Some(Secret::Object),
        "pass" | "pswd" | "pw" | "mnemonic" | "passcode" | "otp" | "pepper" => return Some(Secret::Plain),
        "pat" if at > 0 => return Some(Secret::Plain),
        "seed" | "salt" if at > 0 => return Some(Secret::Opaque),
        "phrase" if before == Some("seed") => return Some(Secret::Plain),
        "code" if before == Some("recovery") => return Some(Secret::Plain),
        "community" if before == Some("snmp") => return Some(Secret::Plain),
        "sid" if before == Some("connect") => return Some(Secret::Plain),
        "id" if before == Some("session") && at == 1 => return Some(Secret::Opaque),
        "auth" => return Some(Secret::Opaque),
        "authorization" => return Some(Secret::Authorization),
        "cookie" if at + 1 == words.len() && before == Some("erlang") => return Some(Secret::Plain),
        "cookie" => return Some(Secret::Cookie),
        "key" if before.is_some_and(|before| among(KEYS, before)) => return Some(Secret::Plain),
        // `client-key-data` in a kubeconfig.
        "data" if at >= 2 && before == Some("key") && words.get(at - 2).is_some_and(|word| word == "client") => {
            return Some(Secret::Plain);
        }
        "key" if before.is_none_or(|before| !among(DATA_KEYS, before)) => return Some(Secret::Opaque),
        _ => {}
    }
    if word.strip_suffix("key").is_some_and(|owner| among(KEYS, owner))
        || (word.ends_with("pass") && !among(NOT_PASS, word))
    {
        return Some(Secret::Plain);
    }
    if ENDINGS.split(' ').any(|ending| word.ends_with(ending)) {
        return Some(Secret::Plain);
    }
    let single = word.strip_suffix('s')?;
    ENDINGS.split(' ').any(|ending| single.ends_with(ending)).then_some(Secret::Plural)
}

/// The words of a name in lower case, without trailing digits.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let bytes = name.as_bytes();
    let mut starts_word = true;
    for (at, &byte) in bytes.iter().enumerate() {
        if !byte.is_ascii_alphanumeric() {
            starts_word = true;
            continue;
        }
        let before = at.checked_sub(1).and_then(|at| bytes.get(at)).copied().unwrap_or_default();
        let after = bytes.get(at + 1).copied().unwrap_or_default();
        let hump = byte.is_ascii_uppercase()
            && (before.is_ascii_lowercase() || (before.is_ascii_uppercase() && after.is_ascii_lowercase()));
        if starts_word || hump {
            words.push(String::new());
        }
        starts_word = false;
        if let Some(word) = words.last_mut() {
            word.push(char::from(byte.to_ascii_lowercase()));
        }
    }
    for word in &mut words {
        if !matches!(word.as_str(), "base64" | "b64") {
            word.truncate(word.trim_end_matches(|digit: char| digit.is_ascii_digit()).len());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Whether a word is in a list that is separated by spaces.
pub(super) fn among(list: &str, word: &str) -> bool {
    list.split(' ').any(|one| one == word)
}
