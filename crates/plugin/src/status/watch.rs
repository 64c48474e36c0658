//! `status --watch`: each target again whenever something of it changes.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::ready;
use std::io::{ErrorKind, Write as _};
use std::pin::pin;
use std::time::Duration;

use futures::stream::{BoxStream, select_all};
use futures::{FutureExt, Stream, StreamExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Resource};
use kube_runtime::WatchStreamExt;
use kube_runtime::watcher::{Config, watcher};
use pilotage_api::{ClusterTarget, Target, keys};
use serde::de::DeserializeOwned;
use tokio::time::{MissedTickBehavior, interval};

use super::{FromArgs, Row, rows, table};
use crate::cluster::Cluster;
use crate::error::Error;
use crate::{Output, progress, written};

/// So often pods are counted anew when nothing else has changed: their number is told by no object.
const RECOUNT: Duration = Duration::from_secs(5);
/// Changes that come together are told together.
const TOGETHER: Duration = Duration::from_millis(200);

/// Prints until it is interrupted, or something fails.
pub(super) async fn all(from: FromArgs) -> Result<String, Error> {
    let source = from.open().await?;
    let namespace = from.namespace.as_deref();
    let mut known: BTreeMap<(Option<String>, String), Row> = BTreeMap::new();
    let mut changes = pin!(changes(&source, namespace));
    let mut recount = interval(RECOUNT);
    recount.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_first = true;
    loop {
        tokio::select! {
            _ = recount.tick() => {}
            _ = changes.next() => {
                tokio::time::sleep(TOGETHER).await;
                take_ready(&mut changes);
            }
        }
        let (now, notes) = match rows(&source, namespace).await {
            Ok(read) => read,
            // It was reached: what it doesn't answer now, it may answer later.
            Err(error) if !is_first => {
                progress(&format!("warning: {error}; it is tried again"));
                continue;
            }
            Err(error) => return Err(error),
        };
        if is_first {
            for note in notes {
                progress(&format!("warning: {note}"));
            }
        }
        let text = news(&mut known, now, from.output, is_first)?;
        is_first = false;
        let mut out = std::io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            // Whoever read it has seen enough.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(String::new()),
            written => written.map_err(Error::Print)?,
        }
    }
}

/// Takes what came meanwhile: one look tells of all of it.
fn take_ready(changes: &mut (impl Stream<Item = ()> + Unpin)) {
    while changes.next().now_or_never().flatten().is_some() {}
}

/// What isn't known yet, for people or programs; what is gone is told on standard error.
fn news(
    known: &mut BTreeMap<(Option<String>, String), Row>,
    now: Vec<Row>,
    output: Output,
    is_first: bool,
) -> Result<String, Error> {
    let key = |row: &Row| (row.namespace.clone(), row.name.clone());
    let gone = known
        .keys()
        .filter(|it| !now.iter().any(|row| key(row) == **it));
    for key in gone.cloned().collect::<Vec<_>>() {
        progress(&format!("{} is gone", key.1));
        known.remove(&key);
    }
    let new = now
        .into_iter()
        .filter(|row| known.get(&key(row)) != Some(row));
    let new: Vec<Row> = new.collect();
    known.extend(new.iter().map(|row| (key(row), row.clone())));
    if new.is_empty() && !is_first {
        return Ok(String::new());
    }
    match output {
        Output::Table | Output::Wide => {
            // As wide as all of them are, so that each row stands under the heading.
            let all: Vec<Row> = known.values().cloned().collect();
            let text = table(&all, output, Timestamp::now());
            let mut lines = text.split_inclusive('\n');
            let heading = lines.next().filter(|_| is_first);
            let rows = lines.zip(&all).filter(|(_, row)| new.contains(row));
            let rows = rows.map(|(line, _)| line);
            Ok(heading.into_iter().chain(rows).collect())
        }
        // Each as a document of its own.
        Output::Json | Output::Yaml => new
            .iter()
            .map(|row| {
                let text = written(output, row, String::new)?;
                Ok(if output == Output::Yaml {
                    format!("---\n{text}")
                } else {
                    text
                })
            })
            .collect(),
    }
}

/// Something of a target, or of its virtual node, has changed.
fn changes(source: &Cluster, namespace: Option<&str>) -> impl futures::Stream<Item = ()> + use<> {
    let client = || source.client.clone();
    let targets: Api<Target> = match namespace {
        Some(namespace) => source.api(namespace),
        None => Api::all(client()),
    };
    let nodes = format!("{}={}", keys::PROVIDER, keys::PROVIDER_VALUE);
    // Who may not watch them hears of it at the next count.
    let streams: [BoxStream<'static, ()>; 3] = [
        changed(targets, Config::default()),
        changed(Api::<ClusterTarget>::all(client()), Config::default()),
        changed(Api::<Node>::all(client()), Config::default().labels(&nodes)),
    ];
    select_all(streams)
}

fn changed<K>(api: Api<K>, config: Config) -> BoxStream<'static, ()>
where
    K: Resource + Clone + Debug + Send + DeserializeOwned + 'static,
{
    let events = watcher(api, config).default_backoff();
    let worked = events.filter_map(|event| ready(event.ok().map(drop)));
    worked.boxed()
}

#[cfg(test)]
mod tests {
    use futures::stream::{iter, pending};

    use super::*;

    #[test]
    fn a_row_that_changed_stands_under_the_heading() {
        let row = |name: &str, pods: usize| Row {
            namespace: Some("shop".to_owned()),
            name: name.to_owned(),
            connected: "True".to_owned(),
            since: None,
            reason: "Answering".to_owned(),
            message: String::new(),
            node: format!("n-{name}"),
            drained: None,
            version: None,
            allocatable: None,
            free: None,
            pods: Some(pods),
        };
        let mut known = BTreeMap::new();
        let mut told =
            |now: Vec<Row>, is_first| news(&mut known, now, Output::Table, is_first).unwrap();
        let first = told(vec![row("a", 1), row("a-much-longer-name", 1)], true);
        let columns = |line: &str| line.find("True").or(line.find("CONNECTED"));
        let heading = columns(first.lines().next().unwrap());
        assert_eq!(first.lines().count(), 3, "{first}");
        let second = told(vec![row("a", 2), row("a-much-longer-name", 1)], false);
        assert_eq!(second.lines().count(), 1, "{second}");
        assert_eq!(columns(&second), heading, "{first}{second}");
        assert_eq!(
            told(vec![row("a", 2), row("a-much-longer-name", 1)], false),
            ""
        );
    }

    #[test]
    fn what_came_meanwhile_is_taken_and_nothing_is_waited_for() {
        let mut changes = iter([(); 100]).chain(pending());
        take_ready(&mut changes);
        assert_eq!(changes.next().now_or_never(), None);
        take_ready(&mut iter([(); 3]));
    }
}
