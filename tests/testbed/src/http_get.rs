//! Requests to programs on loopback.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::error::{Doing, Error, Result};

/// The limit for an answer.
const ANSWER: Duration = Duration::from_secs(10);

/// The body of a response with status 200. `headers` are complete lines.
pub(crate) async fn get(program: &str, port: u16, path: &str, headers: &str) -> Result<String> {
    let late = |_| Error::Timeout {
        what: format!("{program}'s answer for {path}"),
        after: ANSWER,
        last: "there was none".to_owned(),
    };
    tokio::time::timeout(ANSWER, ask(program, port, path, headers)).await.map_err(late)?
}

async fn ask(program: &str, port: u16, path: &str, headers: &str) -> Result<String> {
    let doing = || format!("ask {program} for {path}");
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.doing(doing)?;
    // HTTP/1.0, so that the body is not chunked.
    let request = format!("GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.doing(doing)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.doing(doing)?;
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) if head.contains(" 200 ") => Ok(body.to_owned()),
        _ => Err(std::io::Error::other(answer.lines().next().unwrap_or_default().to_owned())).doing(doing),
    }
}
