//! Writes to etcd directly: many objects quickly, and objects that the API server would reject.

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::json;
use tokio::{net::TcpStream, sync::Mutex};

use crate::{
    control_plane::ControlPlane,
    error::{Doing, Error, Result},
};

/// Objects per transaction. 100 objects of 4 KB are well within `--max-txn-ops` and `--max-request-bytes`, see
/// `programs.rs`.
const BATCH: usize = 100;

/// Concurrent requests. etcd applies them one after another, and decodes the others in the meantime.
const CONNECTIONS: usize = 8;

impl ControlPlane {
    /// Writes objects while the API server is running, each under its key in etcd, such as
    /// `/registry/pods/NAMESPACE/NAME`, and returns their number. They appear in lists and watches as usual, each with
    /// its own `resourceVersion`.
    ///
    /// The API server decodes JSON from etcd as well as protobuf, and does not validate it. The objects must contain
    /// `metadata.uid` and `creationTimestamp`, and must not contain a `resourceVersion`.
    /// Fails if etcd rejects an object. Other objects may have been written.
    pub async fn load<V: AsRef<[u8]>>(&self, objects: impl IntoIterator<Item = (String, V)>) -> Result<u64> {
        self.write(objects, 1).await
    }

    /// Writes objects like [`Self::load`], but about four times as fast: it stops the API server, writes the objects in
    /// transactions, and starts the API server again. On two cores, 50,000 pods of 4 KB take about 8 s, and the start
    /// 10 s.
    ///
    /// The objects of one transaction share a `resourceVersion`. A running API server would consider that version
    /// complete after the first of them, so that clients that list or start a watch at that moment would never receive
    /// the others.
    pub async fn load_at_rest<V: AsRef<[u8]>>(&self, objects: impl IntoIterator<Item = (String, V)>) -> Result<u64> {
        self.kill_api_server().await?;
        let loaded = self.write(objects, BATCH).await;
        self.start_api_server().await?;
        loaded
    }

    async fn write<V: AsRef<[u8]>>(&self, objects: impl IntoIterator<Item = (String, V)>, batch: usize) -> Result<u64> {
        let mut connections = Vec::with_capacity(CONNECTIONS);
        for _ in 0..CONNECTIONS {
            connections.push(Mutex::new(self.etcd().await?));
        }
        let connections = &connections;
        let mut objects = objects.into_iter();
        let transactions = std::iter::from_fn(|| transaction(&mut objects, batch));
        stream::iter(transactions.enumerate())
            .map(|(index, (body, count))| async move {
                let mut connection = connections[index % CONNECTIONS].lock().await;
                connection.post("/v3/kv/txn", body).await?;
                Ok(count)
            })
            .buffer_unordered(CONNECTIONS)
            .try_fold(0, async |sum, count| Ok(sum + count))
            .await
    }

    /// Writes one value under a key in etcd.
    pub async fn put(&self, key: &str, value: impl AsRef<[u8]>) -> Result<()> {
        self.load([(key.to_owned(), value)]).await.map(drop)
    }

    /// Deletes all keys that begin with `prefix`, and returns their number.
    pub async fn delete_prefix(&self, prefix: &str) -> Result<u64> {
        // The end of a range is exclusive. Incrementing the last byte of the prefix cannot overflow, because keys are
        // ASCII.
        let mut end = prefix.as_bytes().to_vec();
        let Some(last) = end.last_mut() else {
            return Err(Error::Etcd("an empty prefix would delete everything".to_owned()));
        };
        *last = last.saturating_add(1);
        let body = json!({"key": encode(prefix), "range_end": encode(end)});
        let deleted = self.ask("/v3/kv/deleterange", &body).await?.deleted;
        Ok(deleted.parse().unwrap_or(0))
    }

    /// Compacts etcd's history up to its current revision, and returns that revision.
    ///
    /// The API server still serves older versions from its watch cache. To make it answer `410 Gone` to a *watch* from
    /// an older `resourceVersion`, restart it ([`Self::restart_api_server`]), which empties the cache.
    pub async fn compact_etcd(&self) -> Result<u64> {
        let nothing = json!({"key": encode("/"), "count_only": true});
        let revision = self.ask("/v3/kv/range", &nothing).await?.header.revision;
        let body = json!({"revision": revision, "physical": true});
        self.ask("/v3/kv/compaction", &body).await?;
        Ok(revision.parse().unwrap_or(0))
    }

    /// A connection for many single writes, one after the other.
    pub async fn writer(&self) -> Result<Writer> {
        Ok(Writer(self.etcd().await?))
    }

    async fn ask(&self, path: &str, body: &serde_json::Value) -> Result<Answer> {
        self.etcd().await?.post(path, body.to_string()).await
    }

    async fn etcd(&self) -> Result<Connection> {
        let doing = || "connect to etcd".to_owned();
        let stream = TcpStream::connect(("127.0.0.1", self.etcd_port)).await.doing(doing)?;
        let (sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| Error::Etcd(error.to_string()))?;
        // The requests return its errors as well.
        tokio::spawn(connection);
        Ok(Connection(sender))
    }
}

/// A connection for many writes. [`ControlPlane::put`] opens new connections for each write.
pub struct Writer(Connection);

impl Writer {
    /// Writes one value under a key in etcd.
    pub async fn put(&mut self, key: &str, value: impl AsRef<[u8]>) -> Result<()> {
        let Some((body, _)) = transaction(&mut std::iter::once((key.to_owned(), value)), 1) else { return Ok(()) };
        self.0.post("/v3/kv/txn", body).await.map(drop)
    }
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    BASE64_STANDARD.encode(bytes)
}

/// The next transaction and its number of objects.
fn transaction<V: AsRef<[u8]>>(objects: &mut impl Iterator<Item = (String, V)>, batch: usize) -> Option<(String, u64)> {
    let mut body = r#"{"success":["#.to_owned();
    let mut count = 0;
    for (key, value) in objects.take(batch) {
        if count > 0 {
            body.push(',');
        }
        body.push_str(r#"{"requestPut":{"key":""#);
        BASE64_STANDARD.encode_string(key, &mut body);
        body.push_str(r#"","value":""#);
        BASE64_STANDARD.encode_string(value, &mut body);
        body.push_str(r#""}}"#);
        count += 1;
    }
    body.push_str("]}");
    (count > 0).then_some((body, count))
}

/// The fields of etcd's responses that are used. 64-bit numbers are strings.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Answer {
    header: Header,
    deleted: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Header {
    revision: String,
}

/// A connection to etcd's JSON gateway.
struct Connection(SendRequest<Full<Bytes>>);

impl Connection {
    async fn post(&mut self, path: &str, body: String) -> Result<Answer> {
        let refused = |error: hyper::Error| Error::Etcd(error.to_string());
        let request = http::Request::post(path)
            .header(http::header::HOST, "etcd")
            .body(Full::from(body))
            .map_err(|error| Error::Etcd(error.to_string()))?;
        self.0.ready().await.map_err(refused)?;
        let response = self.0.send_request(request).await.map_err(refused)?;
        let status = response.status();
        let body = response.into_body().collect().await.map_err(refused)?.to_bytes();
        if !status.is_success() {
            let text = String::from_utf8_lossy(&body);
            return Err(Error::Etcd(format!("{status}: {text}")));
        }
        Ok(serde_json::from_slice(&body)?)
    }
}
