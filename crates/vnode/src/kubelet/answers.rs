//! What the API server has lately said about who may do what, for a short while: pure, the clock is an argument.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::caller::Caller;

/// How long a yes is believed.
const YES: Duration = Duration::from_secs(30);
/// How long a no is.
const NO: Duration = Duration::from_secs(5);
/// Answers that are kept.
const MOST: usize = 1024;

/// A question: may this caller do that?
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Question {
    pub(crate) caller: Caller,
    pub(crate) verb: &'static str,
    pub(crate) subresource: &'static str,
    /// Empty for any node.
    pub(crate) node: String,
}

/// Answers, each with the moment when it is forgotten.
#[derive(Debug, Default)]
pub(crate) struct Answers(HashMap<Question, (bool, Instant)>);

impl Answers {
    pub(crate) fn get(&self, question: &Question, now: Instant) -> Option<bool> {
        let (allowed, until) = self.0.get(question)?;
        (now < *until).then_some(*allowed)
    }

    pub(crate) fn keep(&mut self, question: Question, allowed: bool, now: Instant) {
        if self.0.len() >= MOST {
            self.0.retain(|_, (_, until)| now < *until);
        }
        if self.0.len() >= MOST {
            self.0.clear();
        }
        let span = if allowed { YES } else { NO };
        let until = pilotage_runtime::moment::after(now, span);
        self.0.insert(question, (allowed, until));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn question(user: &str, node: &str) -> Question {
        Question {
            caller: Caller {
                user: user.into(),
                uid: None,
                groups: Vec::new(),
                extra: BTreeMap::new(),
            },
            verb: "get",
            subresource: "proxy",
            node: node.into(),
        }
    }

    #[test]
    fn a_yes_is_believed_longer_than_a_no() {
        let (mut answers, now) = (Answers::default(), Instant::now());
        answers.keep(question("a", "n"), true, now);
        answers.keep(question("b", "n"), false, now);
        let soon = now + NO;
        assert_eq!(answers.get(&question("a", "n"), soon), Some(true));
        assert_eq!(answers.get(&question("b", "n"), now), Some(false));
        assert_eq!(answers.get(&question("b", "n"), soon), None);
        assert_eq!(answers.get(&question("a", "other"), now), None);
        assert_eq!(answers.get(&question("a", "n"), now + YES), None);
    }

    #[test]
    fn only_so_many_are_kept() {
        let (mut answers, now) = (Answers::default(), Instant::now());
        for number in 0..MOST * 3 {
            answers.keep(question(&number.to_string(), "n"), true, now);
            assert!(answers.0.len() <= MOST);
        }
    }
}
