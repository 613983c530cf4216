//! Slack's API instead of an incoming webhook, against a receiver that enforces the documented rules of `chat.postMessage`: the
//! end of an incident answers the message that it began.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use orchestr::{alerts::delivery::DeliveryTimings, config::Timings};
use orchestr_testbed::{Received, Receiver, Reply, eventually};
use serde_json::{Value, json};

use super::support::{delivery, spec, webhook};
use crate::{
    command::{ends, orchestr},
    pod_statuses::crash_looping,
    running_operator::RunningOperator,
    support::TIMEOUT,
    test_env::{TestEnv, condition},
};

const TOKEN: &str = "xoxb-1-hunter2";
const CHANNEL: &str = "C0123456789";

/// A message in the channel.
#[derive(Clone, Debug)]
struct Post {
    ts: String,
    thread: Option<String>,
    text: String,
}

#[derive(Debug, Default)]
struct Channel {
    posts: Vec<Post>,
    /// Messages that are posted, but whose answers are lost.
    lost: usize,
    /// The errors of the next requests.
    errors: Vec<&'static str>,
    /// The threads that were deleted.
    deleted: Vec<String>,
}

#[derive(Clone, Debug, Default)]
struct Slack(Arc<Mutex<Channel>>);

impl Slack {
    fn posts(&self) -> Vec<Post> {
        self.0.lock().unwrap().posts.clone()
    }

