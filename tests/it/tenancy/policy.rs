//! Attacks the admission policy of `deploy/tenancy` as users with few permissions.

use k8s_openapi::api::{admissionregistration::v1::ValidatingAdmissionPolicy, apps::v1::Deployment};
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
};
use orchestr_testbed::{ControlPlane, Options, eventually};
use serde_json::{Value, json};

use crate::{
    command::{ends, orchestr},
    install::{apply, bind, installed},
    support::{TIMEOUT, install_crd},
    test_env::{Plane, TestEnv},
};

/// A namespace with users who may edit Orchestr objects in it: `lister` may also list pods there, `viewer` also read logs,
/// `sender` also get the Secrets `mine` and `other`, `admin` get all its Secrets, and `sre` list pods and read logs in all
/// namespaces.
struct Tenancy {
    plane: &'static ControlPlane,
    namespace: String,
}

const USERS: [&str; 6] = ["stranger", "lister", "viewer", "sender", "admin", "sre"];

impl Tenancy {
    async fn new() -> Self {
        let plane = installed().await;
        install_crd(plane).await;
        let namespace = plane.namespace("tenancy").await.unwrap();
        let tenancy = Self { plane, namespace };
        for user in USERS {
            tenancy.bind("orchestr-editor", user).await;
        }
        for user in ["viewer", "sender", "admin"] {
            tenancy.bind("view", user).await;
        }
        tenancy.bind("admin", "admin").await;
        tenancy.role("lister", "pods", &["list"], &[]).await;
        tenancy.role("sender", "secrets", &["get"], &["mine", "other"]).await;
        let name = tenancy.user("sre");
        let grant = ["create", "clusterrolebinding", &name, "--clusterrole=view", &format!("--user={name}")];
        assert!(plane.kubectl(&grant, None).await.unwrap().status.success());
        apply(plane, "deploy/tenancy").await;
        tenancy.until_in_effect().await;
        tenancy
    }

    /// Unique on the shared control plane, because bindings are never removed.
    fn user(&self, name: &str) -> String {
        format!("{}-{name}", self.namespace)
    }

    async fn bind(&self, role: &str, user: &str) {
        bind(self.plane, &self.namespace, role, &self.user(user)).await;
    }

