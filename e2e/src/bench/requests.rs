//! Requests that an API server has answered, from its metrics: by verb and resource, not by user. Pure but for the one
//! request that reads them. Counting this way costs the API server nothing while it is measured.

use std::collections::BTreeMap;

use kube::Client;

use crate::fleet;

/// The counter of kube-apiserver.
const METRIC: &str = "apiserver_request_total";

/// How many requests of a sort there were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// All.
    pub all: u64,
    /// Those that were answered 4xx or 5xx.
    pub failed: u64,
}

/// Counts by `VERB resource` or `VERB resource/subresource`.
pub type Counts = BTreeMap<String, Count>;

/// Reads the counts of an API server.
pub async fn read(client: &Client) -> Result<Counts, fleet::Error> {
    let refused = || fleet::Error::request("can't read the metrics of an API server");
    let request = http::Request::get("/metrics")
        .body(Vec::new())
        .map_err(|error| refused()(kube::Error::HttpError(error)))?;
    let text = client.request_text(request).await.map_err(refused())?;
    Ok(parse(&text))
}

/// The counts in a text of Prometheus' format.
pub fn parse(text: &str) -> Counts {
    let mut counts = Counts::new();
    for line in text.lines() {
        let Some(sample) = line
            .strip_prefix(METRIC)
            .and_then(|rest| rest.strip_prefix('{'))
        else {
            continue;
        };
        let Some((labels, value)) = sample.rsplit_once("} ") else {
            continue;
        };
        let labels = labels_of(labels);
        let label = |name: &str| labels.get(name).map_or("", String::as_str);
        let Ok(value) = value.trim().parse::<f64>() else {
            continue;
        };
        let key = match (label("resource"), label("subresource")) {
            ("", _) => continue,
            (resource, "") => format!("{} {resource}", label("verb")),
            (resource, sub) => format!("{} {resource}/{sub}", label("verb")),
        };
        let count = counts.entry(key).or_default();
        count.all += value as u64;
        if label("code").starts_with(['4', '5']) {
            count.failed += value as u64;
        }
    }
    counts
}

/// `a="b",c="d"`, with backslashes before quotes, backslashes and as `\n`.
fn labels_of(text: &str) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    let mut rest = text;
    while let Some((name, after)) = rest.split_once("=\"") {
        let mut value = String::new();
        let mut characters = after.char_indices();
        let mut end = after.len();
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => {
                    end = at + 1;
                    break;
                }
                '\\' => match characters.next() {
                    Some((_, 'n')) => value.push('\n'),
                    Some((_, other)) => value.push(other),
                    None => {}
                },
                other => value.push(other),
            }
        }
        labels.insert(name.trim_start_matches(',').to_owned(), value);
        rest = &after[end..];
    }
    labels
}

/// What came between two readings.
pub fn between(before: &Counts, after: &Counts) -> Counts {
    let mut grown = after.clone();
    for (key, count) in &mut grown {
        let earlier = before.get(key).copied().unwrap_or_default();
        count.all = count.all.saturating_sub(earlier.all);
        count.failed = count.failed.saturating_sub(earlier.failed);
    }
    grown.retain(|_, count| count.all > 0);
    grown
}

/// Whether requests of this sort are made for pods, and not by the clock (leases, heartbeats, summaries).
pub fn is_about_pods(sort: &str) -> bool {
    let Some((verb, resource)) = sort.split_once(' ') else {
        return false;
    };
    let kind = resource.split('/').next().unwrap_or_default();
    // A watch is opened again after minutes, whatever happens.
    verb != "WATCH" && matches!(kind, "pods" | "podchaperons" | "events" | "bindings")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_summed_over_what_nobody_asks_for() {
        let text = "\
# TYPE apiserver_request_total counter
apiserver_request_total{code=\"201\",resource=\"pods\",subresource=\"binding\",verb=\"POST\"} 3
apiserver_request_total{code=\"409\",resource=\"pods\",subresource=\"binding\",verb=\"POST\"} 2
apiserver_request_total{code=\"200\",resource=\"\",subresource=\"/readyz\",verb=\"GET\"} 9
apiserver_request_total{code=\"200\",resource=\"a\\\"},b\",subresource=\"\",verb=\"GET\"} 1e3
apiserver_request_total_other{code=\"200\",resource=\"pods\",verb=\"GET\"} 1
";
        let want = Counts::from([
            ("POST pods/binding".to_owned(), Count { all: 5, failed: 2 }),
            (
                "GET a\"},b".to_owned(),
                Count {
                    all: 1_000,
                    failed: 0,
                },
            ),
        ]);
        assert_eq!(parse(text), want);
    }

    #[test]
    fn only_what_grew_is_between() {
        let count = |all| Count { all, failed: 0 };
        let before = Counts::from([
            ("GET a".to_owned(), count(2)),
            ("GET b".to_owned(), count(1)),
        ]);
        let after = Counts::from([
            ("GET a".to_owned(), count(5)),
            ("GET b".to_owned(), count(1)),
            ("GET c".to_owned(), count(1)),
        ]);
        let want = Counts::from([
            ("GET a".to_owned(), count(3)),
            ("GET c".to_owned(), count(1)),
        ]);
        assert_eq!(between(&before, &after), want);
    }

    #[test]
    fn clockwork_is_not_about_pods() {
        for (sort, want) in [
            ("POST pods/binding", true),
            ("PATCH podchaperons/status", true),
            ("POST events", true),
            ("WATCH pods", false),
            ("PUT leases", false),
            ("PATCH nodes/status", false),
        ] {
            assert_eq!(is_about_pods(sort), want, "{sort}");
        }
    }
}
