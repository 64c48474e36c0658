//! HTTP/1.1 on one connection, by hand, so that every byte and every pause can be what a script wants. It knows nothing
//! of Kubernetes, and can't tell the truth from a lie.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Bytes of a request's head, and of what a client sends ahead.
const HEAD_LIMIT: usize = 64 * 1024;
/// Bytes of a request's body.
const BODY_LIMIT: usize = 8 * 1024 * 1024;
/// Room for one read.
const READ: usize = 4 * 1024;

/// One request, read to its end.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

/// Status line and headers.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
}

impl Head {
    pub(super) fn new(status: u16, content_type: &str) -> Self {
        Self {
            status,
            headers: vec![("Content-Type".to_owned(), content_type.to_owned())],
        }
    }

    /// Sets a header, in the place of one of that name.
    pub(super) fn set(&mut self, name: &str, value: &str) {
        self.headers
            .retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value.to_owned()));
    }

    fn has(&self, name: &HeaderName) -> bool {
        let mut names = self.headers.iter().map(|(name, _)| name);
        names.any(|known| known.eq_ignore_ascii_case(name.as_str()))
    }
}

/// What comes after the head.
pub(super) enum Body {
    /// These bytes.
    Whole(Bytes),
    /// These, as they come; maybe for ever.
    Stream(BoxStream<'static, Bytes>),
}

/// How a connection goes on after a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    /// With the next request.
    Next,
    /// It ends in good order.
    Close,
    /// It ends without TLS's word that this is the end.
    Cut,
    /// It is reset.
    Reset,
}

/// How a reply is sent.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Manner {
    /// A pause after each byte of the head.
    pub(super) slow_head: Option<Duration>,
    /// A pause after each byte of the body.
    pub(super) slow_body: Option<Duration>,
    /// The body in chunks of one byte, many of them at once.
    pub(super) crumbs: bool,
    /// So many bytes of the body, then this.
    pub(super) cut: Option<(u64, After)>,
}

/// A reply.
pub(super) struct Reply {
    /// `None`: the body is all that is sent, HTTP or not.
    pub(super) head: Option<Head>,
    pub(super) body: Body,
    pub(super) manner: Manner,
}

impl Reply {
    pub(super) fn new(head: Head, body: Body) -> Self {
        Self {
            head: Some(head),
            body,
            manner: Manner::default(),
        }
    }

    /// Without any head.
    pub(super) fn bare(body: Body) -> Self {
        Self {
            head: None,
            body,
            manner: Manner::default(),
        }
    }
}

/// How the end of a body is told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Framing {
    /// By its length, which the head has, or by the end of the connection.
    Plain,
    /// By pieces.
    Chunked,
}

