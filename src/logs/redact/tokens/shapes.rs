//! The formats of tokens, as their issuers publish them.
//!
//! A token may have lost its end, so most lengths are minimums below the published ones.

use crate::logs::redact::bytes::{
    ALNUM, ANY_HEX, AT, BASE64, Class, DASH, DIGIT, DOT, EQUALS, HEX, LOWER, PERCENT, PLUS_SLASH, UNDERSCORE, UPPER,
    URL_SAFE, WORD,
};

/// A token: one of the prefixes, and what follows.
pub(super) struct Shape {
    pub prefixes: &'static [&'static str],
    pub rest: &'static [Part],
    /// Whether the prefix stays, as that of a URL.
    pub keeps_prefix: bool,
}

/// A part of a token.
#[derive(Clone, Copy)]
pub(super) enum Part {
    /// All following bytes of a class, at least and at most so many.
    Run(Class, usize, usize),
    /// This text.
    Text(&'static str),
    /// This text, if it follows.
    Maybe(&'static str),
    /// A word ends here.
    End,
}

use Part::{End, Maybe, Text};

const fn min(class: Class, length: usize) -> Part {
    Part::Run(class, length, usize::MAX)
}

const fn within(class: Class, shortest: usize, longest: usize) -> Part {
    Part::Run(class, shortest, longest)
}

const fn exactly(class: Class, length: usize) -> Part {
    Part::Run(class, length, length)
}

const fn shape(prefixes: &'static [&'static str], rest: &'static [Part]) -> Shape {
    Shape { prefixes, rest, keeps_prefix: false }
}

const fn after(prefixes: &'static [&'static str], rest: &'static [Part]) -> Shape {
    Shape { prefixes, rest, keeps_prefix: true }
}

const BASE64_PADDED: Class = BASE64 | EQUALS;
const ANY_BASE64: Class = BASE64 | URL_SAFE | EQUALS;
const DOTTED: Class = URL_SAFE | DOT;
const CRYPT: Class = ALNUM | DOT | PLUS_SLASH;

