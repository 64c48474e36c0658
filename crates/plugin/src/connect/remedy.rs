//! What to do when a Target that was made isn't connected: pure.

/// What to do about the condition by which a connection failed last.
pub(super) fn instead(last: &str, others: &[String]) -> String {
    if last.contains(" (Unauthorized): ") {
        return "give the same command again with --renew-token".to_owned();
    }
    let known = match others {
        [] => String::new(),
        others => format!(" (the target has {}, too)", others.join(", ")),
    };
    format!(
        "mend that, for instance by another --target-server{known}, and give the same command again"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_do_follows_from_why_it_is_not_connected() {
        let others = ["https://10.0.0.1:6443".to_owned(), "https://b".to_owned()];
        let unreachable = "Connected is False (Unreachable): no route";
        for (last, others, said) in [
            (
                "Connected is False (Unauthorized): refused",
                &others[..],
                "give the same command again with --renew-token",
            ),
            (
                unreachable,
                &others[..],
                "mend that, for instance by another --target-server (the target has https://10.0.0.1:6443, https://b, \
                 too), and give the same command again",
            ),
            (
                unreachable,
                &[],
                "mend that, for instance by another --target-server, and give the same command again",
            ),
        ] {
            assert_eq!(instead(last, others), said);
        }
    }
}