/// One client's connection, as far as it has been read.
pub(super) struct Line<S> {
    stream: S,
    /// What has been read and not used.
    buffer: Vec<u8>,
    /// Bytes that went to clients.
    sent: Arc<AtomicU64>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Line<S> {
    pub(super) fn new(stream: S, sent: Arc<AtomicU64>) -> Self {
        Self {
            stream,
            buffer: Vec::new(),
            sent,
        }
    }

    /// The next request; `None` if the client has gone.
    pub(super) async fn request(&mut self) -> io::Result<Option<Request>> {
        let end = loop {
            if let Some(at) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            if self.buffer.len() > HEAD_LIMIT {
                return Err(unreadable("its head is too long"));
            }
            if self.read().await? == 0 {
                return Ok(None);
            }
        };
        let head: Vec<u8> = self.buffer.drain(..end).collect();
        let (method, uri, headers) = parse(&head).ok_or_else(|| unreadable("its head is odd"))?;
        if headers.contains_key(TRANSFER_ENCODING) {
            return Err(unreadable("its length isn't told"));
        }
        let length = match headers.get(CONTENT_LENGTH).map(HeaderValue::to_str) {
            None => 0,
            Some(text) => text
                .ok()
                .and_then(|text| text.parse().ok())
                .filter(|length| *length <= BODY_LIMIT)
                .ok_or_else(|| unreadable("its length is odd"))?,
        };
        while self.buffer.len() < length {
            if self.read().await? == 0 {
                return Ok(None);
            }
        }
        Ok(Some(Request {
            method,
            uri,
            headers,
            body: self.buffer.drain(..length).collect(),
        }))
    }

    /// Sends a reply, for as long as the client stays; how the connection is to go on.
    pub(super) async fn send(&mut self, reply: Reply) -> io::Result<After> {
        let Reply { head, body, manner } = reply;
        let mut framing = Framing::Plain;
        let mut after = After::Close;
        if let Some(mut head) = head {
            let told = head.has(&CONTENT_LENGTH) || head.has(&TRANSFER_ENCODING);
            if !told {
                after = After::Next;
                match &body {
                    Body::Whole(bytes) if !manner.crumbs => {
                        head.set("Content-Length", &bytes.len().to_string());
                    }
                    _ => {
                        head.set("Transfer-Encoding", "chunked");
                        framing = Framing::Chunked;
                    }
                }
            }
            self.write(&text(&head), manner.slow_head).await?;
        }
        let mut body = match body {
            Body::Whole(bytes) => stream::iter([bytes]).boxed(),
            Body::Stream(stream) => stream,
        };
        let mut left = manner.cut.map_or(u64::MAX, |(bytes, _)| bytes);
        while left > 0
            && let Some(mut piece) = self.or_gone(body.next()).await?
        {
            piece.truncate(usize::try_from(left).unwrap_or(usize::MAX));
            left = left.saturating_sub(piece.len() as u64);
            if manner.crumbs && framing == Framing::Chunked {
                self.write(&crumbs(&piece), None).await?;
            } else {
                self.piece(&piece, framing, manner.slow_body).await?;
            }
        }
        if let Some((_, how)) = manner.cut {
            return Ok(how);
        }
        if framing == Framing::Chunked {
            self.write(b"0\r\n\r\n", manner.slow_body).await?;
        }
        Ok(after)
    }

    /// Says in good order that this is the end.
    pub(super) async fn close(&mut self) -> io::Result<()> {
        self.stream.shutdown().await
    }

    /// The connection itself.
    pub(super) fn into_inner(self) -> S {
        self.stream
    }

    async fn piece(
        &mut self,
        piece: &[u8],
        framing: Framing,
        slow: Option<Duration>,
    ) -> io::Result<()> {
        if framing == Framing::Plain {
            return self.write(piece, slow).await;
        }
        let most = if slow.is_some() { 1 } else { usize::MAX };
        for part in piece.chunks(most) {
            let mut framed = format!("{:x}\r\n", part.len()).into_bytes();
            framed.extend_from_slice(part);
            framed.extend_from_slice(b"\r\n");
            self.write(&framed, None).await?;
            if let Some(pause) = slow {
                self.or_gone(tokio::time::sleep(pause)).await?;
            }
        }
        Ok(())
    }

    async fn write(&mut self, bytes: &[u8], slow: Option<Duration>) -> io::Result<()> {
        let most = if slow.is_some() { 1 } else { usize::MAX };
        for part in bytes.chunks(most) {
            self.stream.write_all(part).await?;
            self.stream.flush().await?;
            self.sent.fetch_add(part.len() as u64, Ordering::Relaxed);
            if let Some(pause) = slow {
                self.or_gone(tokio::time::sleep(pause)).await?;
            }
        }
        Ok(())
    }

    async fn read(&mut self) -> io::Result<usize> {
        self.buffer.reserve(READ);
        self.stream.read_buf(&mut self.buffer).await
    }

    /// What `waiting` gives, unless the client goes before.
    async fn or_gone<T>(&mut self, waiting: impl Future<Output = T>) -> io::Result<T> {
        tokio::pin!(waiting);
        loop {
            tokio::select! {
                biased;
                done = &mut waiting => return Ok(done),
                // What it sends meanwhile is its next request.
                read = self.read() => {
                    if read? == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    if self.buffer.len() > HEAD_LIMIT + BODY_LIMIT {
                        return Err(unreadable("it doesn't wait for its turn"));
                    }
                }
            }
        }
    }
}

/// Each byte as a chunk of its own.
fn crumbs(piece: &[u8]) -> Vec<u8> {
    piece
        .iter()
        .flat_map(|byte| [b'1', b'\r', b'\n', *byte, b'\r', b'\n'])
        .collect()
}

fn unreadable(why: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("a request can't be read: {why}"),
    )
}

fn parse(head: &[u8]) -> Option<(Method, Uri, HeaderMap)> {
    let text = std::str::from_utf8(head).ok()?;
    let mut lines = text.split("\r\n").filter(|line| !line.is_empty());
    let mut words = lines.next()?.split(' ');
    let method = words.next()?.parse().ok()?;
    let uri = words.next()?.parse().ok()?;
    let mut headers = HeaderMap::new();
    for line in lines {
        let (name, value) = line.split_once(':')?;
        let name: HeaderName = name.parse().ok()?;
        headers.append(name, HeaderValue::from_str(value.trim()).ok()?);
    }
    Some((method, uri, headers))
}

