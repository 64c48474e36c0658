//! Waiting until a process that was just started answers. It is the one place that polls: before a server listens
//! there is nothing to watch. Every wait is bounded and ends early when the process has ended.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use crate::access::Access;

/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(40);
/// A server that accepts and says nothing counts as not ready.
const ATTEMPT: Duration = Duration::from_secs(3);

/// How one learns that a process is ready.
#[derive(Debug, Clone)]
pub enum Probe {
    /// It answers 200 to a GET over plain HTTP.
    Http {
        /// Where it listens.
        address: SocketAddr,
        /// The path.
        path: &'static str,
    },
    /// It answers 200 to a GET over TLS.
    Https {
        /// How to reach it.
        access: Box<Access>,
        /// The path.
        path: &'static str,
    },
    /// Others see it by what it does.
    None,
}

/// Why the last attempt failed, when the time was over.
#[derive(Debug, thiserror::Error)]
#[error("not ready after {} s: {last}", .after.as_secs())]
pub struct NotReady {
    after: Duration,
    last: String,
}

impl Probe {
    /// Tries until it answers.
    pub async fn wait(&self, limit: Duration) -> Result<(), NotReady> {
        let deadline = Instant::now() + limit;
        loop {
            let last = match timeout(ATTEMPT, self.once()).await {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(reason)) => reason,
                Err(_) => "no answer".to_owned(),
            };
            if Instant::now() >= deadline {
                return Err(NotReady { after: limit, last });
            }
            sleep(PAUSE).await;
        }
    }

    /// Asks once.
    pub async fn once(&self) -> Result<(), String> {
        match self {
            Self::None => Ok(()),
            Self::Http { address, path } => match http_get(*address, path).await {
                Ok((200, _)) => Ok(()),
                Ok((status, body)) => Err(format!("{path} answers {status}: {}", body.trim())),
                Err(error) => Err(error.to_string()),
            },
            Self::Https { access, path } => {
                let client = access.client().map_err(|error| error.to_string())?;
                let request = http::Request::get(*path)
                    .body(Vec::new())
                    .map_err(|e| e.to_string())?;
                client
                    .request_text(request)
                    .await
                    .map(drop)
                    .map_err(|error| error.to_string())
            }
        }
    }
}

/// One GET over plain HTTP, for admin ports and etcd: status and body.
pub async fn http_get(address: SocketAddr, path: &str) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer);
    let status = answer
        .split_whitespace()
        .nth(1)
        .and_then(|status| status.parse().ok());
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    status
        .map(|status| (status, body.to_owned()))
        .ok_or_else(|| std::io::Error::other("that is no HTTP answer"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_closed_port_is_not_ready_and_says_why() {
        let port = crate::ports::Port::reserve().unwrap();
        let probe = Probe::Http {
            address: port.address(),
            path: "/readyz",
        };
        let error = probe.wait(Duration::from_millis(1)).await.unwrap_err();
        assert!(error.to_string().contains("refused"), "{error}");
    }
}