pub(super) const SHAPES: &[Shape] = &[
    // JSON web tokens, signed, encrypted or cut, also with a prefix of their issuer
    shape(&["eyJ"], &[min(URL_SAFE, 5), Text("."), min(DOTTED, 0)]),
    shape(&["eyJ"], &[min(ANY_BASE64, 24)]),
    shape(&["ops_eyJ", "pk.eyJ", "sk.eyJ"], &[min(DOTTED | PLUS_SLASH | EQUALS, 40)]),
    // a private key as a Secret holds it: PEM in base64
    shape(
        &[
            "LS0tLS1CRUdJTiBSU0Eg",
            "LS0tLS1CRUdJTiBQUklWQVRF",
            "LS0tLS1CRUdJTiBFQyBQ",
            "LS0tLS1CRUdJTiBPUEVOU1NI",
            "LS0tLS1CRUdJTiBEU0Eg",
            "LS0tLS1CRUdJTiBFTkNSWVBURUQg",
            "LS0tLS1CRUdJTiBQR1AgUFJJ",
        ],
        &[min(BASE64_PADDED, 0)],
    ),
    // AWS: access key ids, session tokens, Bedrock
    shape(&["AKIA", "ASIA", "ABIA", "ACCA"], &[exactly(UPPER | DIGIT, 16), End]),
    shape(&["FwoGZXIvYXdz", "FQoGZXIvYXdz", "IQoJb3JpZ2lu"], &[min(BASE64_PADDED | PERCENT | URL_SAFE, 16)]),
    shape(&["ABSK"], &[min(BASE64_PADDED, 60)]),
    shape(&["bedrock-api-key-"], &[min(BASE64_PADDED, 40)]),
    // Google: API keys, access and refresh tokens, client secrets
    shape(&["AIza"], &[min(URL_SAFE, 30)]),
    shape(&["ya29."], &[min(DOTTED, 10)]),
    shape(&["1//0"], &[min(URL_SAFE, 20)]),
    shape(&["GOCSPX-"], &[min(URL_SAFE, 16)]),
    // other clouds: Alibaba, Tencent, Yandex, DigitalOcean, Linode, OVH, Scaleway, Heroku
    shape(&["LTAI"], &[within(ALNUM, 12, 26), End]),
    shape(&["AKID"], &[min(ALNUM, 28)]),
    shape(&["t1.9eu"], &[min(DOTTED, 40)]),
    shape(&["AQVN"], &[min(URL_SAFE, 34)]),
    shape(&["dop_v1_", "doo_v1_", "dor_v1_", "dot_v1_", "dos_v1_"], &[min(HEX, 32)]),
    shape(&["lin_api_", "lin_oauth_"], &[min(ALNUM, 30)]),
    shape(&["HRKU-"], &[min(URL_SAFE, 30)]),
    // hosting: Fly, Render, Supabase, PlanetScale, Netlify, Vercel, Cloudflare, Railway, Neon, MongoDB Atlas
    shape(&["fo1_"], &[min(URL_SAFE, 40)]),
    shape(&["FlyV1 fm1_", "FlyV1 fm2_", "FlyV1 fm1r_", "FlyV1 fm1a_"], &[min(BASE64_PADDED | URL_SAFE, 40)]),
    shape(&["fm1r_", "fm1a_", "fm2_"], &[min(BASE64_PADDED, 60)]),
    shape(&["rnd_"], &[min(ALNUM, 24)]),
    shape(&["sbp_", "sbp_v0_"], &[min(HEX, 40)]),
    shape(&["sb_secret_"], &[min(URL_SAFE, 28)]),
    shape(&["pscale_tkn_", "pscale_pw_", "pscale_oauth_"], &[min(DOTTED | EQUALS, 32)]),
    shape(&["nfp_", "nfc_", "nfo_", "nfu_", "nfb_"], &[min(ALNUM, 30)]),
    shape(&["vcp_", "vci_", "vca_", "vcr_", "vck_"], &[min(ALNUM, 24)]),
    shape(&["v1.0-"], &[exactly(HEX, 24), Text("-"), min(HEX, 100)]),
    shape(&["cfut_", "cfat_", "cfk_"], &[min(ALNUM, 30)]),
    shape(&["napi_"], &[min(ALNUM, 32)]),
    shape(&["mdb_sa_sk_"], &[min(URL_SAFE, 30)]),
    shape(&["essu_"], &[min(BASE64_PADDED, 40)]),
    shape(&["cflt"], &[min(BASE64, 56)]),
    // GitHub, GitLab, Bitbucket, Atlassian, Gitea
    shape(&["ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"], &[min(WORD, 16)]),
    shape(
        &[
            "glpat-", "gloas-", "gldt-", "glrt-", "glrtr-", "glcbt-", "glptt-", "glft-", "glimt-", "glagent-",
            "glsoat-", "glffct-", "glwt-",
        ],
        &[min(DOTTED | EQUALS, 16)],
    ),
    shape(&["GR1348941"], &[min(URL_SAFE, 16)]),
    shape(&["ATATT3", "ATCTT3", "ATSTT3"], &[min(URL_SAFE | EQUALS, 16)]),
    shape(&["ATBB"], &[min(ALNUM, 20)]),
    shape(&["BBDC-"], &[min(URL_SAFE | PLUS_SLASH, 36)]),
    // Slack
    shape(
        &["xoxa-", "xoxb-", "xoxc-", "xoxd-", "xoxe-", "xoxo-", "xoxp-", "xoxr-", "xoxs-", "xoxe.xoxb-", "xoxe.xoxp-"],
        &[min(ALNUM | DASH | PERCENT, 8)],
    ),
    shape(&["xapp-", "xwfp-"], &[min(ALNUM | DASH, 16)]),
    // payment and trade
    shape(&["sk_live_", "sk_test_", "rk_live_", "rk_test_", "sk_prod_", "rk_prod_"], &[min(ALNUM, 10)]),
    shape(&["whsec_"], &[min(BASE64_PADDED | URL_SAFE, 16)]),
    shape(&["EAAA"], &[min(URL_SAFE, 56)]),
    shape(&["EAAC", "EAAG", "EAAB", "EAAD", "EAAE", "EAAF"], &[min(ALNUM, 60)]),
    shape(&["sq0atp-", "sq0csp-", "sq0idp-", "sq0asa-"], &[min(URL_SAFE, 20)]),
    shape(&["shpat_", "shpca_", "shppa_", "shpss_", "shptka_"], &[min(ANY_HEX, 24)]),
    shape(
        &["access_token$production$", "access_token$sandbox$"],
        &[exactly(LOWER | DIGIT, 16), Text("$"), min(HEX, 32)],
    ),
    shape(&["access_token$production$", "access_token$sandbox$"], &[min(LOWER | DIGIT, 48)]),
    shape(&["access-production-", "access-sandbox-", "access-development-"], &[exactly(HEX | DASH, 36)]),
    shape(&["FLWSECK-", "FLWSECK_TEST-"], &[min(ALNUM, 12), Maybe("-X")]),
    shape(&["EZAK", "EZTK"], &[min(ALNUM, 40)]),
    shape(&["shippo_live_", "shippo_test_"], &[min(HEX, 32)]),
    shape(&["duffel_live_", "duffel_test_"], &[min(URL_SAFE | EQUALS, 32)]),
    shape(&["live_", "test_"], &[min(ALNUM, 32)]),
    shape(&["rzp_live_", "rzp_test_"], &[min(ALNUM, 14)]),
    // mail and messages
    shape(&["SG."], &[min(URL_SAFE, 16), Text("."), min(URL_SAFE, 16)]),
    shape(&["SK"], &[exactly(HEX, 32), End]),
    shape(&["key-"], &[exactly(HEX, 32), End]),
    shape(&["xkeysib-", "xsmtpsib-"], &[exactly(HEX, 64), Text("-"), min(ALNUM, 16)]),
    shape(&["xkeysib-", "xsmtpsib-"], &[min(HEX, 32)]),
    shape(&["re_"], &[exactly(ALNUM, 8), Text("_"), min(ALNUM, 20)]),
    shape(&["AAAA"], &[min(URL_SAFE, 7), Text(":APA91b"), min(URL_SAFE, 60)]),
    shape(&["os_v2_app_", "os_v2_org_"], &[min(LOWER | DIGIT, 40)]),
    shape(&["ExponentPushToken["], &[min(URL_SAFE, 20)]),
    // package registries and builds
    shape(&["npm_"], &[min(ALNUM, 30)]),
    shape(&["pypi-AgE"], &[min(URL_SAFE, 16)]),
    shape(&["rubygems_"], &[min(HEX, 32)]),
    shape(&["dckr_pat_", "dckr_oat_"], &[min(URL_SAFE, 16)]),
    shape(&["oy2"], &[exactly(LOWER | DIGIT, 43), End]),
    shape(&["cio-"], &[min(ALNUM, 28)]),
    shape(&["cio"], &[exactly(ALNUM, 32), End]),
    shape(&["CLOJARS_"], &[min(LOWER | DIGIT, 50)]),
    shape(&["packagist_"], &[min(LOWER, 3), Text("_"), min(HEX, 32)]),
    shape(&["AKCp", "jfrt@AKCp"], &[min(ALNUM, 60)]),
    shape(&["cmVmdGtu"], &[min(BASE64_PADDED, 40)]),
    shape(&["CCIPAT_", "CCIPRJ_"], &[min(ALNUM, 20), Text("_"), min(HEX, 32)]),
    shape(&["bkua_", "bkct_", "bkaj_", "bkpt_"], &[min(HEX, 40)]),
    shape(&["API-"], &[within(UPPER | DIGIT, 26, 40), End]),
    // models
    shape(
        &["sk-ant-", "sk-proj-", "sk-svcacct-", "sk-admin-", "sk-or-", "sk-lf-", "sk-None-", "sk-litellm-"],
        &[min(URL_SAFE, 16)],
    ),
    shape(&["sk-", "sk_"], &[min(ALNUM, 32)]),
    shape(&["hf_", "api_org_"], &[min(ALNUM, 30)]),
    shape(&["r8_"], &[min(ALNUM, 30)]),
    shape(&["gsk_", "xai-", "pplx-"], &[min(ALNUM, 40)]),
    shape(&["fw_", "csk-"], &[min(ALNUM, 20)]),
    shape(&["tgp_v1_", "tgp_v2_"], &[min(URL_SAFE, 40)]),
    shape(&["nvapi-"], &[min(URL_SAFE, 40)]),
    shape(&["lsv2_pt_", "lsv2_sk_"], &[exactly(HEX, 32), Text("_"), min(HEX, 10)]),
    shape(&["ls__"], &[min(HEX, 32)]),
    shape(&["rpa_"], &[min(UPPER | DIGIT, 36)]),
    shape(&["tvly-"], &[min(URL_SAFE, 28)]),
    shape(&["pcsk_"], &[min(WORD, 40)]),
    shape(&["jina_"], &[min(URL_SAFE, 40)]),
    shape(&["fc-"], &[exactly(HEX, 32), End]),
    shape(&["e2b_"], &[min(HEX, 36)]),
    shape(&["co_"], &[exactly(ALNUM, 40), End]),
    shape(&["co_"], &[exactly(ALNUM, 48), End]),
    // monitoring
    shape(
        &["dt0c01.", "dt0c02.", "dt0s01.", "dt0s02.", "dt0s08.", "dt0s16."],
        &[min(UPPER | DIGIT, 8), Text("."), min(UPPER | DIGIT, 40)],
    ),
    shape(&["glsa_"], &[min(ALNUM, 24), Text("_"), min(ANY_HEX, 8)]),
    shape(&["glc_"], &[min(BASE64_PADDED, 32)]),
    shape(&["NRAK-", "NRAA-", "NRSP-"], &[min(UPPER | DIGIT, 20)]),
    shape(&["NRII-", "NRIQ-"], &[min(URL_SAFE, 28)]),
    shape(&["NRJS-"], &[min(HEX, 16)]),
    shape(&["sntrys_", "sntryu_", "sntrya_"], &[min(ANY_BASE64, 40)]),
    shape(&["hcaik_", "hcbik_", "hcxik_", "hcalk_", "hcamk_"], &[min(LOWER | DIGIT, 30)]),
    shape(&["phc_", "phx_"], &[min(ALNUM, 40)]),
    shape(&["pdus+", "pdeu+"], &[min(URL_SAFE | PLUS_SLASH, 16)]),
    shape(&["ddapi_", "ddapp_"], &[min(ALNUM, 30)]),
    // code quality and security
    shape(&["squ_", "sqp_", "sqa_"], &[min(HEX, 40)]),
    shape(&["snyk_uat.", "snyk_sat."], &[exactly(HEX, 8), Text("."), min(DOTTED, 20)]),
    shape(&["sgp_"], &[min(HEX | UNDERSCORE, 40)]),
    shape(&["sgp_local_"], &[min(HEX, 40)]),
    // work
    shape(&["PMAK-"], &[exactly(HEX, 24), Text("-"), min(HEX, 30)]),
    shape(&["figd_", "figo_", "figu_"], &[min(URL_SAFE, 36)]),
    shape(&["secret_", "ntn_"], &[min(ALNUM, 40)]),
    shape(&["pat"], &[exactly(ALNUM, 14), Text("."), min(HEX, 40)]),
    shape(&["pat-na1-", "pat-eu1-", "pat-na2-"], &[exactly(HEX | DASH, 36)]),
    shape(&["CFPAT-"], &[min(URL_SAFE, 40)]),
    shape(&["tfp_"], &[min(URL_SAFE, 40)]),
    shape(&["rdme_"], &[min(LOWER | DIGIT, 40)]),
    shape(&["nyk_v0_"], &[min(ALNUM, 30)]),
    shape(&["secret-live-", "secret-test-"], &[min(URL_SAFE | EQUALS, 36)]),
    shape(&["sl.u.", "sl.B", "sl.A"], &[min(URL_SAFE, 60)]),
    shape(&["dapi"], &[exactly(HEX, 32), Maybe("-2"), Maybe("-3"), End]),
    shape(&["dose"], &[exactly(HEX, 32), End]),
    // infrastructure: HashiCorp, Tailscale, Pulumi, Doppler, Infisical, 1Password, OpenShift, age
    shape(&["hvs.", "hvb.", "hvr."], &[min(URL_SAFE, 20)]),
    shape(&["tskey-"], &[min(LOWER, 3), Text("-"), min(ALNUM, 10), Text("-"), min(ALNUM, 20)]),
    shape(&["pul-"], &[min(HEX, 40)]),
    shape(&["pnu_", "pnb_"], &[min(ALNUM, 36)]),
    shape(&["tk-us-", "tk-eu-"], &[min(URL_SAFE, 40)]),
    shape(&["dp.pt.", "dp.ct.", "dp.sa.", "dp.scim.", "dp.audit."], &[min(ALNUM, 40)]),
    shape(&["dp.st."], &[min(LOWER | DIGIT | DASH | UNDERSCORE, 2), Text("."), min(ALNUM, 40)]),
    shape(&["dp.st."], &[min(ALNUM, 40)]),
    shape(&["st."], &[exactly(HEX, 24), Text("."), exactly(HEX, 32), Text("."), min(HEX, 32)]),
    shape(&["ico-"], &[exactly(ALNUM, 32), End]),
    shape(&["A3-"], &[exactly(UPPER | DIGIT, 6), Text("-"), min(UPPER | DIGIT | DASH, 30)]),
    shape(&["sha256~"], &[min(URL_SAFE, 40)]),
    shape(&["AGE-SECRET-KEY-1"], &[min(UPPER | DIGIT, 40)]),
    shape(&["sm_pat_", "sm_aat_", "sm_sat_"], &[min(ALNUM, 16)]),
    shape(&["dnkey-"], &[exactly(LOWER | UPPER | DIGIT, 26), Text("-"), min(ALNUM, 40)]),
    // single sign-on and access
    shape(&["SSWS "], &[min(URL_SAFE, 30)]),
    shape(&["v1.local.", "v2.local.", "v3.local.", "v4.local."], &[min(DOTTED, 32)]),
    shape(&["v1.public.", "v2.public.", "v3.public.", "v4.public."], &[min(DOTTED, 64)]),
    // devices and media
    shape(&["oauth:"], &[exactly(LOWER | DIGIT, 30), End]),
    shape(&["aio_"], &[exactly(ALNUM, 28), End]),
    shape(&["fio-u-"], &[min(URL_SAFE, 40)]),
    shape(&["s-s4t2ud-", "s-s4t2af-"], &[min(HEX, 40)]),
    // feature flags, customer messaging
    shape(
        &["sdk-", "api-", "mob-"],
        &[
            exactly(HEX, 8),
            Text("-"),
            exactly(HEX, 4),
            Text("-"),
            exactly(HEX, 4),
            Text("-"),
            exactly(HEX, 4),
            Text("-"),
            exactly(HEX, 12),
            End,
        ],
    ),
    shape(&["dG9rOm"], &[min(BASE64_PADDED, 30)]),
    // hashes of passwords
    shape(&["$2a$", "$2b$", "$2y$"], &[exactly(DIGIT, 2), Text("$"), min(CRYPT, 40)]),
    shape(&["$5$", "$6$", "$1$", "$apr1$"], &[min(CRYPT, 4), Text("$"), min(CRYPT, 22)]),
    shape(&["$5$rounds=", "$6$rounds="], &[min(DIGIT, 1), Text("$"), min(CRYPT, 4), Text("$"), min(CRYPT, 22)]),
    shape(&["$y$j", "$7$"], &[min(CRYPT, 1), Text("$"), min(CRYPT, 4), Text("$"), min(CRYPT, 22)]),
    shape(&["{SSHA}", "{SSHA256}", "{SSHA512}", "{CRYPT}"], &[min(BASE64_PADDED | DOT, 24)]),
    shape(
        &["pbkdf2_sha256$", "pbkdf2_sha512$"],
        &[min(DIGIT, 1), Text("$"), min(ALNUM, 4), Text("$"), min(BASE64_PADDED, 24)],
    ),
    shape(
        &["$argon2id$v=", "$argon2i$v="],
        &[
            min(DIGIT, 1),
            Text("$m="),
            min(DIGIT, 1),
            Text(",t="),
            min(DIGIT, 1),
            Text(",p="),
            min(DIGIT, 1),
            Text("$"),
            min(CRYPT, 8),
            Text("$"),
            min(CRYPT, 16),
        ],
    ),
    // webhooks, whose path is the credential
    after(
        &[
            "hooks.slack.com/services/",
            "hooks.slack.com/workflows/",
            "hooks.slack.com/triggers/",
            "hooks.slack-gov.com/services/",
            "hooks.slack-gov.com/workflows/",
            "hooks.slack-gov.com/triggers/",
            "hooks.zapier.com/hooks/catch/",
            "open.feishu.cn/open-apis/bot/v2/hook/",
            "open.larksuite.com/open-apis/bot/v2/hook/",
            "events.pagerduty.com/integration/",
            "events.pagerduty.com/x-ere/",
            "hook.eu1.make.com/",
            "hook.us1.make.com/",
            "api.opsgenie.com/v1/json/",
        ],
        &[min(URL_SAFE | PLUS_SLASH, 8)],
    ),
    after(
        &[
            "discord.com/api/webhooks/",
            "discordapp.com/api/webhooks/",
            "discord.com/api/v6/webhooks/",
            "discord.com/api/v7/webhooks/",
            "discord.com/api/v8/webhooks/",
            "discord.com/api/v9/webhooks/",
            "discord.com/api/v10/webhooks/",
        ],
        &[min(DIGIT, 1), Text("/"), min(URL_SAFE, 1)],
    ),
    // a path that ends with a token
    after(&["webhook/", "webhooks/", "hook/", "hooks/"], &[min(ALNUM, 32), End]),
    after(&["webhook.office.com/webhookb2/", "outlook.office.com/webhook/"], &[min(URL_SAFE | PLUS_SLASH | AT, 8)]),
    after(&["maker.ifttt.com/trigger/"], &[min(URL_SAFE, 1), Text("/with/key/"), min(URL_SAFE, 16)]),
];
