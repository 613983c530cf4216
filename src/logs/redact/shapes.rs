//! Finds credentials by their format, independently of a key.

use std::{ops::Range, sync::LazyLock};

use regex::Regex;

use super::keys::{is_random, is_reference};
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
        | \b[A-Za-z0-9_~.-]{3}[78]Q~[A-Za-z0-9_~.-]{31,34}
        | \b[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}\b
        # other clouds: Alibaba, Tencent, Amazon Bedrock
        | \bLTAI[[:alnum:]]{12,26}\b
        | \bAKID[A-Za-z0-9]{28,}
        | \bABSK[A-Za-z0-9+/=]{60,}
        # GitHub, GitLab, Bitbucket and Atlassian
        | \bv1\.[0-9]-[0-9a-f]{24}-[0-9a-f]{100,}
        | \bGR1348941[A-Za-z0-9_-]{16,}
        | \bATCTT3[A-Za-z0-9_=-]{16,}
        | \bBBDC-[A-Za-z0-9_+/@-]{36,}
        | \bgh[pousr]_[A-Za-z0-9]{16,}
        | \bgithub_pat_[A-Za-z0-9_]{16,}
        | \bgl(?:pat|oas|dt|rt|rtr|cbt|ptt|ft|imt|agent|soat|ffct|wt)-[A-Za-z0-9_.=-]{16,}
        | \bATATT3[A-Za-z0-9_=-]{16,}
        | \bATBB[A-Za-z0-9]{20,}
        # Slack, Discord, Telegram
        | \bxox[abcdeoprs](?:\.xox[bp])?-[A-Za-z0-9-]{8,}
        | \bxapp-[0-9]-[A-Za-z0-9-]{8,}
        | \b[MNO][A-Za-z0-9_-]{22,28}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}
        | (?:\b|\bbot)[0-9]{8,10}:[A-Za-z0-9_-]{35}\b
        # payment and mail
        | \bEAAA[A-Za-z0-9_-]{56,}
        | \b[0-9a-f]{32}-us[0-9]{1,2}\b
        | \baccess_token\$(?:production|sandbox)\$[0-9a-z]{16}\$?[0-9a-f]{32}
        | \bxkeysib-[0-9a-f]{32,}-[A-Za-z0-9]{16}
        | \bre_[A-Za-z0-9]{8}_[A-Za-z0-9]{20,}
        | \bFLW(?:SEC|PUB)K(?:_TEST)?-[A-Za-z0-9]{12,}(?:-X)?
        | \bEZ[AT]K[A-Za-z0-9]{40,}
        | \bshippo_(?:live|test)_[a-f0-9]{32,}
        | \bduffel_(?:live|test)_[A-Za-z0-9_=-]{32,}
        | \b(?:live|test)_[A-Za-z0-9]{32,}
        | \bEAAC[A-Za-z0-9]{60,}
        | \bAAAA[A-Za-z0-9_-]{7,}:APA91b[A-Za-z0-9_-]{60,}
        | \b[ps]k\.eyJ[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{16,}
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
        | \boy2[a-z0-9]{43}\b
        | \bcio-[A-Za-z0-9]{28,}
        | \b(?:jfrt@)?AKCp[A-Za-z0-9]{60,}
        | \bcmVmdGtu[A-Za-z0-9+/=]{40,}
        | \bCCI(?:PAT|PRJ)_[A-Za-z0-9]{20,}_[a-f0-9]{32,}
        | \bbk[a-z]{2}_[a-f0-9]{40}
        # models
        | \br8_[A-Za-z0-9]{30,}
        | \bgsk_[A-Za-z0-9]{40,}
        | \bxai-[A-Za-z0-9]{40,}
        | \bpplx-[A-Za-z0-9]{40,}
        | \bfw_[A-Za-z0-9]{20,}
        | \btgp_v[0-9]_[A-Za-z0-9_-]{40,}
        | \bnvapi-[A-Za-z0-9_-]{40,}
        | \blsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}
        | \bsk-lf-[a-f0-9-]{36}
        | \brpa_[A-Z0-9]{36,}
        # monitoring, data and work
        | \bph[cx]_[A-Za-z0-9]{40,}
        | \bNRI[IQ]-[A-Za-z0-9_-]{28,}
        | \bsntry[su]_[A-Za-z0-9+/=_-]{40,}
        | \bsgp_(?:[a-f0-9]{16}_|local_)?[a-f0-9]{40}
        | \bsq[apu]_[a-f0-9]{40}
        | \bsnyk_[a-z]{3}\.[a-f0-9]{8}\.[A-Za-z0-9_.-]{20,}
        | \bPMAK-[a-f0-9]{24}-[a-f0-9]{34}
        | \bfig[dou]_[A-Za-z0-9_-]{36,}
        | \b(?:secret|ntn)_[A-Za-z0-9]{40,}
        | \bpat[[:alnum:]]{14}\.[[:xdigit:]]{64}\b
        | \bCFPAT-[A-Za-z0-9_-]{40,}
        | \bdt0[cs][0-9]{2}\.[A-Z0-9]{20,}\.[A-Z0-9]{60,}
        | \bsk-(?:ant|proj|svcacct|admin|or)-[A-Za-z0-9_-]{16,}
        | \bsk-[A-Za-z0-9]{32,}
        | \bhf_[A-Za-z0-9]{30,}
        # infrastructure
        | \bhv[sbr]\.[A-Za-z0-9_-]{20,}
        | \b[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{40,}
        | \bdo[oprt]_v1_[a-f0-9]{32,}
        | \bdapi[0-9a-f]{32}(?:-[0-9])?\b
        | \bglsa_[A-Za-z0-9]{24,}_[A-Fa-f0-9]{8}
        | \bglc_[A-Za-z0-9+/=]{32,}
        | \bNRAK-[A-Z0-9]{20,}
        | \blin_api_[A-Za-z0-9]{30,}
        | \bpscale_(?:tkn|pw|oauth)_[A-Za-z0-9_=.-]{32,}
        | \bfo1_[A-Za-z0-9_-]{40,}
        | \bFlyV1\ fm[0-9][a-z]?_[A-Za-z0-9+/=,_-]{40,}
        | \bfm[12][ar]?_[A-Za-z0-9+/=]{60,}
        | \brnd_[A-Za-z0-9]{24,}
        | \bsbp_[a-f0-9]{40}
        | \bsb_secret_[A-Za-z0-9_-]{28,}
        | \btskey-[a-z]+-[A-Za-z0-9]{10,}-[A-Za-z0-9]{20,}
        | \bpul-[a-f0-9]{40}
        | \bops_eyJ[A-Za-z0-9+/=_-]{60,}
        | \bA3(?:-[A-Z0-9]{6}){2}(?:-[A-Z0-9]{5}){4}\b
        | \bdp\.(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,}
        | \bst\.[a-f0-9]{24}\.[a-f0-9]{32}\.[a-f0-9]{32}
        | \bico-[A-Za-z0-9]{32}\b
        | \bsha256~[A-Za-z0-9_-]{40,}
        | \bAGE-SECRET-KEY-1[0-9A-Z]{40,}
        ",
    )
});

