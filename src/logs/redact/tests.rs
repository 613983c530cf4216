pub(super) mod corpus;
mod cuts;

use super::{MASK, Mask};

fn redact(text: &str) -> String {
    Mask { credentials: true, patterns: &[], cut: false }.apply(text, 0)
}

/// Lines with credentials between « and ».
const REDACTED: &[&str] = &[
    // keys and values
    "password=«hunter2»",
    "password: «hunter2»",
    "PASSWORD = «hunter2»",
    "db_password=«hunter2» user=bob",
    "connect with password=«hunter2», user=bob",
    "level=info msg=\"login\" password=«hunter2» user=bob",
    "level=info msg=\"bad token=«abc123»\" user=bob",
    "{\"user\":\"bob\",\"password\":\"«hunter2»\",\"id\":7}",
    "{\"password\" : \"«correct horse \\\"battery\\\" staple»\"}",
    "{\"msg\":\"{\\\"password\\\":\\\"«hunter2»\\\",\\\"id\\\":1}\"}",
    "{'password': '«hunter2»', 'id': 7}",
    "{'password': b'«hunter2»'}",
    "{:password=>\"«hunter2»\", :id=>7}",
    "\"pin\": 1, \"clientSecret\": «12345678»",
    "map[password:«hunter2» user:bob]",
    "{User:bob Password:«hunter2» Host:db}",
    "Config { user: \"bob\", password: «Some(\"correct horse\")», port: 5432 }",
    "  password: «correct horse battery»",
    "DB_PASSWORD=«correct horse battery»",
    "export DB_PASSWORD='«correct horse»'",
    "password: |\n  «line one\n  line two»\nuser: bob",
    "env DB_PASSWORD: «hunter2»",
    "PGPASSWORD=«hunter2 psql -h db»",
    "SECRET_KEY_BASE=«0123456789abcdef»",
    "POSTGRES_PASSWORD_PROD=«hunter2»",
    "aws_secret_access_key = «wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY»",
    "secretAccessKey: «wJalrXUtnFEMI»",
    "api key: «abc123»",
    "x-api-key: «abc123»",
    "apiKey=«abc123»&q=1",
    "AccountKey=«abc123==»;EndpointSuffix=core.windows.net",
    "Server=db;User Id=sa;Password=«ab;cd»;Encrypt=yes",
    "client_secret=«abc123»",
    "run --password «hunter2» --user bob",
    "run --password=«hunter2» --user bob",
    "[\"--token\",\"«abc123»\",\"--user\",\"bob\"]",
    "args: [\"--token\", \"«abc123»\"]",
    "<password>«hunter2»</password>",
    "{\"name\":\"DB_PASSWORD\",\"value\":\"«hunter2»\"}",
    "- name: DB_PASSWORD\n  value: «hunter2»",
    "EnvVar{Name:DB_PASSWORD,Value:«hunter2»,ValueFrom:nil,}",
    "//registry.npmjs.org/:_authToken=«abc123»",
    "user[password]=«hunter2»&user[name]=bob",
    "GET /login?token=«abc123»&next=/home HTTP/1.1",
    "client-key-data: «TUlJRXBBSUJBQUtDQVFFQQ»",
    "vault secret_id=«84896a0c-1347-aa90-a4f6-aca8b7558780»",
    "credentials: «abc123»",
    "Cookie: «session=abc123; theme=dark»",
    "set-cookie: «session=abc123; Path=/»",
    "passwords=«[\"a\", \"b\"]»",
    // authorization
    "Authorization: Bearer «abcdef»",
    "authorization: Basic «dXNlcjpwYXNz»",
    "curl -H \"Authorization: Bearer «abc123»\" https://x",
    "Authorization: Digest «username=\"Mufasa\", response=\"6629fae\"»",
    "{\"Authorization\":\"Bearer «abc123»\"}",
    "sent bearer «abcdef0123456789» to upstream",
    "Proxy-Authorization: «abc123»",
    // tokens
    "got «eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U» here",
    "id «AKIAIOSFODNN7EXAMPLE» and «wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY» follow",
    "«AIzaSyDaGmWKa4JsXZ-HjGw7ISLn_3namBGewQe»",
    "«ghp_16C7e42F292c6912E7710c838347Ae178B4a»",
    "«github_pat_11ABCDEFG0abcdefghijkl_mnopqrstuvwxyz»",
    "«glpat-abcdefghij0123456789»",
    "«xoxb-123456789012-abcdefghijkl»",
    "https://hooks.slack.com/services/«T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX»",
    "https://discord.com/api/webhooks/«1234567890/abc_DEF-123»",
    "https://api.telegram.org/«bot123456789:AAabcdefghijklmnopqrstuvwxyzABCDEFG»/sendMessage",
    "«sk_live_abcdefghijklmnop»",
    "«npm_abcdefghijklmnopqrstuvwxyz0123456789»",
    "«pypi-AgEIcHlwaS5vcmcCJDU3Nzc»",
    "«sk-ant-api03-abcdefghijklmnopqrstuvwxyz»",
    "«sk-proj-abcdefghijklmnopqrstuvwxyz»",
    "«sk-abcdefghijklmnopqrstuvwxyz0123456789ABCDEF»",
    "«hvs.CAESIabcdefghijklmnopqrstuvwxyz»",
    "https://a.blob.core.windows.net/c?sv=2020&sig=«abcdefgh%3D»&se=2021",
    "tls.key: «LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQo=»",
    // URLs
    "postgres://bob:«hunter2»@db:5432/shop",
    "redis://:«hunter2»@cache:6379/0",
    "postgres://bob:«p@ss/w0rd»@db/shop",
    "amqp://bob:«123»@mq:5672",
    "https://«0123456789abcdef0123456789abcdef»@sentry.example/1",
    // private keys
    "«-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\nabc=\n-----END RSA PRIVATE KEY-----»\ndone",
    "«-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW\nQyNTUxOQ»\nkilled",
    "«-----BEGIN PRIVATE KEY-----\\nMIIEvQ\\nabc\\n-----END PRIVATE KEY-----»\\n\"}",
    "starting\n«b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW\nabc=\n-----END RSA PRIVATE KEY-----»\ndone",
    "x: «MIIEpAIBAAKCAQEA\\nabc\\n-----END PRIVATE KEY-----»",
    "«-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0123\n\nMIIEpAIB\n-----END RSA PRIVATE KEY-----»",
];

