//! Owns how objects are read out of a file: YAML or JSON, one document or many, lists taken apart.

use serde_json::Value;

use crate::fields::told;

/// No object is nested so deep.
const DEEPEST: usize = 64;

/// A file isn't YAML.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {problem}")]
pub struct YamlError {
    /// Where, from 1.
    pub line: u64,
    /// Where in that line, from 1.
    pub column: u64,
    /// What is wrong.
    pub problem: String,
}

/// All objects in a text. A `List`, as `kubectl get -o yaml` prints it, counts as its items.
pub fn documents(text: &str) -> Result<Vec<Value>, YamlError> {
    let options = serde_saphyr::options! {
        // A file with a thousand objects is no attack; who may pass one may also pass more work. But the stack has an
        // end.
        budget: serde_saphyr::budget! {
            max_depth: DEEPEST,
            flow_nesting_limit: DEEPEST,
            max_reader_input_bytes: None,
            max_events: usize::MAX,
            max_nodes: usize::MAX,
            max_documents: usize::MAX,
            max_total_scalar_bytes: usize::MAX,
        },
        // `y` and `on` are words, as in YAML 1.2.
        strict_booleans: true,
        with_snippet: false,
    };
    let documents: Vec<Value> =
        serde_saphyr::from_multiple_with_options(text, options).map_err(|error| {
            let at = error.location();
            let bare = error.without_snippet().to_string();
            // The parser repeats the position in its text.
            let problem = match bare.rsplit_once(" at line ") {
                Some((problem, rest)) if rest.contains("column") => problem.to_owned(),
                _ => bare,
            };
            YamlError {
                line: at.map_or(1, |at| at.line()),
                column: at.map_or(1, |at| at.column()),
                problem: told(&problem).to_owned(),
            }
        })?;
    let mut objects = Vec::new();
    for mut document in documents {
        let is_list = document["kind"]
            .as_str()
            .is_some_and(|kind| kind.ends_with("List"));
        match document.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) if is_list => objects.extend(items),
            Some(other) => {
                document["items"] = other;
                objects.push(document);
            }
            None => objects.push(document),
        }
    }
    Ok(objects)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn documents_and_lists() {
        for (text, expected) in [
            (
                "a: y\n---\nb: 1\n---\n",
                vec![json!({"a": "y"}), json!({"b": 1})],
            ),
            ("", vec![]),
            ("# nothing\n", vec![]),
            ("{\"a\": [1, \"x\"]}", vec![json!({"a": [1, "x"]})]),
            (
                "kind: SeedList\nitems: [{a: 1}, {b: 2}]\n---\nkind: Seed",
                vec![json!({"a": 1}), json!({"b": 2}), json!({"kind": "Seed"})],
            ),
            (
                "kind: Seed\nitems: [1]",
                vec![json!({"kind": "Seed", "items": [1]})],
            ),
            (
                "kind: List\nitems: 1",
                vec![json!({"kind": "List", "items": 1})],
            ),
            ("[1]", vec![json!([1])]),
            ("text", vec![json!("text")]),
        ] {
            assert_eq!(documents(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn mistakes_are_told_in_few_words() {
        let long = "x".repeat(100_000);
        for text in [
            format!("a: *{long}"),
            format!("{long}: 1\n{long}: 2"),
            format!("a: &{long} [\n"),
        ] {
            let error = documents(&text).unwrap_err().to_string();
            assert!(error.len() < 1024, "{} bytes", error.len());
        }
    }

    #[test]
    fn what_is_nested_too_deep_is_refused() {
        for (piece, end) in [("[", "]"), ("{a: ", "}"), ("- ", "")] {
            let nested = |depth| piece.repeat(depth) + "1" + &end.repeat(depth);
            assert!(documents(&nested(50)).is_ok(), "{piece}");
            assert!(documents(&nested(20_000)).is_err(), "{piece}");
        }
    }

    #[test]
    fn mistakes_have_a_position() {
        let error = documents("a: 1\nb: [\n").unwrap_err();
        assert!(error.line >= 2, "{error}");
        assert!(
            documents("a: 1\na: 2")
                .unwrap_err()
                .to_string()
                .contains('a')
        );
        // More than the parser's own limits would let through.
        let many = format!("[{}1]", "1,".repeat(300_000));
        assert_eq!(documents(&many).unwrap().len(), 1);
    }

    mod fuzz {
        use super::*;

        pilotage_absurd::properties! {
            #[test]
            fn never_panics(text in "\\PC{0,30}", near in "(kind: List\nitems:)?[ -]{0,3}[a-z:{}\\[\\], \n*&]{0,30}") {
                let _ = (documents(&text), documents(&near));
            }
        }
    }
}
