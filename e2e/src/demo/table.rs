//! The table at the end of the demo: where each pod went, and when. Pure.

use std::time::Duration;

use super::timeline::{Story, Timeline};

const TITLES: [&str; 9] = [
    "POD",
    "PHASE",
    "VIRTUAL NODE",
    "CLUSTER",
    "REAL NODE",
    "ASKED",
    "RESERVED",
    "BOUND",
    "RUNS",
];
/// What a cell shows that doesn't apply.
const NOTHING: &str = "–";

/// The whole table. Times are seconds since the pod was created.
pub fn table(timeline: &Timeline) -> String {
    let rows: Vec<_> = timeline.stories().into_iter().map(row).collect();
    aligned(&TITLES, &rows)
}

fn row(story: &Story) -> [String; 9] {
    let (cluster, node) = story
        .delegates
        .iter()
        .map(|(cluster, (node, _))| (cluster.clone(), node.clone()))
        .reduce(|(a, b), (c, d)| (format!("{a} {c}"), format!("{b} {d}")))
        .unwrap_or_else(|| (NOTHING.to_owned(), NOTHING.to_owned()));
    let since = |moment: Option<Duration>| {
        moment.map_or_else(
            || NOTHING.to_owned(),
            |moment| format!("{:.2}", moment.saturating_sub(story.created).as_secs_f64()),
        )
    };
    let virtual_node = story
        .placed
        .as_ref()
        .map_or(NOTHING, |(node, _)| node.as_str());
    [
        story.name.clone(),
        story.phase.clone(),
        virtual_node.to_owned(),
        cluster,
        node,
        since(story.asked.values().min().copied()),
        since(story.reserved.values().min().copied()),
        since(story.placed.as_ref().map(|(_, moment)| *moment)),
        since(story.ran),
    ]
}

/// Columns as wide as their widest cell, three blanks apart.
pub fn aligned<const N: usize>(titles: &[&str; N], rows: &[[String; N]]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells
            .chain([titles[column].chars().count()])
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..N).map(width).collect();
    let line = |cells: &[&str]| {
        let padded: Vec<_> = cells
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        padded.join("   ").trim_end().to_owned()
    };
    let mut lines = vec![line(titles)];
    for row in rows {
        let cells: Vec<&str> = row.iter().map(String::as_str).collect();
        lines.push(line(&cells));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let rows = [
            ["a".to_owned(), "–".to_owned()],
            ["longer".to_owned(), "x".to_owned()],
        ];
        assert_eq!(
            aligned(&["ONE", "TWO"], &rows),
            "ONE      TWO\na        –\nlonger   x"
        );
    }

    #[test]
    fn times_count_from_the_pods_creation() {
        let second = Duration::from_secs(1);
        let story = Story {
            name: "web".to_owned(),
            phase: "Running".to_owned(),
            created: second,
            asked: [("a".to_owned(), second + second / 10)].into(),
            placed: Some(("admiralty-default-a".to_owned(), second + second / 2)),
            delegates: [("a".to_owned(), ("a-1".to_owned(), second))].into(),
            ..Story::default()
        };
        let cells = row(&story);
        assert_eq!(
            cells,
            [
                "web",
                "Running",
                "admiralty-default-a",
                "a",
                "a-1",
                "0.10",
                "–",
                "0.50",
                "–"
            ]
        );
    }
}
