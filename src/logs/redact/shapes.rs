//! The formats of tokens, as their issuers publish them.
//!
//! A token may have lost its end, so most lengths are minimums below the published ones.

/// The prefixes of tokens, with `|` between them, and what follows, as a regular expression of runs and texts.
pub(super) const PREFIXED: &[(&str, &str)] = &[
    // JSON web tokens, signed, encrypted or cut, also with a prefix of their issuer
    ("eyJ", r"[\w-]{5,}\.[\w.-]*"),
    ("eyJ", r"[\w+/=-]{24,}"),
    ("ops_eyJ|pk.eyJ|sk.eyJ", r"[\w.+/=-]{40,}"),
    // a private key as a Secret holds it: PEM in base64
    (
        "LS0tLS1CRUdJTiBSU0Eg|LS0tLS1CRUdJTiBQUklWQVRF|LS0tLS1CRUdJTiBFQyBQ|LS0tLS1CRUdJTiBPUEVOU1NI|\
         LS0tLS1CRUdJTiBEU0Eg|LS0tLS1CRUdJTiBFTkNSWVBURUQg|LS0tLS1CRUdJTiBQR1AgUFJJ",
        r"[0-9A-Za-z+/=]*",
    ),
    // AWS: access key ids, session tokens, Bedrock
    ("AKIA|ASIA|ABIA|ACCA", r"[0-9A-Z]{16}\b"),
    ("FwoGZXIvYXdz|FQoGZXIvYXdz|IQoJb3JpZ2lu", r"[\w+/=%-]{16,}"),
    ("ABSK", r"[0-9A-Za-z+/=]{60,}"),
    ("bedrock-api-key-", r"[0-9A-Za-z+/=]{40,}"),
    // Google: API keys, access and refresh tokens, client secrets
    ("AIza", r"[\w-]{30,}"),
    ("ya29.", r"[\w.-]{10,}"),
    ("1//0", r"[\w-]{20,}"),
    ("AQ.", r"[\w-]{40,}"),
    ("GOCSPX-", r"[\w-]{16,}"),
    // other clouds: Alibaba, Tencent, Yandex, DigitalOcean, Linode, OVH, Scaleway, Heroku, Aiven
    ("LTAI", r"[0-9A-Za-z]{12,26}\b"),
    ("AKID", r"[0-9A-Za-z]{28,}"),
    ("t1.9eu", r"[\w.-]{40,}"),
    ("AQVN", r"[\w-]{34,}"),
    ("dop_v1_|doo_v1_|dor_v1_|dot_v1_|dos_v1_", r"[0-9a-f]{32,}"),
    ("lin_api_|lin_oauth_", r"[0-9A-Za-z]{30,}"),
    ("AVNS_", r"[\w-]{16,}"),
    ("HRKU-", r"[\w-]{30,}"),
    // hosting: Fly, Render, Supabase, PlanetScale, Netlify, Vercel, Cloudflare, Railway, Neon, MongoDB Atlas
    ("fo1_", r"[\w-]{40,}"),
    ("FlyV1 fm1_|FlyV1 fm2_|FlyV1 fm1r_|FlyV1 fm1a_", r"[\w+/=-]{40,}"),
    ("fm1r_|fm1a_|fm2_", r"[0-9A-Za-z+/=]{60,}"),
    ("rnd_", r"[0-9A-Za-z]{24,}"),
    ("sbp_|sbp_v0_", r"[0-9a-f]{40,}"),
    ("sb_secret_", r"[\w-]{28,}"),
    ("pscale_tkn_|pscale_pw_|pscale_oauth_", r"[\w.=-]{32,}"),
    ("nfp_|nfc_|nfo_|nfu_|nfb_", r"[0-9A-Za-z]{30,}"),
    ("vcp_|vci_|vca_|vcr_|vck_", r"[0-9A-Za-z]{24,}"),
    ("v1.0-", r"[0-9a-f]{24}-[0-9a-f]{100,}"),
    ("cfut_|cfat_|cfk_", r"[0-9A-Za-z]{30,}"),
    ("napi_", r"[0-9A-Za-z]{32,}"),
    ("mdb_sa_sk_", r"[\w-]{30,}"),
    ("essu_", r"[0-9A-Za-z+/=]{40,}"),
    ("cflt", r"[0-9A-Za-z+/]{56,}"),
    // GitHub, GitLab, Bitbucket, Atlassian, Gitea
    ("ghp_|gho_|ghu_|ghs_|ghr_|github_pat_", r"\w{16,}"),
    ("glpat-|gloas-|gldt-|glrt-|glrtr-|glcbt-|glptt-|glft-|glimt-|glagent-|glsoat-|glffct-|glwt-", r"[\w.=-]{16,}"),
    ("GR1348941", r"[\w-]{16,}"),
    ("ATATT3|ATCTT3|ATSTT3", r"[\w=-]{16,}"),
    ("ATBB", r"[0-9A-Za-z]{20,}"),
    ("BBDC-", r"[\w+/-]{36,}"),
    // Slack
    ("xoxa-|xoxb-|xoxc-|xoxd-|xoxe-|xoxo-|xoxp-|xoxr-|xoxs-|xoxe.xoxb-|xoxe.xoxp-", r"[0-9A-Za-z%-]{8,}"),
    ("xapp-|xwfp-", r"[0-9A-Za-z-]{16,}"),
    // payment and trade
    ("sk_live_|sk_test_|rk_live_|rk_test_|sk_prod_|rk_prod_", r"[0-9A-Za-z]{10,}"),
    ("whsec_", r"[\w+/=-]{16,}"),
    ("EAAA", r"[\w-]{56,}"),
    ("EAAB|EAAC|EAAD|EAAE|EAAF|EAAG|EAAM", r"[0-9A-Za-z]{60,}"),
    ("sq0atp-|sq0csp-|sq0idp-|sq0asa-", r"[\w-]{20,}"),
    ("shpat_|shpca_|shppa_|shpss_|shptka_", r"[0-9A-Fa-f]{24,}"),
    ("access_token$production$|access_token$sandbox$", r"[0-9a-z]{16}\$[0-9a-f]{32,}"),
    ("access_token$production$|access_token$sandbox$", r"[0-9a-z]{48,}"),
    ("access-production-|access-sandbox-|access-development-", r"[0-9a-f-]{36}"),
    ("FLWSECK-|FLWSECK_TEST-", r"[0-9A-Za-z]{12,}[X-]*"),
    ("EZAK|EZTK", r"[0-9A-Za-z]{40,}"),
    ("shippo_live_|shippo_test_", r"[0-9a-f]{32,}"),
    ("duffel_live_|duffel_test_", r"[\w=-]{32,}"),
    ("live_|test_", r"[0-9A-Za-z]{32,}"),
    ("rzp_live_|rzp_test_", r"[0-9A-Za-z]{14,}"),
    // mail and messages
    ("SG.", r"[\w-]{16,}\.[\w-]{16,}"),
    ("SK", r"[0-9a-f]{32}\b"),
    ("key-", r"[0-9a-f]{32}\b"),
    ("xkeysib-|xsmtpsib-", r"[0-9a-f]{64}-[0-9A-Za-z]{16,}"),
    ("xkeysib-|xsmtpsib-", r"[0-9a-f]{32,}"),
    ("re_", r"[0-9A-Za-z]{8}_[0-9A-Za-z]{20,}"),
    ("AAAA", r"[\w-]{7,}:APA91b[\w-]{60,}"),
    ("os_v2_app_|os_v2_org_", r"[0-9a-z]{40,}"),
    ("ExponentPushToken[", r"[\w-]{20,}"),
    // package registries and builds
    ("npm_", r"[0-9A-Za-z]{30,}"),
    ("pypi-AgE", r"[\w-]{16,}"),
    ("rubygems_", r"[0-9a-f]{32,}"),
    ("dckr_pat_|dckr_oat_", r"[\w-]{16,}"),
    ("oy2", r"[0-9a-z]{43}\b"),
    ("cio-", r"[0-9A-Za-z]{28,}"),
    ("cio", r"[0-9A-Za-z]{32}\b"),
    ("CLOJARS_", r"[0-9a-z]{50,}"),
    ("packagist_", r"[a-z]{3,}_[0-9a-f]{32,}"),
    ("AKCp|jfrt@AKCp", r"[0-9A-Za-z]{60,}"),
    ("cmVmdGtu", r"[0-9A-Za-z+/=]{40,}"),
    ("CCIPAT_|CCIPRJ_", r"[0-9A-Za-z]{20,}_[0-9a-f]{32,}"),
    ("bkua_|bkct_|bkaj_|bkpt_", r"[0-9a-f]{40,}"),
    ("API-", r"[0-9A-Z]{26,40}\b"),
    // models
    ("sk-ant-|sk-proj-|sk-svcacct-|sk-admin-|sk-or-|sk-lf-|sk-None-|sk-litellm-", r"[\w-]{16,}"),
    ("sk-|sk_", r"[0-9A-Za-z]{32,}"),
    ("hf_|api_org_", r"[0-9A-Za-z]{30,}"),
    ("r8_", r"[0-9A-Za-z]{30,}"),
    ("gsk_|xai-|pplx-", r"[0-9A-Za-z]{40,}"),
    ("fw_|csk-", r"[0-9A-Za-z]{20,}"),
    ("tgp_v1_|tgp_v2_", r"[\w-]{40,}"),
    ("nvapi-", r"[\w-]{40,}"),
    ("lsv2_pt_|lsv2_sk_", r"[0-9a-f]{32}_[0-9a-f]{10,}"),
    ("ls__", r"[0-9a-f]{32,}"),
    ("rpa_", r"[0-9A-Z]{36,}"),
    ("tvly-", r"[\w-]{28,}"),
    ("pcsk_", r"\w{40,}"),
    ("jina_", r"[\w-]{40,}"),
    ("fc-", r"[0-9a-f]{32}\b"),
    ("e2b_", r"[0-9a-f]{36,}"),
    ("co_", r"[0-9A-Za-z]{40}\b"),
    ("co_", r"[0-9A-Za-z]{48}\b"),
    // monitoring
    ("dt0c01.|dt0c02.|dt0s01.|dt0s02.|dt0s08.|dt0s16.", r"[0-9A-Z]{8,}\.[0-9A-Z]{40,}"),
    ("glsa_", r"[0-9A-Za-z]{24,}_[0-9A-Fa-f]{8,}"),
    ("glc_", r"[0-9A-Za-z+/=]{32,}"),
    ("NRAK-|NRAA-|NRSP-", r"[0-9A-Za-z]{20,}"),
    ("NRII-|NRIQ-", r"[\w-]{28,}"),
    ("NRJS-", r"[0-9a-f]{16,}"),
    ("sntrys_|sntryu_|sntrya_", r"[\w+/=-]{40,}"),
    ("hcaik_|hcbik_|hcxik_|hcalk_|hcamk_", r"[0-9a-z]{30,}"),
    ("phc_|phx_", r"[0-9A-Za-z]{40,}"),
    ("pdus+|pdeu+", r"[\w+/-]{16,}"),
    ("ddapi_|ddapp_", r"[0-9A-Za-z]{30,}"),
    // code quality and security
    ("squ_|sqp_|sqa_", r"[0-9a-f]{40,}"),
    ("snyk_uat.|snyk_sat.", r"[0-9a-f]{8}\.[\w.-]{20,}"),
    ("sgp_", r"[0-9a-f_]{40,}"),
    ("sgp_local_|slk_", r"[0-9a-f]{40,}"),
    ("odt_", r"\w{32,}"),
    // work
    ("p8e-", r"[0-9A-Za-z]{32}\b"),
    ("00D", r"[0-9A-Za-z]{12,15}![\w.]{80,}"),
    ("pk_", r"\d{7,9}_[0-9A-Z]{32}\b"),
    ("1000.", r"[0-9a-f]{32}\.[0-9a-f]{32}\b"),
    ("VF.DM.|VF.WS.", r"[0-9A-Fa-f]{24}\.[0-9A-Za-z]{16,}"),
    ("rootly_", r"[0-9a-f]{40,}"),
    ("pgar_|spu-", r"[\w-]{24,}"),
    ("PMAK-", r"[0-9a-f]{24}-[0-9a-f]{30,}"),
    ("figd_|figo_|figu_", r"[\w-]{36,}"),
    ("secret_|ntn_", r"[0-9A-Za-z]{40,}"),
    ("pat", r"[0-9A-Za-z]{14}\.[0-9a-f]{40,}"),
    ("pat-na1-|pat-eu1-|pat-na2-", r"[0-9a-f-]{36}"),
    ("CFPAT-", r"[\w-]{40,}"),
    ("tfp_", r"[\w-]{40,}"),
    ("rdme_", r"[0-9a-z]{40,}"),
    ("nyk_v0_", r"[0-9A-Za-z]{30,}"),
    ("secret-live-|secret-test-", r"[\w=-]{36,}"),
    ("sl.", r"[\w.=-]{60,}"),
    ("dapi", r"[0-9a-f]{32}-?[23]?\b"),
    ("dose", r"[0-9a-f]{32}\b"),
    // infrastructure: HashiCorp, Tailscale, Pulumi, Doppler, Infisical, 1Password, OpenShift, age
    ("hvs.|hvb.|hvr.", r"[\w-]{20,}"),
    ("tskey-", r"[a-z]{3,}-[0-9A-Za-z]{10,}-[0-9A-Za-z]{20,}"),
    ("pul-", r"[0-9a-f]{40,}"),
    ("pnu_|pnb_", r"[0-9A-Za-z]{36,}"),
    ("tk-us-|tk-eu-", r"[\w-]{40,}"),
    ("dp.pt.|dp.ct.|dp.sa.|dp.scim.|dp.audit.", r"[0-9A-Za-z]{40,}"),
    ("dp.st.", r"[0-9a-z_-]{2,}\.[0-9A-Za-z]{40,}"),
    ("dp.st.", r"[0-9A-Za-z]{40,}"),
    ("st.", r"[0-9a-f]{24}\.[0-9a-f]{32}\.[0-9a-f]{32,}"),
    ("ico-", r"[0-9A-Za-z]{32}\b"),
    ("A3-", r"[0-9A-Z]{6}-[0-9A-Z-]{26,}"),
    ("sha256~", r"[\w-]{40,}"),
    ("AGE-SECRET-KEY-1", r"[0-9A-Z]{40,}"),
    ("sm_pat_|sm_aat_|sm_sat_", r"[0-9A-Za-z]{16,}"),
    ("dnkey-", r"[0-9A-Za-z]{26}-[0-9A-Za-z]{40,}"),
    // single sign-on and access
    ("SSWS ", r"[\w-]{30,}"),
    ("v1.local.|v2.local.|v3.local.|v4.local.", r"[\w.-]{32,}"),
    ("v1.public.|v2.public.|v3.public.|v4.public.", r"[\w.-]{64,}"),
    // devices and media
    ("oauth:", r"[0-9a-z]{30}\b"),
    ("aio_", r"[0-9A-Za-z]{28}\b"),
    ("fio-u-", r"[\w-]{40,}"),
    ("s-s4t2ud-|s-s4t2af-", r"[0-9a-f]{40,}"),
    // feature flags, customer messaging
    ("sdk-|api-|mob-", r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"),
    ("dG9rOm", r"[0-9A-Za-z+/=]{30,}"),
    // hashes of passwords
    ("$2a$|$2b$|$2y$", r"\d{2}\$[0-9A-Za-z./]{40,}"),
    ("$5$|$6$|$1$|$apr1$", r"[0-9A-Za-z./]{4,}\$[0-9A-Za-z./]{22,}"),
    ("$5$rounds=|$6$rounds=", r"\d+\$[0-9A-Za-z./]{4,}\$[0-9A-Za-z./]{22,}"),
    ("$y$j|$7$", r"[0-9A-Za-z./]+\$[0-9A-Za-z./]{4,}\$[0-9A-Za-z./]{22,}"),
    ("{SSHA}|{SSHA256}|{SSHA512}|{CRYPT}", r"[0-9A-Za-z+/=.]{24,}"),
    ("pbkdf2_sha256$|pbkdf2_sha512$", r"\d+\$[0-9A-Za-z]{4,}\$[0-9A-Za-z+/=]{24,}"),
    ("$argon2id$v=|$argon2i$v=", r"\d+\$m=\d+,t=\d+,p=\d+\$[0-9A-Za-z./]{8,}\$[0-9A-Za-z./]{16,}"),
];

/// URLs whose path is a credential. The prefix stays.
pub(super) const PATHS: &[(&str, &str)] = &[
    (
        "hooks.slack.com/services/|hooks.slack.com/workflows/|hooks.slack.com/triggers/|\
         hooks.slack-gov.com/services/|hooks.slack-gov.com/workflows/|hooks.slack-gov.com/triggers/|\
         hooks.zapier.com/hooks/catch/|open.feishu.cn/open-apis/bot/v2/hook/|\
         open.larksuite.com/open-apis/bot/v2/hook/|events.pagerduty.com/integration/|events.pagerduty.com/x-ere/|\
         hook.eu1.make.com/|hook.us1.make.com/|api.opsgenie.com/v1/json/",
        r"[\w+/-]{8,}",
    ),
    (
        "discord.com/api/webhooks/|discordapp.com/api/webhooks/|discord.com/api/v6/webhooks/|\
         discord.com/api/v7/webhooks/|discord.com/api/v8/webhooks/|discord.com/api/v9/webhooks/|\
         discord.com/api/v10/webhooks/",
        r"\d+/[\w-]+",
    ),
    // a path that ends with a token
    ("webhook/|webhooks/|hook/|hooks/", r"[0-9A-Za-z]{32,}\b"),
    ("webhook.office.com/webhookb2/|outlook.office.com/webhook/", r"[\w+/@-]{8,}"),
    ("maker.ifttt.com/trigger/", r"[\w-]+/with/key/[\w-]{16,}"),
    // not a URL: the logs of mail clients, and keys of PuTTY
    ("AUTH PLAIN |AUTH LOGIN |AUTH XOAUTH2 ", r"[0-9A-Za-z+/=]{8,}\b"),
    ("Private-MAC: ", r"[0-9A-Fa-f]{32,}"),
];

/// Tokens that are recognized by their middle: a run before it, the middle, and what follows.
pub(super) const AROUND: &[(&str, &str, &str)] = &[
    // Telegram's bots
    (r"\d{8,10}", ":AA", r"[\w-]{32,40}"),
    // Azure's client secrets, storage keys with the mark of the issuer, DevOps
    (r"[\w.~-]{3}", "7Q~|8Q~", r"[\w.~-]{31,40}"),
    (r"[0-9A-Za-z+/]{33}", "AIoT|+ASb|+AEh|+ARm", r"[0-9A-Za-z+/]{6}=\b"),
    (r"\w{76}", "AZDO", r"\w{4}\b"),
    (r"\w{52}", "JQQJ9", r"\w{27}\b"),
    // Terraform Cloud
    (r"[0-9A-Za-z]{14}", ".atlasv1.", r"[\w=-]{40,200}"),
    // MaxMind, Mailchimp, New Relic
    (r"\w{36}", "_mmk", r"\b"),
    (r"[0-9a-f]{32}", "-us", r"\d{1,2}\b"),
    (r"[0-9A-Za-z]{36}", "NRAL", r"\b"),
];
