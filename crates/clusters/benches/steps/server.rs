//! A target's API server, on threads of its own: it answers each question with what it is given.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// It listens as long as the program runs.
pub(crate) struct Server {
    addr: SocketAddr,
}

struct Words {
    page: Vec<u8>,
    whole: Vec<u8>,
    object: Vec<u8>,
    events: Vec<u8>,
}

impl Server {
    /// It lists this page by page, or as a whole, shows this object, and tells of these events.
    pub(crate) fn start(page: Vec<u8>, whole: Vec<u8>, object: Vec<u8>, events: Vec<u8>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let addr = listener.local_addr().expect("an address");
        let words = Arc::new(Words {
            page,
            whole,
            object,
            events,
        });
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let words = words.clone();
                // Whoever goes away is no affair of ours.
                thread::spawn(move || words.serve(&stream));
            }
        });
        Self { addr }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.addr)
    }
}

impl Words {
    fn serve(&self, stream: &TcpStream) -> Option<()> {
        let mut lines = BufReader::new(stream).lines();
        loop {
            let question = lines.next()?.ok()?;
            while !lines.next()?.ok()?.is_empty() {}
            let path = question.split(' ').nth(1)?;
            if path.contains("watch=") {
                return self.tell(stream, lines);
            }
            let plural = path.split('?').next()?.rsplit('/').next()?;
            match plural {
                "readyz" => answer(stream, "200 OK", b"ok")?,
                "pods" if path.contains("limit=") => answer(stream, "200 OK", &self.page)?,
                "pods" => answer(stream, "200 OK", &self.whole)?,
                "web" => answer(stream, "200 OK", &self.object)?,
                _ => answer(stream, "404 Not Found", b"{}")?,
            }
        }
    }

    /// Tells of all events; the watch goes on until its reader goes away.
    fn tell(&self, mut stream: &TcpStream, mut lines: impl Iterator) -> Option<()> {
        let head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n";
        stream.write_all(head).ok()?;
        stream.write_all(&self.events).ok()?;
        while lines.next().is_some() {}
        None
    }
}

fn answer(mut stream: &TcpStream, status: &str, body: &[u8]) -> Option<()> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(body).ok()
}
