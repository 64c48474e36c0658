//! Many streams at once, and much through one. What comes is read and counted, never kept.

use std::io;
use std::time::Duration;

use futures::future::try_join_all;
use futures::io::AsyncReadExt as _;
use pilotage_testkit::LIMIT;
use pilotage_testkit::streams::{Piece, chunk, upgraded};
use tokio::io::AsyncReadExt as _;
use tokio::sync::Barrier;
use tokio::time::timeout;

use super::{Error, Stage};

/// A line of a log, and what a shell says.
const LINE: &[u8] = b"2026-01-01T00:00:00.000000000Z something has happened once more, and nobody knows why that is \
    so\n";
/// Between two lines of one stream.
const PERIOD: Duration = Duration::from_millis(100);
/// Lines of each stream that are waited for, once all are open.
const LINES: usize = 20;
/// Lines in one chunk of a log.
const IN_CHUNK: u64 = 300;
/// Room for one read.
const READ: usize = 64 << 10;

/// Opens so many streams of the stage's pod by the source's API server, one half logs that are followed, the other one
/// upgraded connections, and reads some lines of each while all are open. Bytes that came.
pub async fn at_once(stage: &Stage, count: usize) -> Result<u64, Error> {
    let log = vec![Piece::body(), Piece::Every(PERIOD, chunk(LINE))];
    let talk = Piece::Every(PERIOD, LINE.into());
    stage.server.play(move |asked| {
        let shell = || vec![Piece::switching(&asked.protocol), talk.clone()];
        Some(if asked.action == "log" {
            log.clone()
        } else {
            shell()
        })
    });
    let (client, all) = (stage.client(), Barrier::new(count));
    let attach = stage.path("attach?stdout=true");
    let streams = (0..count).map(|number| {
        let (client, all, attach) = (client.clone(), &all, &attach);
        async move {
            if number % 2 == 0 {
                let logs = stage.logs("follow=true").await;
                let mut logs = logs.map_err(Error::request("follow logs"))?;
                read_some(all, async |line| logs.read_exact(line).await).await
            } else {
                let mut shell = upgraded(&client, attach).await?;
                read_some(all, async |line| shell.read_exact(line).await.map(drop)).await
            }
        }
    });
    let read = timeout(LIMIT, try_join_all(streams)).await;
    let read = read.map_err(|_| Error::Slow("not all streams have said something"))??;
    stage.playing(0).await?;
    Ok(read.iter().sum())
}

async fn read_some(
    all: &Barrier,
    mut read: impl AsyncFnMut(&mut [u8]) -> io::Result<()>,
) -> Result<u64, Error> {
    let mut line = vec![0; LINE.len()];
    read(&mut line).await?;
    all.wait().await;
    for _ in 0..LINES {
        read(&mut line).await?;
    }
    // Nobody goes before all have read theirs.
    all.wait().await;
    Ok(LINE.len() as u64 * (LINES as u64 + 1))
}

/// Reads a log of at least so many bytes by the source's API server, as fast as it comes, to its end. Bytes that came.
pub async fn one_log(stage: &Stage, bytes: u64) -> Result<u64, Error> {
    let lines = LINE.repeat(IN_CHUNK as usize);
    let times = bytes.div_ceil(lines.len() as u64);
    let sent = times * lines.len() as u64;
    stage.play(vec![
        Piece::body(),
        Piece::Times(times, chunk(&lines)),
        Piece::end(),
    ]);
    let logs = stage.logs("follow=true").await;
    let mut logs = logs.map_err(Error::request("read logs"))?;
    let (mut room, mut read) = (vec![0; READ], 0);
    loop {
        let count = timeout(LIMIT, logs.read(&mut room)).await;
        let count = count.map_err(|_| Error::Slow("no more of a log comes"))??;
        if count == 0 {
            break;
        }
        read += count as u64;
    }
    if read != sent {
        return Err(Error::Short { read, sent });
    }
    stage.playing(0).await?;
    Ok(read)
}