/// Credentials within a text that is kept. The first group is redacted.
static PARTS: LazyLock<Regex> = LazyLock::new(|| {
    constant(
        r#"(?xi)
        # chat webhooks: the path is the credential
          (?-u:\b)hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/([A-Z0-9/_-]+)
        | (?-u:\b)discord(?:app)?\.com/api/(?:v[0-9]+/)?webhooks/([0-9]+/[A-Z0-9_-]+)
        | (?-u:\b)webhook\.office\.com/webhookb2/([A-Z0-9@/_-]+)
        # signed URLs
        | [?&](?:sig|signature|x-amz-signature|x-goog-signature)=([^&\s"'<>\\]{8,})
        # the path of other webhooks
        | (?-u:\b)events\.pagerduty\.com/(?:integration|x-ere)/([A-Z0-9]{20,})
        | (?-u:\b)hooks\.zapier\.com/hooks/catch/([A-Z0-9/]+[A-Z0-9])
        # npm's and Docker's basic authorization
        | (?:(?-u:\b)_auth|"auth\\?")[\ \t]*[=:][\ \t]*\\?"?([A-Z0-9+/_-]{8,}={0,2})
        # Oracle's thin URLs
        | (?-u:\b)jdbc:oracle:[a-z]+:[^\s/@]+/([^\s@]+)@
        "#,
    )
});

/// Parameters of URLs that are keys or codes if they look random, and otherwise names or numbers.
static PARAMETERS: LazyLock<Regex> = LazyLock::new(|| constant(r#"(?i)[?&](?:key|code)=([^&\s"'<>\\]{8,})"#));

/// Azure's storage and service keys. A SHA-512 has the same length.
static AZURE_KEYS: LazyLock<Regex> = LazyLock::new(|| constant(r"(?-u)\b[A-Za-z0-9+/]{86}=="));

/// What precedes the SHA-512 of a package.
const DIGESTS: &[&str] =
    &["sha512-", "sha512:", "sha512=", "integrity ", "integrity\": \"", "integrity=", "digest=", "sha512 "];

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
            .filter(|token| is_credential(token.as_str()) && !is_reference(token.as_str()))
            .map(|token| token.range()),
    );
    ranges.extend(
        USERINFO
            .captures_iter(text)
            .filter_map(|found| found.get(1).or(found.get(2)))
            .filter(|password| !is_port(password.as_str()))
            .map(|password| password.range()),
    );
    ranges.extend(
        PARAMETERS
            .captures_iter(text)
            .filter_map(|found| found.get(1))
            .filter(|value| is_random(value.as_str(), true))
            .map(|value| value.range()),
    );
    ranges.extend(AZURE_KEYS.find_iter(text).map(|key| key.range()).filter(|key| {
        let head = text.get(..key.start).unwrap_or_default();
        !DIGESTS.iter().any(|digest| head.ends_with(digest))
    }));
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
