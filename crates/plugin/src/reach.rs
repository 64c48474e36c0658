//! The flags by which a command that a hint names reaches a cluster, as they are typed. Pure.

use std::path::Path;

/// That of its context (`flag`), and that of its kubeconfig, unless it is the one that kubectl reads by itself.
pub(crate) fn flags(flag: &str, context: &str, file: Option<&Path>) -> String {
    let context = format!("{flag} {}", word(context));
    match file {
        Some(file) => format!("{context} --kubeconfig {}", word(&file.to_string_lossy())),
        None => context,
    }
}

/// A text as one word of a command line: in quotes, if a shell would make something else of it.
fn word(text: &str) -> String {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "%+,-./:=@_".contains(it);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_named_by_its_context_and_a_kubeconfig_of_its_own() {
        for (flag, context, file, want) in [
            ("--context", "paris", None, "--context paris"),
            (
                "--source",
                "admin@paris",
                Some("/tmp/a.yaml"),
                "--source admin@paris --kubeconfig /tmp/a.yaml",
            ),
            (
                "--context",
                "it's mine",
                Some("my files/~a"),
                r"--context 'it'\''s mine' --kubeconfig 'my files/~a'",
            ),
            ("--context", "", None, "--context ''"),
        ] {
            assert_eq!(flags(flag, context, file.map(Path::new)), want);
        }
    }
}
