//! Decides which names of keys are those of credentials.

/// The kind of credential that a name indicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Secret {
    /// A password, a token, a key.
    Plain,
    /// Just "secret", which may also refer to a Kubernetes Secret.
    Object,
    /// A plural, whose value may be a count.
    Plural,
    /// The authorization header.
    Authorization,
    /// A cookie header.
    Cookie,
}

/// Words that indicate a credential, also at the end of a longer word such as `PGPASSWORD`.
const ENDINGS: &str = "password passwd passphrase passcode pwd secret token apikey accesskey secretkey privatekey authkey \
    accountkey signingkey credential";

/// Words that indicate a credential if "key" follows.
const KEYS: &str = "api access private secret auth account signing encryption master shared session storage subscription \
    functions token host service";

/// Words that may follow in the name of a credential, if the notation also occurs in prose.
const ALLOWED_SUFFIXES: &str = "key value val data base base64 b64 text plain plaintext string str hex hash salt old new current \
    confirm confirmation prod dev default primary secondary master";

/// Words that make the name one of something else, such as the path, name or lifetime of a credential.
const EXCLUDING_SUFFIXES: &str = "name names file files filename path paths dir directory ref refs url uri type types count counts ttl \
    expiry expires expired expiration exp length len size policy version endpoint endpoints mode age \
    limit limits field prefix provider providers manager store namespace enabled required rotation \
    status error errors reason usage used class kind issuer audience scope scopes source volume mount \
    informer controller review cache exception go py js ts rs rb java kt cs cpp php sh id in";

/// Whether a name is that of a credential. After the word that indicates it, `strict` allows only
/// [`ALLOWED_SUFFIXES`]; otherwise every suffix except [`EXCLUDING_SUFFIXES`] is allowed.
pub(super) fn classify(name: &str, strict: bool) -> Option<Secret> {
    // The shell's working directory.
    if matches!(name, "PWD" | "OLDPWD") {
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
        "id" => secret == Secret::Object && rest.len() == 1,
        word if strict => among(ALLOWED_SUFFIXES, word),
        word => !among(EXCLUDING_SUFFIXES, word),
    });
    let secret = if secret == Secret::Object && (words.len() > 1) { Secret::Plain } else { secret };
    fits.then_some(secret)
}

/// The kind of credential that the words up to this one indicate.
fn classify_word(words: &[String], at: usize) -> Option<Secret> {
    let word = words.get(at)?.as_str();
    let before = at.checked_sub(1).and_then(|at| words.get(at)).map(String::as_str);
    match word {
        "secret" | "credential" | "credentials" => return Some(Secret::Object),
        "pass" | "pswd" => return Some(Secret::Plain),
        "authorization" => return Some(Secret::Authorization),
        "cookie" => return Some(Secret::Cookie),
        "key" if before.is_some_and(|before| among(KEYS, before)) => return Some(Secret::Plain),
        // `client-key-data` in a kubeconfig.
        "data" if at >= 2 && before == Some("key") && words.get(at - 2).is_some_and(|word| word == "client") => {
            return Some(Secret::Plain);
        }
        _ => {}
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
