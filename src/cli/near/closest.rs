//! The name that is closest to a missing one, if one is close. Pure.

use strsim::osa_distance;

/// Objects that every namespace has, so that they are not what somebody meant.
const EVERYWHERE: [&str; 2] = ["kube-root-ca.crt", "istio-ca-root-cert"];

/// The closest of these names. Of several, the one with the smallest edit distance, and then the first in alphabetical order.
pub(super) fn closest<'n>(wanted: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let lower = wanted.to_lowercase();
    let near = names.filter(|name| *name != wanted && !EVERYWHERE.contains(name) && is_close(wanted, name));
    near.min_by_key(|name| (osa_distance(&lower, &name.to_lowercase()), *name))
}

/// Whether one of two names may be meant by the other: it has a typing error, or the words of the other and more.
fn is_close(one: &str, other: &str) -> bool {
    let (one, other) = (one.to_lowercase(), other.to_lowercase());
    let (words, others) = (split(&one), split(&other));
    is_misspelt(&one, &other, &words, &others) || has_words_of(&words, &others)
}

fn split(name: &str) -> Vec<&str> {
    name.split(['-', '.', '_']).filter(|word| !word.is_empty()).collect()
}

/// One or two wrong letters. Numbers are no typing errors: `data-0` and `data-1` are two objects.
fn is_misspelt(one: &str, other: &str, words: &[&str], others: &[&str]) -> bool {
    let shorter = one.chars().count().min(other.chars().count());
    let most = match shorter {
        ..4 => return one == other,
        4..8 => 1,
        _ => 2,
    };
    let digits = |name: &str| name.chars().filter(char::is_ascii_digit).collect::<String>();
    // A wrong letter in a short word makes another word.
    let is_wrong_word = |(one, other): (&&str, &&str)| one == other || one.len().min(other.len()) >= 4;
    let are_words = words.len() != others.len() || words.iter().zip(others).all(is_wrong_word);
    digits(one) == digits(other) && are_words && osa_distance(one, other) <= most
}

/// Whether the words of one are also words of the other, in any order, and the other has few more. Hashes at the end, such as
/// those of Kustomize, do not count.
fn has_words_of(words: &[&str], others: &[&str]) -> bool {
    let (words, others) = (without_hash(words), without_hash(others));
    let (fewer, mut more) =
        if words.len() <= others.len() { (words, others.to_vec()) } else { (others, words.to_vec()) };
    let most = more.len();
    let is_part = fewer.iter().all(|word| match more.iter().position(|other| is_same_word(word, other)) {
        Some(place) => {
            more.swap_remove(place);
            true
        }
        None => false,
    });
    // What is left may be a number, such as of a replica.
    let is_numbered = more.iter().any(|word| word.bytes().all(|own| own.is_ascii_digit()));
    is_part && !is_numbered && !fewer.is_empty() && 5 * fewer.len() >= 3 * most
}

fn without_hash<'w, 'n>(words: &'w [&'n str]) -> &'w [&'n str] {
    let is_hash = |word: &str| word.len() >= 5 && word.contains(|own: char| own.is_ascii_digit());
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() && is_hash(last) => rest,
        _ => words,
    }
}

/// `config` and `configuration`, `secret` and `secrets`.
fn is_same_word(one: &str, other: &str) -> bool {
    let (short, long) = if one.len() <= other.len() { (one, other) } else { (other, one) };
    one == other || short.len() >= 4 && long.starts_with(short) && !long.contains(|own: char| own.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_may_be_meant_are_close() {
        for (wanted, existing) in [
            ("app-config", "app-configuration"),
            ("app-config", "app-confg"),
            ("app-config", "app-configs"),
            ("app-config", "appconfig"),
            ("app-config", "config-app"),
            ("app-config", "app-config-prod"),
            ("shop-app-config", "app-config"),
            ("app-config", "app-config-5d9f7c8h2k"),
            ("app-config-m2h5b9t4gd", "app-config-5d9f7c8h2k"),
            ("db-credentials", "db-credential"),
            ("db-credentials", "db-crednetials"),
            ("redis-pvc", "redis-pvc-data"),
            ("postgres", "postgers"),
            ("prometheus", "promethues"),
            ("deployer", "deploy"),
            ("LOG_LEVEL", "log-level"),
            ("DATABASE_URL", "DATABASEURL"),
            ("conf.yaml", "config.yaml"),
            ("cart_settings", "cart-settings"),
            ("regcred", "regcreds"),
        ] {
            let found = closest(wanted, ["kube-root-ca.crt", "unrelated", existing].into_iter());
            assert_eq!(found, Some(existing), "{wanted}");
        }
    }

    #[test]
    fn names_of_other_objects_are_not_close() {
        for (wanted, existing) in [
            ("app-config", "app-secret"),
            ("app-config", "cart-config"),
            ("app-config", "app"),
            ("app-config", "config"),
            ("redis", "redis-credentials"),
            ("payments-db-credentials", "payments-db-backup"),
            ("data-redis-0", "data-redis-1"),
            ("data-0", "data-1"),
            ("app-tls", "api-tls"),
            ("db", "bd"),
            ("tls", "tsl"),
            ("config-v1", "config-v2"),
            ("kube-root-ca", "kube-root-ca.crt"),
            ("default", "builder"),
            ("settings", "settings"),
            ("web-data", "web-data-2"),
            ("", "a"),
        ] {
            assert_eq!(closest(wanted, std::iter::once(existing)), None, "{wanted} and {existing}");
        }
    }

    #[test]
    fn the_closest_name_is_suggested() {
        let names = ["app-configuration", "app-configs", "app-config-b", "app-config-a"];
        assert_eq!(closest("app-config", names.into_iter()), Some("app-configs"));
        assert_eq!(closest("app-config", names[2..].iter().copied()), Some("app-config-a"));
        let hostile = "-".repeat(300_000);
        assert_eq!(closest("app-config", std::iter::once(hostile.as_str())), None);
    }
}
