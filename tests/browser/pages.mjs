// Objects and pods from which `orchestr` makes the pages that are checked.

const now = Date.parse("2026-03-01T12:00:00Z");
const before = (minutes) => new Date(now - minutes * 60_000).toISOString().replace(".000", "");

function object(status) {
  const isHealthy = status.problematicPodCount ? "False" : "True";
  const conditions = [
    { type: "Ready", status: "True", reason: "Watching", message: "watching pods", lastTransitionTime: before(60) },
    { type: "PodsHealthy", status: isHealthy, reason: "R", message: "", lastTransitionTime: before(9), ...status.healthy },
  ];
  return {
    apiVersion: "kopf.dev/v1",
    kind: "Orchestr",
    metadata: { namespace: "orchestr-system", name: "cluster" },
    status: { lastCheckTime: before(0), watchedPods: 328, problematicPodCount: 0, conditions, ...status, healthy: undefined },
  };
}

function incident(namespace, kind, name, reason, cause, message, pods, more) {
  return {
    key: "0123456789abcdef", kind: "Crash", namespace, owner: { kind, name }, reason, cause, message, pods, of: pods,
    since: before(15), examplePods: [], ...more,
  };
}

function pod(namespace, kind, owner, name, reason, message, more) {
  return {
    name, namespace, status: "CrashLoopBackOff", kind: "Crash", reason, message, phase: "Running", node: "node-7",
    owner: { kind, name: owner }, since: before(15), ...more,
  };
}

function container(name, exitCode, logs, more) {
  return {
    name, type: "App", state: "Waiting", reason: "CrashLoopBackOff", ready: false, restarts: 7,
    lastTermination: { reason: "Error", exitCode, finishedAt: before(1) }, logs, logSource: "Previous", ...more,
  };
}

const cartLog = `INFO  cache warm, 184203 products
INFO  connecting to postgres://cart:[REDACTED]@db.shop/cart
WARN  heap at 498 MiB of 512 MiB
WARN  heap at 511 MiB of 512 MiB
`;
const checkoutLog = `Traceback (most recent call last):
  File "/app/main.py", line 14, in <module>
    payments = connect(os.environ["PAYMENTS_URL"])
KeyError: 'PAYMENTS_URL'
`;

const revision = {
  name: "checkout-7f9b4d6c58", healthyBefore: 5,
  changes: ["image registry.example/checkout:4.1 → 4.2", "environment variable PAYMENTS_URL removed"],
};
const checkout = ["4kq8n", "d2rtx", "zw6hm"].map((id) =>
  pod("shop", "Deployment", "checkout", `checkout-7f9b4d6c58-${id}`, "CrashLoopBackOff",
    "container app exited with code 1, 1 s after its start, 5 restarts", {
      containerIssues: [container("app", 1, checkoutLog, { restarts: 5 })],
    }));

function ended(namespace, kind, name, reason, cause, message, more) {
  return {
    key: "fedcba9876543210", kind: "Crash", namespace, owner: { kind, name }, reason, cause, message, pods: 2,
    began: before(300), ended: before(200), ...more,
  };
}

const onLostNode = [["bank", "ledger"], ["ml", "features"], ["shop", "search"]];

export const normal = object({
  problematicPodCount: 14,
  healthy: {
    message: "14 of 328 pods: 9 NotReady (bank/ledger, ml/features, shop/search), 3 CrashLoopBackOff (shop/checkout), "
      + "1 OOMKilled (shop/cart), 1 Unschedulable (ml/train-gpu)",
  },
  historySince: before(600),
  omittedHistory: 2,
  history: [
    ended("shop", "StatefulSet", "mailer", "Error", "ExitCode", "app exited with code 1"),
    ended("ml", "Job", "train-gpu", "ImagePullBackOff", "Unknown", "", { began: before(550), lastSeen: before(500), ended: before(400) }),
  ],
  unwatched: [
    { from: before(120), until: before(90), reason: "Paused" },
    { from: before(500), until: before(400), reason: "NotRunning" },
  ],
  commonCauses: [{
    kind: "Node", name: "node-4", owners: 3, pods: 9, since: before(8),
    message: "node-4 does not report: 9 of its 10 pods, of 3 owners, are not ready",
  }],
  incidents: [
    incident("shop", "Deployment", "cart", "OOMKilled", "OutOfMemory",
      "app was OOM-killed 20 s after its start, 7 restarts; limit 512Mi", 1, { container: "app", of: 2 }),
    incident("shop", "Deployment", "checkout", "CrashLoopBackOff", "ExitCode",
      "app exited with code 1, 1 s after its start; 5 restarts", 3, { container: "app", revision, of: 8, since: before(4) }),
    incident("ml", "Job", "train-gpu", "Unschedulable", "InsufficientResources",
      "none of 12 nodes has enough free nvidia.com/gpu: 12 Insufficient nvidia.com/gpu", 1, { kind: "Unschedulable" }),
    ...onLostNode.map(([namespace, name]) =>
      incident(namespace, "Deployment", name, "NotReady", "NodeNotReady", "node node-4 has stopped reporting", 3,
        { kind: "NotReady", since: before(8) })),
  ],
  problematicPods: [
    ...checkout,
    pod("shop", "Deployment", "cart", "cart-5d9f7c6b84-x2x7k", "OOMKilled",
      "container app was OOM-killed (exit 137), 7 restarts, limit 512Mi", {
        evidence: ["Unhealthy ×41, last 11:58:10Z: Readiness probe failed: HTTP probe failed with statuscode: 503"],
        containerIssues: [container("app", 137, cartLog, { lastTermination: { reason: "OOMKilled", exitCode: 137, finishedAt: before(1) } })],
      }),
    pod("ml", "Job", "train-gpu", "train-gpu-hx2lp", "Unschedulable", "12 Insufficient nvidia.com/gpu", {
      status: "Pending", kind: "Unschedulable", node: "",
    }),
    ...onLostNode.flatMap(([namespace, name]) => ["4f2kd", "9xw7c", "tq5zn"].map((id) =>
      pod(namespace, "Deployment", name, `${name}-6c8f9d7b54-${id}`, "NotReady", "node node-4 has stopped reporting", {
        status: "Running", kind: "NotReady", node: "node-4", since: before(8),
      }))),
  ],
});