    async fn role(&self, user: &str, resource: &str, verbs: &[&str], names: &[&str]) {
        let name = format!("{user}-{resource}");
        let metadata = json!({"name": name, "namespace": self.namespace});
        let mut rule = json!({"apiGroups": [""], "resources": [resource], "verbs": verbs});
        if !names.is_empty() {
            rule["resourceNames"] = json!(names);
        }
        let group = "rbac.authorization.k8s.io";
        let list = json!({"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": format!("{group}/v1"), "kind": "Role", "metadata": metadata, "rules": [rule]},
            {
                "apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": metadata,
                "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
                "subjects": [{"apiGroup": group, "kind": "User", "name": self.user(user)}],
            },
        ]});
        let output = self.plane.kubectl(&["apply", "-f", "-"], Some(&list.to_string())).await.unwrap();
        assert!(output.status.success(), "{}", output.stderr);
    }

    /// Both the policy and each user's permissions, of which the API server learns with a delay.
    async fn until_in_effect(&self) {
        eventually("the policy is in effect", TIMEOUT, async || match self.create("viewer", &json!({})).await {
            Err(refusal) if refusal.contains("list pods in all namespaces") => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await
        .unwrap();
        let own = json!({"pods": {"namespaces": [self.namespace]}});
        let without_logs = json!({"pods": {"namespaces": [self.namespace]}, "logs": {"enabled": false}});
        let sends = json!({"pods": {"namespaces": [self.namespace]}, "webhooks": [webhook("a", json!({}))]});
        for (user, spec) in
            [("lister", without_logs), ("viewer", own), ("sender", sends.clone()), ("admin", sends), ("sre", json!({}))]
        {
            eventually(&format!("{user} has its permissions"), TIMEOUT, async || self.create(user, &spec).await)
                .await
                .unwrap();
        }
        eventually("the stranger may create objects", TIMEOUT, async || {
            match self.create("stranger", &json!({})).await {
                Err(refusal) if refusal.contains("cannot create") => Err(refusal),
                _ => Ok(()),
            }
        })
        .await
        .unwrap();
    }

    fn objects(&self, user: &str) -> Api<DynamicObject> {
        let client = Client::try_from(self.plane.user(&self.user(user), &[])).unwrap();
        Api::namespaced_with(client, &self.namespace, &orchestr::api::api_resource())
    }

    /// Whether a user may create an object with the minimal spec and these fields. Nothing is created.
    async fn create(&self, user: &str, fields: &Value) -> Result<(), String> {
        let dry_run = PostParams { dry_run: true, ..PostParams::default() };
        let object = serde_json::from_value(object("a", fields)).unwrap();
        self.objects(user).create(&dry_run, &object).await.map(drop).map_err(|error| error.to_string())
    }
}

fn object(name: &str, fields: &Value) -> Value {
    let mut spec = json!({"alerts": {"checkRunningPods": true}});
    for (field, value) in fields.as_object().unwrap() {
        spec[field] = value.clone();
    }
    json!({"apiVersion": "kopf.dev/v1", "kind": "Orchestr", "metadata": {"name": name}, "spec": spec})
}

fn key_of(secret: &str) -> Value {
    json!({"secretKeyRef": {"name": secret, "key": "value"}})
}

/// A webhook to the URL in the Secret `mine`.
fn webhook(name: &str, fields: Value) -> Value {
    let mut webhook = json!({"name": name, "format": "Generic", "urlFrom": key_of("mine")});
    for (field, value) in fields.as_object().unwrap() {
        webhook[field] = value.clone();
    }
    webhook
}

/// A webhook with four Secrets whose names begin with this.
fn four(prefix: &str) -> Value {
    let key = |kind: &str| key_of(&format!("{prefix}-{kind}"));
    let headers = json!({"secretRef": {"name": format!("{prefix}-headers")}});
    json!({
        "name": prefix, "format": "Generic", "urlFrom": key("url"), "signingKeyFrom": key("signing"),
        "caFrom": key("ca"), "headersFrom": headers,
    })
}

const ALL_PODS: Option<&str> = Some("to watch other namespaces you need permission to list pods in all namespaces");
const OWN_PODS: Option<&str> = Some("you need permission to list pods in the namespace of the Orchestr");
const OWN_LOGS: Option<&str> = Some("to show logs you need permission to read logs in the namespace of the Orchestr");
const ALL_SECRETS: Option<&str> = Some("to refer to more than ten Secrets you need permission to get all Secrets");
const SECRETS: Option<&str> = Some("you need permission to get the Secrets that the webhooks refer to: ");
/// Refused by the schema, before the policy.
const SCHEMA: Option<&str> = Some("is invalid");

#[tokio::test]
async fn refuses_each_spec_that_shows_more_than_its_author_may_read() {
    let tenancy = Tenancy::new().await;
    let own = tenancy.namespace.as_str();
    let here = json!({"namespaces": [own]});
    let with_webhooks = |webhooks: Value| json!({"pods": here, "webhooks": webhooks});
    let with_logs = |logs: Value| json!({"pods": here, "logs": logs});
    let in_pods = |pods: Value| json!({"pods": pods});
    let webhooks = |count: usize| (0..count).map(|number| four(&format!("w{number}"))).collect::<Value>();
    let eleven = (0..11).map(|number| webhook("a", json!({"urlFrom": key_of(&format!("s{number}"))})));
    let ten_secrets: Value = eleven
        .clone()
        .take(10)
        .enumerate()
        .map(|(number, mut own)| {
            own["name"] = json!(format!("w{number}"));
            own
        })
        .collect();
    let mut eleven_secrets = ten_secrets.clone();
    eleven_secrets[0]["caFrom"] = key_of("s10");
    let rows = [
        // Absent, null, empty and wide scopes.
        ("viewer", json!({}), ALL_PODS),
        ("viewer", in_pods(Value::Null), ALL_PODS),
        ("viewer", in_pods(json!({})), ALL_PODS),
        ("viewer", in_pods(json!({"namespaces": null})), ALL_PODS),
        ("viewer", in_pods(json!({"namespaces": []})), ALL_PODS),
        ("viewer", in_pods(json!({"namespaces": [null]})), SCHEMA),
        ("viewer", in_pods(json!({"namespaces": ""})), SCHEMA),
        ("viewer", in_pods(json!({"namespaces": [""]})), SCHEMA),
        ("viewer", in_pods(json!({"namespaces": [own, own]})), SCHEMA),
        ("viewer", in_pods(json!({"namespaces": ["*"]})), ALL_PODS),
        ("viewer", in_pods(json!({"namespaces": [own, "*"]})), ALL_PODS),
        ("viewer", in_pods(json!({"namespaces": [own, "kube-system"]})), ALL_PODS),
        ("viewer", in_pods(json!({"namespaces": ["kube-system"]})), ALL_PODS),
        ("viewer", in_pods(json!({"namespaces": [format!("{own}*")]})), ALL_PODS),
        ("viewer", in_pods(json!({"namespaces": [format!("{{{own},kube-system}}")]})), ALL_PODS),
        ("viewer", in_pods(json!({"namespaces": ["[!x]*"]})), ALL_PODS),
        ("viewer", in_pods(json!({"excludeNamespaces": ["[!t]*"]})), ALL_PODS),
        ("viewer", in_pods(json!({"selector": {"matchLabels": {"app": "bank"}}})), ALL_PODS),
        ("viewer", json!({"alerts": {"checkRunningPods": false}}), ALL_PODS),
        ("viewer", json!({"alerts": null}), ALL_PODS),
        ("viewer", json!({"logs": {"enabled": false}}), ALL_PODS),
        ("viewer", in_pods(here.clone()), None),
        ("viewer", in_pods(json!({"namespaces": [own], "excludeNamespaces": null, "selector": null})), None),
        ("viewer", json!({"pods": here, "logs": null, "webhooks": null, "report": null}), None),
        ("sre", json!({}), None),
        ("sre", in_pods(json!({"namespaces": ["*"]})), None),
        // Pods and logs of the own namespace.
        ("stranger", in_pods(here.clone()), OWN_PODS),
        ("lister", in_pods(here.clone()), OWN_LOGS),
        ("lister", with_logs(Value::Null), OWN_LOGS),
        ("lister", with_logs(json!({})), OWN_LOGS),
        ("lister", with_logs(json!({"enabled": null})), OWN_LOGS),
        ("lister", with_logs(json!({"enabled": true})), OWN_LOGS),
        ("lister", with_logs(json!({"enabled": false})), None),
        // Secrets.
        ("viewer", with_webhooks(json!([webhook("a", json!({}))])), SECRETS),
        ("viewer", with_webhooks(json!([])), None),
        ("sre", json!({"webhooks": [webhook("a", json!({}))]}), SECRETS),
        ("sender", with_webhooks(json!([webhook("a", json!({}))])), None),
        ("sender", with_webhooks(json!([webhook("a", json!({"signingKeyFrom": key_of("other")}))])), None),
        ("sender", with_webhooks(json!([webhook("a", json!({"signingKeyFrom": null, "caFrom": null}))])), None),
        ("sender", with_webhooks(json!([webhook("a", json!({"headersFrom": null}))])), None),
        ("sender", with_webhooks(json!([webhook("a", json!({"urlFrom": key_of("db")}))])), SECRETS),
        ("sender", with_webhooks(json!([webhook("a", json!({"signingKeyFrom": key_of("db")}))])), SECRETS),
        ("sender", with_webhooks(json!([webhook("a", json!({"caFrom": key_of("db")}))])), SECRETS),
        (
            "sender",
            with_webhooks(json!([webhook("a", json!({"headersFrom": {"secretRef": {"name": "db"}}}))])),
            SECRETS,
        ),
        (
            "sender",
            with_webhooks(json!([webhook("a", json!({})), webhook("b", json!({"caFrom": key_of("db")}))])),
            SECRETS,
        ),
        ("sender", with_webhooks(json!([webhook("a", json!({"urlFrom": null}))])), SCHEMA),
        // The most references that the schema allows, and the most that are checked one by one.
        ("sender", with_webhooks(ten_secrets.clone()), SECRETS),
        ("sender", with_webhooks(eleven_secrets.clone()), ALL_SECRETS),
        ("sender", with_webhooks(webhooks(10)), ALL_SECRETS),
        ("admin", with_webhooks(ten_secrets), None),
        ("admin", with_webhooks(eleven_secrets), None),
        ("admin", with_webhooks(webhooks(10)), None),
        ("admin", with_webhooks(webhooks(11)), SCHEMA),
        ("admin", json!({"webhooks": webhooks(10)}), ALL_PODS),
    ];
    let mut wrong = Vec::new();
    for (user, fields, refusal) in rows {
        let outcome = tenancy.create(user, &fields).await;
        let is_right = match refusal {
            None => outcome.is_ok(),
            Some(why) => outcome.as_ref().is_err_and(|message| message.contains(why)),
        };
        if !is_right {
            wrong.push(format!("{user} {fields}: {outcome:?} instead of {refusal:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test]
async fn names_the_secrets_that_the_author_may_not_get() {
    let tenancy = Tenancy::new().await;
    let spec = |secrets: &[&str]| {
        let webhooks = secrets.iter().map(|secret| webhook(secret, json!({"urlFrom": key_of(secret)})));
        json!({"pods": {"namespaces": [tenancy.namespace]}, "webhooks": webhooks.collect::<Value>()})
    };
    assert_eq!(tenancy.create("sender", &spec(&["mine", "other"])).await, Ok(()));
    // Each position among those that are checked one by one.
    for position in 0..10 {
        let mut secrets = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
        secrets[position] = "mine";
        let refusal = tenancy.create("sender", &spec(&secrets[..=position.max(1)])).await.unwrap_err();
        assert!(refusal.contains(&format!("refer to: {}", secrets[..=position.max(1)].join(", "))), "{refusal}");
    }
}

#[tokio::test]
async fn an_update_needs_the_permissions_for_the_whole_spec() {
    let tenancy = Tenancy::new().await;
    let admin: Api<DynamicObject> =
        Api::namespaced_with(tenancy.plane.admin().unwrap(), &tenancy.namespace, &orchestr::api::api_resource());
    let create = async |name: &str, fields: Value| {
        let object = serde_json::from_value(object(name, &fields)).unwrap();
        admin.create(&PostParams::default(), &object).await.unwrap();
    };
    let here = json!({"namespaces": [tenancy.namespace]});
    create("wide", json!({})).await;
    create("narrow", json!({"pods": here})).await;
    create("sends", json!({"pods": here, "webhooks": [webhook("a", json!({}))]})).await;
    let viewer = tenancy.objects("viewer");
    let refused = async |name: &str, patch: Value, why: &str| {
        for params in [PatchParams::default(), PatchParams::apply("viewer").force()] {
            let outcome = match params.field_manager {
                None => viewer.patch(name, &params, &Patch::Merge(&patch)).await,
                Some(_) => {
                    let mut applied = patch.clone();
                    applied["apiVersion"] = json!("kopf.dev/v1");
                    applied["kind"] = json!("Orchestr");
                    viewer.patch(name, &params, &Patch::Apply(&applied)).await
                }
            };
            let refusal = outcome.map(drop).unwrap_err().to_string();
            assert!(refusal.contains(why), "{name} {patch}: {refusal}");
        }
    };
    let wide = "list pods in all namespaces";
    // What an administrator has created is not the tenant's to change, not even in part.
    refused("wide", json!({"spec": {"report": {"maxPods": 500}}}), wide).await;
    refused("wide", json!({"spec": {"logs": {"redact": false}}}), wide).await;
    refused("narrow", json!({"spec": {"pods": {"namespaces": ["*"]}}}), wide).await;
    refused("sends", json!({"spec": {"logs": {"redact": false}}}), "get the Secrets").await;
    for pods in [json!(null), json!({"namespaces": null})] {
        let patch = json!({"spec": {"pods": pods}});
        let refusal = viewer.patch("narrow", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap_err();
        assert!(refusal.to_string().contains(wide), "{refusal}");
    }
    // A null that a merge patch would remove.
    for pods in [json!(null), json!({"namespaces": null}), json!({"namespaces": []})] {
        let mut narrow = viewer.get("narrow").await.unwrap();
        narrow.data["spec"]["pods"] = pods;
        let refusal = viewer.replace("narrow", &PostParams::default(), &narrow).await.unwrap_err().to_string();
        assert!(refusal.contains(wide), "{refusal}");
    }

    // A forged status would show what is not so.
    let forged = Patch::Merge(json!({"status": {"watchedPods": 1}}));
    let refusal = viewer.patch_status("narrow", &PatchParams::default(), &forged).await.unwrap_err().to_string();
    assert!(refusal.contains("cannot patch resource \"orchestrs/status\""), "{refusal}");

    // Changes that ask for nothing new, and the deletion, need no permission.
    let labelled = json!({"metadata": {"labels": {"team": "red"}}});
    viewer.patch("wide", &PatchParams::default(), &Patch::Merge(&labelled)).await.unwrap();
    viewer.delete("wide", &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn the_audit_lists_objects_that_reach_further() {
    let env = TestEnv::new("audit").await;
    let own = env.namespace.clone();
    for (name, fields) in [
        ("absent", json!({})),
        ("null", json!({"pods": null, "webhooks": null})),
        ("empty", json!({"pods": {"namespaces": []}})),
        ("all", json!({"pods": {"namespaces": ["*"]}})),
        ("two", json!({"pods": {"namespaces": [own, "bank"]}})),
        ("own", json!({"pods": {"namespaces": [own]}})),
        (
            "sends",
            json!({"pods": {"namespaces": [own]}, "webhooks": [webhook("a", json!({"caFrom": null})), four("b")]}),
        ),
    ] {
        env.old_object(name, json!({}), object(name, &fields)["spec"].clone(), json!(null)).await;
    }
    let template = format!("go-template-file={}/deploy/tenancy/audit.gotemplate", env!("CARGO_MANIFEST_DIR"));
    let output = env.plane.kubectl(&["get", "orchestrs", "-n", &own, "-o", &template], None).await.unwrap();
    assert_eq!(output.stderr, "");
    assert_eq!(
        output.stdout,
        format!(
            "{own}/absent selects pods of: all namespaces\n\
             {own}/all selects pods of: *\n\
             {own}/empty selects pods of: all namespaces\n\
             {own}/null selects pods of: all namespaces\n\
             {own}/sends webhook a uses Secret: mine\n\
             {own}/sends webhook b uses Secret: b-url b-signing b-headers b-ca\n\
             {own}/two selects pods of: {own} bank\n"
        )
    );
}

#[tokio::test]
async fn shared_manifests_contain_the_policy_and_stricter_flags() {
    let plane = Plane::start(Options::default()).await;
    apply(&plane, "deploy/shared").await;
    let client = plane.admin().unwrap();
    let deployment = Api::<Deployment>::namespaced(client.clone(), "orchestr-system").get("orchestr").await.unwrap();
    let container = deployment.spec.unwrap().template.spec.unwrap().containers.remove(0);
    let env = container.env.unwrap();
    let value = |name: &str| env.iter().find(|own| own.name == name).and_then(|own| own.value.as_deref());
    assert_eq!(value("ORCHESTR_WEBHOOK_REFUSE_PRIVATE"), Some("true"));
    assert_eq!(value("ORCHESTR_OWN_NAMESPACE_ONLY"), Some("false"));
    Api::<ValidatingAdmissionPolicy>::all(client).get("orchestr-tenancy").await.unwrap();

    // The values are those that the flags accept.
    let mut run = orchestr(&["run", "--kubeconfig", "/nonexistent"]);
    for own in ["ORCHESTR_WEBHOOK_REFUSE_PRIVATE", "ORCHESTR_OWN_NAMESPACE_ONLY"] {
        run.env(own, value(own).unwrap());
    }
    let (_, _, errors) = ends(&mut run);
    assert!(errors.contains("/nonexistent") && !errors.contains("invalid value"), "{errors}");
}
