//! What takes long to read and is short, or is never told to anybody, counts too.

use super::*;

const CHUNKED: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

fn bytes(text: impl Into<Vec<u8>>) -> Piece {
    Piece::Bytes(text.into())
}

/// A body in chunks of so many bytes.
fn chunked(text: &str, size: usize) -> Answer {
    let mut body = CHUNKED.to_owned();
    for chunk in text.as_bytes().chunks(size) {
        let chunk = std::str::from_utf8(chunk).unwrap();
        body.extend([&*format!("{:x}", chunk.len()), "\r\n", chunk, "\r\n"]);
    }
    vec![bytes(body + "0\r\n\r\n")]
}

/// How long a server isn't asked again that has nothing left, for what it has answered to this.
async fn cost<T>(
    answer: Answer,
    ask: impl AsyncFn(&Client) -> Result<T, kube::Error>,
) -> (u128, Result<T, kube::Error>) {
    let server = Server::start(move |_| answer.clone()).await;
    let budget = spent(0);
    let client = server.client_of(&budget);
    let began = Instant::now();
    let answered = ask(&client).await;
    let now = Instant::now();
    let left = budget.pause(now).unwrap_or_default() + now.duration_since(began);
    (left.as_millis(), answered)
}

#[tokio::test(start_paused = true)]
async fn one_byte_chunks() {
    // 8192 of them, which are read as fast as 2 MiB.
    let words = |least: usize| "x".repeat(8192 - least);
    let mut object = map();
    let least = object.to_string().len() + r#","data":{"a":""}"#.len();
    object["data"] = json!({ "a": words(least) });
    let event = json!({ "type": "ADDED", "object": &object });
    for size in [1, 8192] {
        let want = if size == 1 { 120..150 } else { 0..20 };
        let (took, got) = cost(chunked(&object.to_string(), size), get).await;
        assert!(got.is_ok() && want.contains(&took), "object: {took}");
        let answer = chunked(&format!("{event}\n"), size);
        let (took, got) = cost(answer, watch).await;
        assert!(got.unwrap() == 1 && want.contains(&took), "event: {took}");
        let mut failing = chunked(&object.to_string(), size);
        if let Piece::Bytes(text) = &mut failing[0] {
            text.splice(9..12, *b"500");
        }
        let (took, got) = cost(failing, get).await;
        let failed = matches!(got, Err(kube::Error::Api(status)) if status.code == 500);
        assert!(failed && want.contains(&took), "failure: {took}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_nobody_is_told_of_counts() {
    let zeros = vec![
        bytes(CHUNKED),
        bytes("0".repeat(MIB)),
        bytes("2\r\n{}\r\n0\r\n\r\n"),
    ];
    let text = map().to_string();
    let spaces = vec![
        bytes(format!("{CHUNKED}{:x}", text.len())),
        bytes(" ".repeat(MIB)),
        bytes(format!("\r\n{text}\r\n0\r\n\r\n")),
    ];
    for answer in [zeros, spaces] {
        let (took, _) = cost(answer, get).await;
        assert!((62..90).contains(&took), "{took}");
    }
}

#[tokio::test]
async fn continue_without_end() {
    let answer = vec![Piece::Endless(CONTINUE.repeat(1000))];
    let server = Server::start(move |_| answer.clone()).await;
    let client = server.client();
    for result in [
        fault(list(&client).await),
        fault(get(&client).await),
        fault(watch(&client).await),
        fault(health(&client).await),
    ] {
        assert_eq!(result, Some(Fault::Strange(100)));
    }
    let sent = server.sent();
    assert!(sent < 64 * MIB, "{sent}");
    let deadline = Instant::now() + Duration::from_secs(10);
    while server.open() > 0 {
        assert!(Instant::now() < deadline, "a connection stays");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_few_words_before_an_answer_are_passed_over() {
    for (count, want) in [(8, None), (9, Some(Fault::Strange(100)))] {
        let mut answer = vec![bytes(CONTINUE.repeat(count))];
        answer.extend(good(&map()));
        let server = Server::start(move |_| answer.clone()).await;
        assert_eq!(fault(get(&server.client()).await), want, "{count}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_owes_far_too_much_still_says_how_it_is() {
    let server =
        Server::start(|_| vec![head("200 OK", "text/plain"), Piece::Bytes(b"ok".to_vec())]).await;
    let client = server.client_of(&spent(1000));
    let health = timeout(Duration::from_secs(3), health(&client)).await;
    assert_eq!(health.unwrap().unwrap(), "ok");
}
