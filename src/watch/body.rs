//! Reads the body of a response within a bound. kube reads all of it, however long it is.

use std::pin::pin;

use futures::AsyncReadExt;
use http::Request;
use kube::Client;

/// Sends a request and reads the body of its answer. None if it has more than `limit` bytes.
pub(crate) async fn read_body(
    client: &Client,
    request: Request<Vec<u8>>,
    limit: usize,
) -> kube::Result<Option<Vec<u8>>> {
    let mut body = pin!(client.request_stream(request).await?.take(limit as u64 + 1));
    let mut bytes = Vec::new();
    body.read_to_end(&mut bytes).await.map_err(kube::Error::ReadEvents)?;
    Ok((bytes.len() <= limit).then_some(bytes))
}
