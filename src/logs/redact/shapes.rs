//! Finds credentials by their format, independently of a key.

use std::{ops::Range, sync::LazyLock};

use regex::Regex;

use crate::logs::pattern::constant;

/// Tokens in the formats that their issuers publish. The lengths are minimums, because a token may have lost its end.
static TOKENS: LazyLock<Regex> = LazyLock::new(|| {
    constant(
        r"(?x-u)
        # JSON web tokens, signed, encrypted or cut
          \beyJ[A-Za-z0-9_-]{5,}(?:\.[A-Za-z0-9_-]*){1,4}
        | \beyJ[A-Za-z0-9_-]{24,}
        # a private key as a Secret holds it: PEM in base64
        | \bLS0tLS1CRUdJTiB(?:SU0Eg|QUklWQVRF|FQyBQ|PUEVOU1NI|EU0Eg|FTkNSWVBURUQg|QR1AgUFJJ)[A-Za-z0-9+/=]*
        # AWS: access key ids, session tokens
        | \b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b
        | \b(?:FwoGZXIvYXdz|FQoGZXIvYXdz|IQoJb3JpZ2lu)[A-Za-z0-9+/=_%-]{16,}
        # Google: API keys, access and refresh tokens, client secrets
        | \bAIza[A-Za-z0-9_-]{30,}
        | \bya29\.[A-Za-z0-9_.-]{10,}
        | \b1//0[A-Za-z0-9_-]{20,}
        | \bGOCSPX-[A-Za-z0-9_-]{16,}
        # Azure: storage and service keys, client secrets, DevOps tokens
        | \b[A-Za-z0-9+/]{86}==
        | \b[A-Za-z0-9_~.-]{3}[78]Q~[A-Za-z0-9_~.-]{31,34}
        | \b[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}\b
        # GitHub, GitLab, Bitbucket and Atlassian
        | \bgh[pousr]_[A-Za-z0-9]{16,}
        | \bgithub_pat_[A-Za-z0-9_]{16,}
        | \bgl(?:pat|oas|dt|rt|rtr|cbt|ptt|ft|imt|agent|soat|ffct)-[A-Za-z0-9_.=-]{16,}
        | \bATATT3[A-Za-z0-9_=-]{16,}
        | \bATBB[A-Za-z0-9]{20,}
        # Slack, Discord, Telegram
        | \bxox[abcdeoprs](?:\.xox[bp])?-[A-Za-z0-9-]{8,}
        | \bxapp-[0-9]-[A-Za-z0-9-]{8,}
        | \b[MNO][A-Za-z0-9_-]{22,28}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}
        | (?:\b|\bbot)[0-9]{8,10}:[A-Za-z0-9_-]{35}\b
        # payment and mail
        | \b[rs]k_(?:live|test)_[A-Za-z0-9]{10,}
        | \bwhsec_[A-Za-z0-9+/=_-]{16,}
        | \bsq0[a-z]{3}-[A-Za-z0-9_-]{20,}
        | \bshp(?:at|ca|pa|ss)_[A-Fa-f0-9]{24,}
        | \bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}
        | \bSK[0-9a-f]{32}\b
        | \bkey-[0-9a-f]{32}\b
        # package registries
        | \bnpm_[A-Za-z0-9]{30,}
        | \bpypi-AgE[A-Za-z0-9_-]{16,}
        | \brubygems_[a-f0-9]{32,}
        | \bdckr_(?:pat|oat)_[A-Za-z0-9_-]{16,}
        # models
        | \bsk-(?:ant|proj|svcacct|admin|or)-[A-Za-z0-9_-]{16,}
        | \bsk-[A-Za-z0-9]{32,}
        | \bhf_[A-Za-z0-9]{30,}
        # infrastructure
        | \bhv[sbr]\.[A-Za-z0-9_-]{20,}
        | \b[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{40,}
        | \bdo[oprt]_v1_[a-f0-9]{32,}
        | \bdapi[0-9a-f]{32}\b
        | \bglsa_[A-Za-z0-9]{24,}_[A-Fa-f0-9]{8}
        | \bglc_[A-Za-z0-9+/=]{32,}
        | \bNRAK-[A-Z0-9]{20,}
        | \blin_api_[A-Za-z0-9]{30,}
        | \bAGE-SECRET-KEY-1[0-9A-Z]{40,}
        ",
    )
});