/** Whatever could end an element, an attribute, a comment, a style sheet or a log, or load or run something. */
export const attack = `</samp></code></pre></bdi></title></style></details></main><script>alert(1)</script>`
  + `<img src=https://evil.example/x onerror=alert(2)><svg onload=alert(3)><a href="javascript:alert(4)">click</a>`
  + `"'\` onmouseover=alert(5) <!-- --> ]]> &lt;b&gt; &#60; <link rel=stylesheet href=//evil.example/x.css>`
  + `<meta http-equiv=refresh content="0;url=https://evil.example"><iframe src=//evil.example><base href=//evil.example>`
  + `<style>@import url(//evil.example)</style> \u202Eesrever\u202C \u0000\u001b[31m\u0085\u2028 {{7*7}} \${7*7} \ud83d\udca5`;

export const hostile = object({
  problematicPodCount: 2,
  healthy: { message: attack },
  historySince: before(600),
  history: [ended(attack, attack, attack, attack, attack, attack, { container: attack })],
  unwatched: [{ from: before(120), until: before(90), reason: attack }],
  commonCauses: [{ kind: attack, name: attack, owners: 3, pods: 2, since: before(8), message: attack }],
  incidents: [incident(attack, attack, attack, attack, attack, attack, 2, {
    key: attack, container: attack, revision: { name: attack, healthyBefore: 1, changes: [attack] },
    controllers: [{ kind: attack, name: attack }], examplePods: [attack],
  })],
  problematicPods: ["a", "b"].map((name) => pod(attack, attack, attack, attack + name, attack, attack, {
    status: attack, phase: attack, node: attack, evidence: [attack],
    containerIssues: [
      container(attack, 1, `\n${attack}\n\tsecond line ${attack}\n`, {
        reason: attack, message: attack, logNote: attack,
        lastTermination: { reason: attack, exitCode: 1, message: attack },
      }),
      container("other", 1, "", { logSource: "Unavailable", logNote: attack }),
    ],
  })),
});

const line = (n) => `2026-03-01T11:59:${String(n % 60).padStart(2, "0")}Z ERROR request <${n}> to "db" failed & was retried\n`;
const owners = Array.from({ length: 50 }, (_, n) => `service-${n}`);
const message = "app exited with code 1, 12 s after its start; 7 restarts";

export const large = object({
  problematicPodCount: 500,
  watchedPods: 5000,
  healthy: { message: "500 of 5000 pods: 500 CrashLoopBackOff (shop/service-0, shop/service-1, shop/service-2)" },
  incidents: owners.map((owner) =>
    incident("shop", "Deployment", owner, "CrashLoopBackOff", "ExitCode", message, 10, { container: "app" })),
  problematicPods: owners.flatMap((owner) => Array.from({ length: 10 }, (_, n) =>
    pod("shop", "Deployment", owner, `${owner}-5d9f7c6b84-${n}`, "CrashLoopBackOff", `container ${message}`, {
      evidence: ["BackOff ×41, last 11:58:10Z: Back-off restarting failed container app"],
      containerIssues: [container("app", 1, Array.from({ length: 60 }, (_, n) => line(n)).join(""))],
    }))),
});

export const empty = object({ healthy: { message: "all 328 pods are healthy" } });

export const unknown = object({
  lastCheckTime: undefined,
  watchedPods: 0,
  healthy: { status: "Unknown", reason: "PodAccessDenied", message: "the operator may not list pods" },
});