/// Lines without credentials.
const KEPT: &[&str] = &[
    "token expired",
    "error: token expired at 12:00",
    "invalid token: expired",
    "password: incorrect for user bob",
    "FATAL:  password authentication failed for user \"postgres\"",
    "secret \"db-credentials\" not found",
    "secret not found",
    "secrets \"db\" is forbidden: User \"system:serviceaccount:shop:cart\" cannot get resource \"secrets\" in API group \"\"",
    "MountVolume.SetUp failed for volume \"kube-api-access\" : failed to fetch token: serviceaccounts \"x\" is forbidden",
    "Error: couldn't find key password in Secret shop/db",
    "E0101 12:00:00.000000       1 token.go:123] failed to verify",
    "\tat com.example.PasswordEncoder.encode(PasswordEncoder.java:55)",
    "com.example.InvalidTokenException: no such user",
    "com.example.TokenFilter: bad request",
    "SecretSync: started",
    "org.springframework.security.authentication.BadCredentialsException: Bad credentials",
    "  File \"/app/secrets.py\", line 12, in load_token",
    "thread 'main' panicked at src/token.rs:12:5:",
    "SyntaxError: Unexpected token: } in JSON at position 3",
    "Unexpected token < in JSON at position 0",
    "Basic authentication failed",
    "Bearer authentication is required",
    "request 6f1c1c4e-3f0a-4b0e-9a53-0c8d6d2c7f11 failed",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08  /bin/app",
    "commit 2fd4e1c67a2d28fced849ee1bb76e7391b93eb12",
    "pod shop/cart-5d9f8c7b6d-x2x4z on node ip-10-0-0-1.eu-west-1.compute.internal",
    "sk-learn-worker-7d9f8b6c5d-x2x4z is ready",
    "secret=\"shop/db-credentials\" reason=NotFound",
    "secretName: db-credentials",
    "token_type=bearer expires_in=3600",
    "tokens=4096 max_tokens: 512 total_tokens=77",
    "tokenizer=gpt2 compass=north bypass=true passed=5 author=bob",
    "password_file=/run/secrets/db",
    "password: /run/secrets/db",
    "passwordSecretRef: db",
    "PWD=/srv/app",
    "using password: YES",
    "password=${DB_PASSWORD}",
    "password=",
    "password=null token=<nil> secret=true",
    "\"secret\":{\"secretName\":\"db\",\"defaultMode\":420}",
    "use crate::token::Token;",
    "the --token flag is required",
    "http://registry:4873/@scope/name",
    "ssh://git@example.com/repo.git",
    "see https://example.com/docs?page=2#tokens and mail ops@example.com",
    "jdbc:postgresql://db:5432/shop",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
    "primary_key=id foreign key: user_id partition-key: 3",
    "rbac.authorization.k8s.io/v1: unknown",
    "authorization-mode=Node,RBAC",
    "panic: runtime error: invalid memory address or nil pointer dereference",
    "goroutine 1 [running]:\nmain.main()\n\t/src/main.go:12 +0x1d",
    "10.0.0.1 - - [10/Oct/2000:13:55:36 -0700] \"GET /index.html HTTP/1.0\" 200 2326",
];

fn marked(line: &str) -> (String, String) {
    let mut plain = String::new();
    let mut masked = String::new();
    for (at, part) in line.split(['«', '»']).enumerate() {
        plain.push_str(part);
        masked.push_str(if at % 2 == 1 { MASK } else { part });
    }
    (plain, masked)
}

#[test]
fn redacts_credentials_and_nothing_else() {
    let wrong: Vec<_> = REDACTED
        .iter()
        .map(|line| marked(line))
        .map(|(plain, masked)| (redact(&plain), masked, plain))
        .filter(|(got, want, _)| got != want)
        .map(|(got, want, plain)| format!("{plain}\n  got  {got}\n  want {want}"))
        .collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), REDACTED.len(), wrong.join("\n"));
}

#[test]
fn keeps_ordinary_lines() {
    let wrong: Vec<_> = KEPT.iter().map(|line| (line, redact(line))).filter(|(line, got)| *line != got).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A log has at most 1,000 lines.
#[test]
fn examines_each_line_of_a_log_with_short_lines() {
    for line in ["token expired", "password: wrong", "key=1", "auth: ok", "pass: 3"] {
        let log = format!("{line}\n").repeat(1000);
        assert_eq!(redact(&log), log);
    }
}

#[test]
fn masks_the_rest_of_a_line_that_has_too_many_keys_or_phrases() {
    for part in ["pass: is wrong ", "key=x ", "password of a "] {
        let shown = redact(&format!("{}\nthe end\n", part.repeat(8192)));
        let (line, end) = shown.split_once('\n').unwrap();
        assert!(line.ends_with(MASK) && line.len() < 4096 * part.len(), "{part}: {}", line.len());
        assert_eq!(end, "the end\n");
    }
}
