//! Which names of keys are a credential's.

/// What kind of credential a name promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Secret {
    /// A password, a token, a key.
    Plain,
    /// Something called just "secret", which is also the name of an object of Kubernetes.
    Object,
    /// Several of something, where a number is their count.
    Plural,
    /// The authorization header.
    Authorization,
    /// A cookie header.
    Cookie,
}

/// Words that name a credential by themselves, also as the end of a longer word: `PGPASSWORD`.
const ENDINGS: &str = "password passwd passphrase passcode pwd secret token apikey accesskey secretkey privatekey authkey \
    accountkey signingkey credential";

/// Words that name a credential with "key" after them.
const KEYS: &str = "api access private secret auth account signing encryption master shared session storage subscription \
    functions token host service";

/// Words after which a name is still a credential's, where the notation is one that prose uses too.
const AFTER: &str = "key value val data base base64 b64 text plain plaintext string str hex hash salt old new current \
    confirm confirmation prod dev default primary secondary master";

/// Words after which a name is one of something else: where it is kept, what it is called, how long it lasts.
const ELSE: &str = "name names file files filename path paths dir directory ref refs url uri type types count counts ttl \
    expiry expires expired expiration exp length len size policy version endpoint endpoints mode age \
    limit limits field prefix provider providers manager store namespace enabled required rotation \
    status error errors reason usage used class kind issuer audience scope scopes source volume mount \
    informer controller review cache exception go py js ts rs rb java kt cs cpp php sh id in";

/// Whether a name is a credential's. Strict names end with what makes them one; the others need only
/// have it in them, and nothing after it that says otherwise.
pub(super) fn judge(name: &str, strict: bool) -> Option<Secret> {
    // The shell's working directory.
    if matches!(name, "PWD" | "OLDPWD") {
        return None;
    }
    let words = words(name);
    let (end, secret) = (0..words.len()).rev().find_map(|at| {
        let secret = at_word(&words, at)?;
        Some((at + 1, secret))
    })?;
    let rest = words.get(end..).unwrap_or_default();
    let header = matches!(secret, Secret::Authorization | Secret::Cookie);
    let fits = rest.iter().all(|word| match word.as_str() {
        _ if header => false,
        // Vault's AppRole: a secret id is the secret.
        "id" => secret == Secret::Object && rest.len() == 1,
        word if strict => among(AFTER, word),
        word => !among(ELSE, word),
    });
    let secret = if secret == Secret::Object && (words.len() > 1) { Secret::Plain } else { secret };
    fits.then_some(secret)
}

/// What the words up to and with this one name.
fn at_word(words: &[String], at: usize) -> Option<Secret> {
    let word = words.get(at)?.as_str();
    let before = at.checked_sub(1).and_then(|at| words.get(at)).map(String::as_str);
    match word {
        "secret" | "credential" | "credentials" => return Some(Secret::Object),
        "pass" | "pswd" => return Some(Secret::Plain),
        "authorization" => return Some(Secret::Authorization),
        "cookie" => return Some(Secret::Cookie),
        "key" if before.is_some_and(|before| among(KEYS, before)) => return Some(Secret::Plain),
        // A kubeconfig's client-key-data.
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

/// A name's words in small letters, without the digits at their ends.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let bytes = name.as_bytes();
    let mut fresh = true;
    for (at, &byte) in bytes.iter().enumerate() {
        if !byte.is_ascii_alphanumeric() {
            fresh = true;
            continue;
        }
        let before = at.checked_sub(1).and_then(|at| bytes.get(at)).copied().unwrap_or_default();
        let after = bytes.get(at + 1).copied().unwrap_or_default();
        let hump = byte.is_ascii_uppercase()
            && (before.is_ascii_lowercase() || (before.is_ascii_uppercase() && after.is_ascii_lowercase()));
        if fresh || hump {
            words.push(String::new());
        }
        fresh = false;
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

/// Whether a word is one of a list's, which is written as a text with a blank between two.
pub(super) fn among(list: &str, word: &str) -> bool {
    list.split(' ').any(|one| one == word)
}
