//! What expressions in `PromQL` ask for, as Prometheus' own parser reads them. It knows no metrics.

use std::io::Write;
use std::process::{Command, Stdio};

use pilotage_testkit::tools::Tools;
use serde::Deserialize;
use serde_json::json;

/// What the parser says of one expression.
#[derive(Debug, Deserialize)]
struct Answer {
    error: Option<String>,
    #[serde(flatten)]
    asked: Asked,
}

/// What one expression asks for.
#[derive(Debug, Deserialize)]
pub(super) struct Asked {
    #[serde(default)]
    pub(super) selectors: Vec<Selector>,
    #[serde(default)]
    pub(super) lists: Vec<List>,
}

/// It picks series.
#[derive(Debug, Deserialize)]
pub(super) struct Selector {
    /// Empty if the name is compared as a label is.
    pub(super) metric: String,
    pub(super) matchers: Vec<Matcher>,
}

/// It compares one label with a value.
#[derive(Debug, Deserialize)]
pub(super) struct Matcher {
    pub(super) label: String,
    pub(super) value: String,
}

/// Labels by which series of these metrics are grouped, or matched with others.
#[derive(Debug, Deserialize)]
pub(super) struct List {
    pub(super) labels: Vec<String>,
    pub(super) metrics: Vec<String>,
}

/// What each of these expressions asks for, or why it is none.
pub(super) fn parse(expressions: &[&str]) -> Vec<Result<Asked, String>> {
    let tool = Tools::find().unwrap().path("promql-check").unwrap();
    let mut process = Command::new(tool)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines: Vec<_> = expressions.iter().map(|it| json!(it).to_string()).collect();
    let mut input = process.stdin.take().unwrap();
    input.write_all(lines.join("\n").as_bytes()).unwrap();
    drop(input);
    let output = process.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let answers = text.lines().map(|line| {
        let answer: Answer = serde_json::from_str(line).unwrap();
        answer.error.map_or(Ok(answer.asked), Err)
    });
    let answers: Vec<_> = answers.collect();
    assert_eq!(answers.len(), expressions.len(), "{text}");
    answers
}

#[test]
fn what_is_no_expression_is_refused() {
    let wrong = [
        ("sum(rate(a[5m])", "unclosed left parenthesis"),
        ("sum by (a b) (c)", "unexpected identifier"),
        ("a{b=\"}", "unterminated quoted string"),
        ("rate(a)", "expected type range vector"),
        ("rat(a[5m])", "unknown function"),
    ];
    let answers = parse(&wrong.map(|(text, _)| text));
    for ((text, why), answer) in wrong.iter().zip(answers) {
        let error = answer.unwrap_err();
        assert!(error.contains(why), "{text}: {error}");
    }
}

#[test]
fn each_metric_and_label_of_an_expression_is_told() {
    let text = "sum by (pod) (rate(a_total{b=\"}\"}[5m]) * on (node) group_left (zone) c)";
    let asked = parse(&[text]).remove(0).unwrap();
    let metrics: Vec<_> = asked.selectors.iter().map(|it| &it.metric[..]).collect();
    assert_eq!(metrics, ["a_total", "c"]);
    let matcher = &asked.selectors[0].matchers[0];
    assert_eq!((&matcher.label[..], &matcher.value[..]), ("b", "}"));
    let lists: Vec<_> = asked
        .lists
        .iter()
        .map(|list| (list.labels.join(","), list.metrics.join(",")))
        .collect();
    let lists: Vec<_> = lists.iter().map(|(a, b)| (&a[..], &b[..])).collect();
    assert_eq!(
        lists,
        [
            ("pod", "a_total,c"),
            ("node", "a_total"),
            ("node", "c"),
            ("zone", "c")
        ]
    );
}