/// Credentials within a text that is kept. The first group is redacted.
static PARTS: LazyLock<Regex> = LazyLock::new(|| {
    constant(
        r#"(?xi)
        # chat webhooks: the path is the credential
          \bhooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/([A-Z0-9/_-]+)
        | \bdiscord(?:app)?\.com/api/(?:v[0-9]+/)?webhooks/([0-9]+/[A-Z0-9_-]+)
        | \bwebhook\.office\.com/webhookb2/([A-Z0-9@/_-]+)
        # signed URLs
        | [?&](?:sig|signature|x-amz-signature|x-goog-signature|key|code)=([^&\s"'<>\\]{8,})
        # npm's and Docker's basic authorization
        | (?:\b_auth|"auth\\?")[\ \t]*[=:][\ \t]*\\?"?([A-Z0-9+/_-]{8,}={0,2})
        # curl's user
        | \bcurl\b[^\n]{0,512}?[\ ](?:-u|--user)[\ =]?["']?[^\s:"']+:([^\s"']+)
        # Oracle's thin URLs
        | \bjdbc:oracle:[a-z]+:[^\s/@]+/([^\s@]+)@
        "#,
    )
});

/// Authorization schemes, also outside of headers.
static SCHEMES: LazyLock<Regex> =
    LazyLock::new(|| constant(r"(?i-u)\b(?:bearer|basic)(?:[ \t]+|%20|\+)([A-Za-z0-9+/_.~-]{8,}={0,2})"));

/// User and password in a URL. The password extends to the last `@`, because many do not escape it.
static USERINFO: LazyLock<Regex> =
    LazyLock::new(|| constant(r#"://(?:[^\s:/@?\#"'<>]*:([^\s"'<>`]+)|([A-Za-z0-9_.~%-]{20,}))@"#));

static AWS_KEY_ID: LazyLock<Regex> = LazyLock::new(|| constant(r"(?-u)\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b"));

static AWS_SECRET: LazyLock<Regex> = LazyLock::new(|| constant(r"(?-u)[A-Za-z0-9+/]{40,}"));

/// How far from an AWS access key ID its secret is searched, in bytes.
const AWS_REACH: usize = 256;

pub(super) fn find(text: &str, ranges: &mut Vec<Range<usize>>) {
    ranges.extend(TOKENS.find_iter(text).map(|token| token.range()));
    ranges.extend(
        PARTS.captures_iter(text).filter_map(|found| found.iter().skip(1).flatten().next().map(|part| part.range())),
    );
    ranges.extend(
        SCHEMES
            .captures_iter(text)
            .filter_map(|found| found.get(1))
            .filter(|token| is_credential(token.as_str()))
            .map(|token| token.range()),
    );
    ranges.extend(
        USERINFO
            .captures_iter(text)
            .filter_map(|found| found.get(1).or(found.get(2)))
            .filter(|password| !is_port(password.as_str()))
            .map(|password| password.range()),
    );
    let mut searched = 0;
    for id in AWS_KEY_ID.find_iter(text) {
        let from = text.floor_char_boundary(id.start().saturating_sub(AWS_REACH)).max(searched);
        let to = text.ceil_char_boundary((id.end() + AWS_REACH).min(text.len()));
        ranges.extend(
            AWS_SECRET
                .find_iter(text.get(from..to).unwrap_or_default())
                .filter(|key| key.len() == 40 && !key.as_str().bytes().all(|byte| byte.is_ascii_hexdigit()))
                .map(|key| from + key.start()..from + key.end()),
        );
        searched = id.end();
    }
}

/// Distinguishes a credential from a word such as "authentication": by its length, a digit, a sign, or a capital letter
/// after a small one.
fn is_credential(token: &str) -> bool {
    token.len() >= 24
        || token.bytes().any(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'~'))
        || token
            .as_bytes()
            .windows(2)
            .any(|pair| matches!(pair, [a, b] if a.is_ascii_lowercase() && b.is_ascii_uppercase()))
}

/// Whether the text after the colon is a port and a path with an `@`, as in `http://registry:4873/@scope/name`.
fn is_port(password: &str) -> bool {
    let digits = password.bytes().take_while(u8::is_ascii_digit).count();
    (1..=5).contains(&digits) && matches!(password.as_bytes().get(digits), Some(b'/' | b'?' | b'#'))
}
