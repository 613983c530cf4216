//! Finds credentials on command lines, in connection strings, and in phrases that announce them.

use std::{ops::Range, sync::LazyLock};

use regex::Regex;

use super::keys::{is_reference, is_secret_like};
use crate::logs::pattern::small;

/// A rule's pattern, whose first group is redacted.
struct Rule {
    pattern: Regex,
    /// Words of which each match contains one. Only the text near them is searched.
    needle: Regex,
    /// Whether the value must look like a secret, because the same words also occur in prose.
    strict: bool,
}

fn rule(needles: &[&str], strict: bool, pattern: &str) -> Rule {
    // The ASCII classes compile to much smaller automata.
    let pattern = pattern.replace(r"\b", r"(?-u:\b)").replace(r"\w", "[0-9A-Za-z_]");
    let needles: Vec<String> = needles.iter().map(|needle| regex::escape(needle)).collect();
    Rule { pattern: small(&pattern), needle: small(&needles.join("|")), strict }
}

static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    vec![
        // The password is attached to the option: mysql -pPASS
        rule(
            &["mysql", "mariadb", "sshpass", "7z"],
            false,
            r#"\b(?:mysql[a-z]*|mariadb[a-z-]*|sshpass|7za?)\b[^\n|]{0,256}?[\s"'\[,]-p["']?([^\s"',\]]+)"#,
        ),
        // The password follows a short option.
        rule(
            &["login", "sshpass", "mongo", "cqlsh"],
            false,
            r#"\b(?:(?:docker|podman|buildah|skopeo|nerdctl|crane|oras|helm registry|az|oc|cf)["',\s]+login|sshpass|mongo[a-z]*|cqlsh)\b[^\n|]{0,256}?[\s"'\[,]-p["',\s]+([^\s"',\]]+)"#,
        ),
        rule(&["redis-cli"], false, r#"\bredis-cli\b[^\n|]{0,256}?[\s"'\[,](?:-a|--pass)["',\s]+([^\s"',\]]+)"#),
        rule(
            &["sqlcmd", "bcp", "mosquitto_", "zip", "ipmitool"],
            false,
            r#"\b(?:sqlcmd|bcp|mosquitto_[a-z]+|zip|unzip|ipmitool)\b[^\n|]{0,256}?[\s"'\[,]-P["',\s]*([^\s"',\]]+)"#,
        ),
        rule(&["ldap"], false, r#"\bldap[a-z]+\b[^\n|]{0,256}?[\s"'\[,]-w["',\s]+([^\s"',\]]+)"#),
        rule(&["openssl"], false, r#"\bopenssl\b[^\n|]{0,256}?\s(?:-pass(?:in|out)?\s+pass:|-[kK]\s+)([^\s"']+)"#),
        rule(
            &["rabbitmqctl"],
            false,
            r#"\brabbitmqctl\s+(?:add_user|change_password|authenticate_user)\s+\S+\s+([^\s"']+)"#,
        ),
        rule(&["htpasswd"], false, r#"\bhtpasswd\s+-[a-zA-Z]*b[a-zA-Z]*\s+\S+\s+\S+\s+([^\s"']+)"#),
        rule(&["vault login"], true, r#"\bvault login\s+(?:-\S+\s+)*([^\s"'=-][^\s"'=]*)"#),
        rule(&["-U ", "--user"], true, r#"\s(?:-U|--user)[ =]?["']?[A-Za-z0-9_.\\-]+%([^\s"']+)"#),
        rule(&["lftp"], false, r#"\blftp\b[^\n|]{0,128}?\s-u\s*["']?[^\s,"']+,([^\s"']+)"#),
        rule(
            &["curl"],
            false,
            r#"\bcurl\b[^\n]{0,512}?\s(?:-[a-zA-Z]*[uU]|--user|--proxy-user)[\s=]?["']?[^\s:"'/]+:([^\s"']+)"#,
        ),
        rule(&["login"], false, r"\b(?:machine\s+\S{1,253}|default)\s+login\s+\S{1,128}\s+password\s+(\S+)"),
        rule(
            &["--password-stdin"],
            false,
            r#"\becho\s+(?:-n\s+)?["']?([^\s"'|]+)["']?\s*\|[^\n]{0,256}?--password-stdin"#,
        ),
        // SQL
        rule(
            &["IDENTIFIED", "identified", "PASSWORD", "password"],
            false,
            r"(?i)\b(?:identified(?:\s+with\s+\S+)?\s+by|password(?:\s+for\s+\S+\s*=)?)\s+(?:password\s+)?'([^'\n]+)'",
        ),
        // Redis
        rule(&["AUTH "], true, r"(?m)^\W*AUTH\s+(?:default\s+)?([^\s]+)\s*$"),
        rule(&["USER "], false, r"\bUSER\s+\S+\s+on\s+[^\n]{0,64}?>(\S+)"),
        // .pgpass
        rule(
            &[":5432:", ":*:"],
            true,
            r"(?m)(?:^|\s)[A-Za-z0-9_.*-]+:(?:[0-9]{2,5}|\*):[A-Za-z0-9_.*-]+:[A-Za-z0-9_.*-]+:([^\s:/]{4,})(?:\s|$)",
        ),
        // Go's data source names
        rule(&["@tcp(", "@unix("], false, r#"(?:^|[\s"'=])[A-Za-z0-9_.-]*:([^\s"']+)@(?:tcp|unix)\("#),
        // Oracle
        rule(&["@//"], false, r#"\b[A-Za-z0-9_$#]+/([^\s/@"']+)@//"#),
        rule(
            &[":1521", ":1522", ":1526"],
            false,
            r#"\b[A-Za-z_][A-Za-z0-9_$#]*/([^\s/@"']+)@[A-Za-z0-9.-]+:[0-9]{2,5}[:/]\w+"#,
        ),
        rule(
            &[
                "sqlplus",
                "sqlldr",
                "expdp",
                "impdp",
                "rman ",
                "onnecting",
                "CONNECT",
                "connect ",
                "logon",
                "userid",
                "dsn",
            ],
            true,
            r#"(?i)\b(?:sqlplus|sqlldr|expdp|impdp|rman|connect(?:ing|ed)?|conn|logon|dsn|userid|oracle)\b[^\n]{0,32}?[\s=:][a-z_][a-z0-9_$#]*/([^\s/@"']+)@[a-z]"#,
        ),
        // Percent-encoded URLs
        rule(&["%3A%2F%2F", "%3a%2f%2f"], false, r"(?i)%3A%2F%2F[^\s&%]*%3A([^\s&]+?)%40"),
        // HTML
        rule(&["&quot;"], false, r"(?i)(?:pass(?:word|wd)?|secret|token|api_?key)(?:&quot;)?\s*[:=]\s*&quot;([^&\n]+)"),
        // Prose
        rule(&["pass", "Pass"], true, r#"(?i)\bpass(?:word|phrase|code)\s+(?:is|was|set to)\s*:?\s*["']?([^\s"']+)"#),
        rule(
            &["pass", "Pass"],
            true,
            r#"(?i)\b(?:pass(?:word|phrase|code)?|pw)\s+["']?([^\s"']{6,})["']?(?:\s+(?:failed|rejected|for)\b|$)"#,
        ),
        rule(&["assword"], true, r#"(?im)\bpassword\b[^\n:="'{}]{1,64}(?:\([^\n)]{0,100}\))?:\s+([^\s,{}]+)\s*$"#),
        rule(
            &["value "],
            false,
            r#"(?i)\b(?:pass(?:word|phrase|code)?|secret|token|api_?key)["'`]?\s+(?:with|has|had|of)\s+value:?\s+["'`]?([^\s"'`]+)"#,
        ),
        rule(&["key ", "oken "], true, r"(?i)\b(?:api[ _-]?key|token|secret)\s+([a-z0-9_+/-]{24,})\b"),
        // The words of a wallet
        rule(
            &["nemonic", "eed phrase", "eed_phrase"],
            false,
            r"(?i)(?:mnemonic|seed[ _]phrase)\W{1,4}((?:[a-z]{3,8}[ ]){11,23}[a-z]{3,8})",
        ),
        // PuTTY's keys
        rule(&["Private-Lines"], false, r"Private-Lines: [0-9]+\n((?:[A-Za-z0-9+/=]{4,80}\n?)+)"),
        rule(&["Private-MAC"], false, r"Private-MAC: ([0-9a-f]{32,})"),
        // Headers of request signatures
        rule(&["ignature-256", "ignature"], false, r"(?i)\bsignature(?:-256)?:\s+(?:sha(?:1|256)=)?([0-9a-f]{40,})"),
    ]
});

/// How much of a text is searched before and after a needle, in bytes.
const BEFORE: usize = 256;
const AFTER: usize = 1024;

pub(super) fn find(text: &str, ranges: &mut Vec<Range<usize>>) {
    for rule in RULES.iter() {
        let mut searched = 0;
        while let Some(needle) = rule.needle.find_at(text, searched).map(|found| found.start()) {
            let from = text.floor_char_boundary(needle.saturating_sub(BEFORE)).max(searched);
            let line = text.get(from..needle).and_then(|head| head.rfind('\n')).map_or(from, |end| from + end + 1);
            let to = text.floor_char_boundary((needle + AFTER).min(text.len()));
            let near = text.get(..to).unwrap_or_default();
            let mut at = line;
            while let Some(value) = rule.pattern.captures_at(near, at).and_then(|found| found.get(1)) {
                if !is_reference(value.as_str()) && (!rule.strict || is_secret_like(value.as_str())) {
                    ranges.push(value.range());
                }
                at = value.end();
            }
            searched = to.max(needle + 1);
        }
    }
}