    fn answer(&self, request: &Received) -> Reply {
        let error = |code: &str| Reply::Body(200, json!({"ok": false, "error": code}).to_string());
        if request.path != "/api/chat.postMessage" || request.method != "POST" {
            return error("unknown_method");
        }
        if !request.header("content-type").starts_with("application/json") {
            return error("invalid_form_data");
        }
        if request.header("authorization") != format!("Bearer {TOKEN}") {
            return error("invalid_auth");
        }
        let body = request.json();
        let mut channel = self.0.lock().unwrap();
        if let Some(code) = channel.errors.pop() {
            return error(code);
        }
        if body["channel"] != CHANNEL {
            return error("channel_not_found");
        }
        let length = |value: &Value| value.as_str().map_or(0, |text| text.encode_utf16().count());
        let blocks = body["blocks"].as_array().cloned().unwrap_or_default();
        let is_valid = |block: &Value| match block["type"].as_str() {
            Some("header") => length(&block["text"]["text"]) <= 150,
            Some("section") => (1..=3_000).contains(&length(&block["text"]["text"])),
            Some("context") => block["elements"].as_array().is_some_and(|elements| elements.len() <= 10),
            _ => false,
        };
        if blocks.len() > 50 || !blocks.iter().all(is_valid) {
            return error("invalid_blocks");
        }
        if length(&body["text"]) == 0 || length(&body["text"]) > 40_000 {
            return error("no_text");
        }
        let thread = body["thread_ts"].as_str().map(str::to_owned);
        let is_root = |post: &Post| Some(&post.ts) == thread.as_ref() && post.thread.is_none();
        if thread.is_some() && !channel.posts.iter().any(is_root)
            || thread.as_ref().is_some_and(|own| channel.deleted.contains(own))
        {
            return error("thread_not_found");
        }
        let ts = format!("1503435956.{:06}", 247 + channel.posts.len());
        channel.posts.push(Post { ts: ts.clone(), thread, text: body.to_string() });
        if channel.lost > 0 {
            channel.lost -= 1;
            return Reply::Close;
        }
        // Slack repeats the message, whose texts may contain anything.
        let message = json!({"type": "message", "text": r#""ts":"1.1""#, "blocks": blocks, "ts": ts});
        Reply::Body(200, format!(r#"{{"ok":true,"channel":"{CHANNEL}","ts":"{ts}","message":{message}}}"#))
    }
}

struct Story {
    env: TestEnv,
    slack: Slack,
    receiver: Receiver,
    operator: Option<RunningOperator>,
}

impl Story {
    async fn begin(name: &str) -> Self {
        let env = TestEnv::new(name).await;
        let (receiver, slack) = (Receiver::start().await.unwrap(), Slack::default());
        let own = slack.clone();
        receiver.rule(move |request| own.answer(request));
        let url = receiver.url(&format!("/api/chat.postMessage?channel={CHANNEL}"));
        env.secret("ops", &[("url", &url)]).await;
        env.secret("token", &[("authorization", &format!("Bearer {TOKEN}"))]).await;
        env.pod("cart-0", crash_looping(7)).await;
        let headers = json!({"headersFrom": {"secretRef": {"name": "token-webhook"}}});
        env.object("cluster", spec(&[webhook("ops", "Slack", headers)])).await;
        let mut story = Self { env, slack, receiver, operator: None };
        story.start();
        story
    }

    fn start(&mut self) {
        let alerts = DeliveryTimings {
            secrets_max_age: Duration::from_millis(500),
            secrets_retry_interval: Duration::from_secs(1),
            pacing_divisor: 15,
            ..DeliveryTimings::default()
        };
        let timings = Timings { status_write_interval: Duration::from_millis(200), alerts, ..Timings::default() };
        self.operator = Some(self.env.operator().timings(timings).start());
    }

    async fn restart(&mut self) {
        self.operator.take().unwrap().stop().await;
        self.start();
    }

    /// Waits until there are this many messages, and the last one is recorded.
    async fn posts(&self, count: usize) -> Vec<Post> {
        let posts = eventually(&format!("{count} messages"), 2 * TIMEOUT, async || {
            let posts = self.slack.posts();
            if posts.len() >= count { Ok(posts) } else { Err(format!("{posts:?}")) }
        })
        .await
        .unwrap();
        let is_recorded = |status: &_| delivery(status, "ops").is_some_and(|ops| ops.pending.is_none());
        self.env.until("it is recorded", is_recorded).await;
        assert_eq!(posts.len(), count, "{posts:?}");
        posts
    }

    async fn end(&mut self) {
        self.operator.take().unwrap().stop().await;
    }
}

fn is_end(post: &Post) -> bool {
    post.text.contains("RESOLVED")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_answers_the_message_of_the_start_after_a_restart() {
    let mut story = Story::begin("slack-thread").await;
    let first = story.posts(1).await.remove(0);
    assert!(first.thread.is_none() && first.text.contains("cart-0"));
    let status = story.env.status("cluster").await;
    assert_eq!(delivery(&status, "ops").unwrap().alerts[0].thread, first.ts);
    story.restart().await;
    story.env.delete_pod("cart-0").await;
    let posts = story.posts(2).await;
    assert!(is_end(&posts[1]), "{posts:?}");
    assert_eq!(posts[1].thread, Some(first.ts));
    // A later incident begins a thread of its own.
    story.env.pod("cart-0", crash_looping(9)).await;
    let posts = story.posts(3).await;
    assert!(posts[2].thread.is_none());
    let object = serde_json::to_string(&story.env.objects().get("cluster").await.unwrap()).unwrap();
    assert!(!object.contains("hunter2"));
    story.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ends_of_several_threads_are_sent_to_each() {
    let mut story = Story::begin("slack-threads").await;
    story.posts(1).await;
    for (number, pod) in ["web-0", "db-0"].into_iter().enumerate() {
        story.env.pod(pod, crash_looping(3)).await;
        story.posts(number + 2).await;
    }
    for pod in ["cart-0", "web-0", "db-0"] {
        story.env.delete_pod(pod).await;
    }
    let posts = story.posts(6).await;
    let mut answered: Vec<_> = posts[3..].iter().map(|post| (is_end(post), post.thread.clone().unwrap())).collect();
    answered.sort_unstable();
    let mut roots: Vec<_> = posts[..3].iter().map(|post| (true, post.ts.clone())).collect();
    roots.sort_unstable();
    assert_eq!(answered, roots, "{posts:?}");
    for answer in &posts[3..] {
        let root = posts.iter().find(|root| Some(&root.ts) == answer.thread.as_ref()).unwrap();
        let title = |post: &Post| post.text.split_once(" in ").unwrap().1.split_once(',').unwrap().0.to_owned();
        assert_eq!(title(answer), title(root));
    }
    story.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_whose_thread_is_gone_is_sent_outside_of_it() {
    let mut story = Story::begin("slack-deleted").await;
    let first = story.posts(1).await.remove(0);
    story.slack.0.lock().unwrap().deleted.push(first.ts);
    story.env.delete_pod("cart-0").await;
    let posts = story.posts(2).await;
    assert!(is_end(&posts[1]) && posts[1].thread.is_none(), "{posts:?}");
    let tried: Vec<_> = story.receiver.received().iter().map(|own| own.json()["thread_ts"].is_string()).collect();
    assert_eq!(tried, [false, true, false], "it is tried once");
    assert!(posts[1].text.contains("RESOLVED: OutOfMemory (OOMKilled) in "), "it has all details: {posts:?}");
    story.env.until("nothing is refused", |status| condition(status, "AlertsDelivered").0 == "True").await;
    story.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_lost_answer_the_end_answers_the_message_that_was_sent_again() {
    let env_story = Story::begin("slack-lost");
    let mut story = env_story.await;
    // The first attempt may already be under way, so the second pod's message loses its answer.
    story.posts(1).await;
    story.slack.0.lock().unwrap().lost = 1;
    story.env.pod("web-0", crash_looping(3)).await;
    let posts = story.posts(3).await;
    assert!(posts[1].text.contains("web-0") && posts[2].text.contains("web-0"));
    let received = story.receiver.received();
    assert_eq!(received[1].header("webhook-id"), received[2].header("webhook-id"));
    story.env.delete_pod("web-0").await;
    let posts = story.posts(4).await;
    assert_eq!((is_end(&posts[3]), posts[3].thread.as_ref()), (true, Some(&posts[2].ts)));
    story.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_of_the_api_are_named_without_the_token() {
    let mut story = Story::begin("slack-errors").await;
    story.posts(1).await;
    story.slack.0.lock().unwrap().errors = vec!["ratelimited", "not_in_channel"];
    story.env.pod("web-0", crash_looping(3)).await;
    let status =
        story.env.until("it fails", |status| condition(status, "AlertsDelivered").1 == "DeliveryFailing").await;
    let message = condition(&status, "AlertsDelivered").2;
    assert_eq!(
        message,
        "1 of 1 webhooks: ops: the receiver answered 403 (not_in_channel): it does not accept the credentials"
    );
    // A rotated token is noticed, and the same receiver continues.
    story.env.secret("token", &[("authorization", "Bearer xoxb-2-other")]).await;
    let invalid = "the receiver answered 401 (invalid_auth): it does not accept the credentials";
    story.env.until("the token is invalid", |status| condition(status, "AlertsDelivered").2.contains(invalid)).await;
    story.env.secret("token", &[("authorization", &format!("Bearer {TOKEN}"))]).await;
    let posts = story.posts(2).await;
    assert!(posts[1].text.contains("web-0") && !posts[1].text.contains("cart-0 is new"));
    story.env.until("it is delivered", |status| condition(status, "AlertsDelivered").0 == "True").await;
    story.env.delete_pod("cart-0").await;
    let posts = story.posts(3).await;
    assert_eq!(posts[2].thread.as_ref(), Some(&posts[0].ts), "the thread from before is kept");
    story.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn webhook_test_makes_a_thread() {
    let mut story = Story::begin("slack-test").await;
    story.posts(1).await;
    story.end().await;
    let name = format!("{}/cluster", story.env.namespace);
    let kubeconfig = story.env.plane.admin_kubeconfig().to_str().unwrap();
    let flags = ["--kubeconfig", kubeconfig, "--webhook-allow-http", "--webhook-allow-loopback"];
    let (_, out, _) = ends(&mut orchestr(&[&["webhook", "test", &name][..], &flags].concat()));
    assert!(out.contains("ops (Slack): resolved alert: delivered, 200 in "), "{out}");
    let posts = story.slack.posts();
    assert_eq!((posts.len(), posts[2].thread.as_ref()), (3, Some(&posts[1].ts)), "{posts:?}");
    let url = story.receiver.url("/api/chat.postMessage");
    story.env.secret("ops", &[("url", &url)]).await;
    let (code, out, _) = ends(&mut orchestr(&[&["webhook", "test", &name][..], &flags].concat()));
    assert_eq!(code, 1);
    assert!(
        out.contains("lacks the channel: it must end with ?channel=<the channel's ID, such as C0123456789>"),
        "{out}"
    );
}
