//! Finds the values of keys that are named like a credential, in many notations.

mod harmless;
mod names;
mod notation;
mod values;

use std::ops::Range;

use self::{
    harmless::Context,
    names::{Name, Secret},
    notation::{Key, Notation},
};
use super::text::{DIGIT, NAME, is_at, length, run, run_before};

/// A part of every name of a credential. [`names`] decides with the whole name.
pub(super) const STEMS: &str = "pass pwd pswd pw secret token cred auth cookie key pat salt seed pepper mnemonic otp recovery \
                                backup community session sid sess_id sessid connect.sid sonar.login psk hmac sig jwt kennwort \
                                senha hec verifier bearer contrasena wachtwoord";

/// How much of a name is considered on either side of its stem, in bytes.
const MAX_NAME: usize = 128;

/// How many keys and phrases are examined before a position. A log has at most 1,000 lines, so few have more. What follows
/// further ones is masked to the end of the line, because texts that consist of them would take too long.
pub(super) fn most_examined(at: usize) -> usize {
    1024 + at / 128
}

/// Where the search for keys continues.
#[derive(Default)]
pub(super) struct Keys {
    done: usize,
    examined: usize,
}

impl Keys {
    /// The value of the key whose name contains the stem. The stems must be passed in their order.
    pub(super) fn find(&mut self, text: &str, stem: Range<usize>, ranges: &mut Vec<Range<usize>>) {
        if stem.start < self.done {
            return;
        }
        let range = name_around(text, stem, self.done);
        self.done = range.end;
        let Some(key) = Key::new(text, range.clone()).filter(|key| !key.is_of_data()) else { return };
        if self.examined > most_examined(range.start) {
            // Whether there is a value is not examined any more.
            if Name::new(key.name).classify(false).is_some() {
                let end = range.end + length(text.as_bytes(), range.end, |_| false);
                ranges.push(range.end..end);
                self.done = end;
            }
            return;
        }
        self.examine(text, &key, ranges);
    }

    fn examine(&mut self, text: &str, key: &Key<'_>, ranges: &mut Vec<Range<usize>>) {
        let Some(place) = key.value() else {
            self.examined += usize::from(key.is_quoted_before());
            return;
        };
        let name = Name::new(key.name);
        let Some(secret) = name.classify(place.strict).or_else(|| {
            // In prose, only a random value follows other names: `hub.token.ci: …`.
            if !(place.strict && place.notation == Notation::Colon) {
                return None;
            }
            name.classify(false).filter(|_| place.has_random(text))
        }) else {
            return;
        };
        self.examined += 1;
        if place.certain && secret == Secret::Opaque {
            return;
        }
        let (leads, of_data) = (key.leads(), key.may_be_of_data());
        let context = Context { name: &name, secret, notation: place.notation, leads, of_data };
        let value = match place.end {
            Some(end) => values::redactable(text, place.start..end, &context),
            None => values::find(text, place.start, &context),
        };
        if let Some(value) = value {
            self.done = self.done.max(value.end);
            ranges.push(value);
        }
    }
}

/// Whether a name is that of a credential.
pub(super) fn is_credential(name: &str) -> bool {
    matches!(Name::new(name).classify(true), Some(Secret::Plain | Secret::Object))
}

/// The whole name that contains a stem. It does not start before `floor`.
fn name_around(text: &str, stem: Range<usize>, floor: usize) -> Range<usize> {
    let bytes = text.as_bytes();
    let before = run_before(bytes, stem.start, NAME, MAX_NAME.min(stem.start.saturating_sub(floor)));
    let mut start = stem.start - before;
    // The letter of an escaped line break or tab is no part of the name: `\r\ncookie`.
    let escaped = start > floor && bytes.get(start - 1) == Some(&b'\\');
    if escaped && start < stem.start && matches!(bytes.get(start), Some(b'n' | b'r' | b't')) {
        start += 1;
    }
    // Names of several words: `api key`.
    start -= first_word(text.get(floor..start).unwrap_or_default(), text.get(stem.clone()).unwrap_or_default());
    let mut end = stem.end + run(bytes, stem.end, NAME, MAX_NAME);
    // Dots may fill the space up to the value: `password......value`.
    if let Some(dots) = text.get(stem.end..end).and_then(|rest| rest.find("...")) {
        end = stem.end + dots;
    }
    // OTP code, recovery codes
    if end == stem.end
        && ["otp", "recovery", "backup"]
            .iter()
            .any(|word| text.get(start..end).is_some_and(|name| name.eq_ignore_ascii_case(word)))
    {
        let rest = text.get(end..).unwrap_or_default();
        end += [" codes", " code"].iter().find(|word| rest.starts_with(**word)).map_or(0, |word| word.len());
    }
    // Unseal Key 1
    if end == stem.end
        && text.get(stem.clone()).is_some_and(|stem| stem.eq_ignore_ascii_case("key"))
        && bytes.get(end) == Some(&b' ')
        && is_at(bytes, end + 1, DIGIT)
        && bytes.get(end + 2) == Some(&b':')
    {
        end += 2;
    }
    start..end
}

/// The length of the first word of a name such as `api key`, with its space.
fn first_word(head: &str, stem: &str) -> usize {
    let Some(words) = head.strip_suffix(' ').filter(|_| stem.eq_ignore_ascii_case("key")) else { return 0 };
    let letters = words.bytes().rev().take(16).take_while(u8::is_ascii_alphabetic).count();
    let word = words.get(words.len() - letters..).unwrap_or_default();
    if names::precedes_key(word) { letters + 1 } else { 0 }
}