fn text(head: &Head) -> Vec<u8> {
    let reason = http::StatusCode::from_u16(head.status)
        .ok()
        .and_then(|status| status.canonical_reason())
        .unwrap_or_default();
    let mut text = format!("HTTP/1.1 {} {reason}\r\n", head.status);
    for (name, value) in &head.headers {
        text.push_str(name);
        text.push_str(": ");
        text.push_str(value);
        text.push_str("\r\n");
    }
    text.push_str("\r\n");
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use tokio::io::{DuplexStream, duplex};
    use tokio::time::Instant;

    use super::*;

    fn pair() -> (DuplexStream, Line<DuplexStream>) {
        let (client, server) = duplex(1 << 20);
        (client, Line::new(server, Arc::default()))
    }

    fn ok(body: Body) -> Reply {
        Reply::new(Head::new(200, "text/plain"), body)
    }

    fn pieces(pieces: &[&'static str]) -> Body {
        let pieces: Vec<Bytes> = pieces
            .iter()
            .map(|piece| Bytes::from_static(piece.as_bytes()))
            .collect();
        Body::Stream(stream::iter(pieces).boxed())
    }

    /// All that is sent until the server's end of the line is dropped.
    async fn sent(reply: Reply) -> (String, io::Result<After>) {
        let (mut client, mut line) = pair();
        let after = line.send(reply).await;
        drop(line);
        let mut text = String::new();
        client.read_to_string(&mut text).await.unwrap();
        (text, after)
    }

    #[tokio::test]
    async fn requests_are_read_one_after_the_other() {
        let (mut client, mut line) = pair();
        let first = b"POST /a?b=c HTTP/1.1\r\nHost: x\r\ncontent-length: 3\r\n\r\nabc";
        client.write_all(first).await.unwrap();
        client.write_all(b"GET /d HTTP/1.1\r\n\r\n").await.unwrap();
        let request = line.request().await.unwrap().unwrap();
        assert_eq!((request.method, request.uri.path()), (Method::POST, "/a"));
        assert_eq!(
            (request.uri.query(), &*request.body),
            (Some("b=c"), &b"abc"[..])
        );
        assert_eq!(request.headers["host"], "x");
        assert_eq!(line.request().await.unwrap().unwrap().uri.path(), "/d");
        client.write_all(b"nonsense\r\n\r\n").await.unwrap();
        assert!(line.request().await.is_err());
        drop(client);
        assert!(line.request().await.unwrap().is_none());
    }

    #[tokio::test]
    async fn bodies_are_framed_by_what_is_known_of_their_length() {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n";
        let whole = ok(Body::Whole(Bytes::from_static(b"whole")));
        let mut told = ok(pieces(&["ab"]));
        told.head.as_mut().unwrap().set("Content-Length", "9");
        let raw = Reply::bare(pieces(&["\x00", "raw"]));
        let mut crumbs = ok(Body::Whole(Bytes::from_static(b"ab")));
        crumbs.manner.crumbs = true;
        for (reply, want, after) in [
            (
                whole,
                format!("{head}Content-Length: 5\r\n\r\nwhole"),
                After::Next,
            ),
            (
                ok(pieces(&["ab", "c"])),
                format!("{head}Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"),
                After::Next,
            ),
            (
                told,
                format!("{head}Content-Length: 9\r\n\r\nab"),
                After::Close,
            ),
            (raw, "\x00raw".to_owned(), After::Close),
            (
                crumbs,
                format!("{head}Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n0\r\n\r\n"),
                After::Next,
            ),
        ] {
            let (text, how) = sent(reply).await;
            assert_eq!((text, how.unwrap()), (want, after));
        }
    }

    #[tokio::test]
    async fn a_cut_comes_after_so_many_bytes_of_the_body() {
        for (body, want) in [
            (Body::Whole(Bytes::from_static(b"abcdef")), "\r\n\r\nabcd"),
            (pieces(&["abc", "def"]), "3\r\nabc\r\n1\r\nd\r\n"),
        ] {
            let mut reply = ok(body);
            reply.manner.cut = Some((4, After::Reset));
            let (text, how) = sent(reply).await;
            assert!(text.ends_with(want), "{text}");
            assert_eq!(how.unwrap(), After::Reset);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn slow_bytes_come_one_by_one() {
        let second = Some(Duration::from_secs(1));
        let begin = Instant::now();
        let mut reply = ok(pieces(&["abc", "de"]));
        reply.manner.slow_body = second;
        let (text, _) = sent(reply).await;
        assert!(text.contains("1\r\na\r\n1\r\nb\r\n"), "{text}");
        // Five bytes, and the five of the end.
        assert_eq!(begin.elapsed().as_secs(), 10);
        let begin = Instant::now();
        let mut reply = ok(Body::Whole(Bytes::from_static(b"abc")));
        reply.manner.slow_head = second;
        let (text, _) = sent(reply).await;
        let head = text.find("\r\n\r\n").unwrap() + 4;
        assert_eq!(begin.elapsed().as_secs(), head as u64);
    }

    #[tokio::test]
    async fn who_goes_is_noticed_in_silence() {
        let (client, mut line) = pair();
        let silence = Reply::bare(Body::Stream(stream::pending().boxed()));
        let (ended, ()) = tokio::join!(line.send(silence), async move { drop(client) });
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
