//! Counts the bindings of pods in an audit log. It knows nothing of who made them.

use std::collections::BTreeMap;

use super::audit::Entry;

/// What an API server answers that took too long; what was asked may have been done.
const TOO_LATE: u16 = 504;

/// How often each pod among these entries, which are bound by now, was bound, by name.
///
/// A busy API server says of a binding that it took too long, and makes it all the same: whoever asks again is told
/// that the pod has a node. So for a pod without an accepted binding one that came too late counts.
pub fn bindings<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> BTreeMap<String, usize> {
    let mut accepted: BTreeMap<String, usize> = BTreeMap::new();
    let mut late = Vec::new();
    for entry in entries.into_iter().filter(|entry| entry.asks_to_bind()) {
        if entry.accepted() {
            *accepted.entry(entry.name.clone()).or_default() += 1;
        } else if entry.code == TOO_LATE {
            late.push(entry.name.clone());
        }
    }
    for name in late {
        accepted.entry(name).or_insert(1);
    }
    accepted
}

#[cfg(test)]
mod tests {
    use super::{Entry, bindings};

    fn of(name: &str, code: u16) -> Entry {
        Entry {
            verb: "create".to_owned(),
            resource: "pods".to_owned(),
            subresource: "binding".to_owned(),
            name: name.to_owned(),
            code,
            ..Entry::default()
        }
    }

    #[test]
    fn a_binding_without_an_answer_counts_where_no_other_was_accepted() {
        let entries = [
            of("late", 504),
            of("late", 409),
            of("again", 504),
            of("again", 201),
            of("twice", 201),
            of("twice", 201),
            of("refused", 409),
        ];
        let want = [("again", 1), ("late", 1), ("twice", 2)];
        let want = want.map(|(name, times)| (name.to_owned(), times));
        assert_eq!(bindings(&entries), want.into());
        let read = Entry {
            verb: "get".to_owned(),
            ..of("read", 200)
        };
        assert!(bindings([&read]).is_empty());
    }
}
