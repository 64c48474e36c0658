//! Which requests and connections a server lies about, how, and how often. Pure: it knows lies only by name.

use super::lie::Lie;
use crate::fault::{Call, Calls, Times};

/// A list of rules, of which the first one that fits a request and isn't used up says how it is lied about. What no
/// rule fits gets the truth.
#[derive(Debug, Clone, Default)]
pub struct Script {
    rules: Vec<Rule>,
}

#[derive(Debug, Clone)]
struct Rule {
    calls: Calls,
    times: Times,
    lie: Lie,
}

impl Script {
    /// The truth.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lies about all of these requests.
    #[must_use]
    pub fn always(self, calls: Calls, lie: Lie) -> Self {
        self.times(calls, Times::Always, lie)
    }

    /// Lies about the next so many of these requests.
    #[must_use]
    pub fn next(self, requests: usize, calls: Calls, lie: Lie) -> Self {
        self.times(calls, Times::Next(requests), lie)
    }

    fn times(mut self, calls: Calls, times: Times, lie: Lie) -> Self {
        self.rules.push(Rule { calls, times, lie });
        self
    }

    /// The lie for this request, if there is one; uses it up.
    pub(super) fn take(&mut self, call: &Call) -> Option<Lie> {
        self.take_first(|rule| !rule.lie.is_of_connections() && rule.calls.include(call))
    }

    /// The lie for a new connection, whatever requests its rule is about; uses it up.
    pub(super) fn take_connection(&mut self) -> Option<Lie> {
        self.take_first(|rule| rule.lie.is_of_connections())
    }

    fn take_first(&mut self, fits: impl Fn(&Rule) -> bool) -> Option<Lie> {
        let rule = self
            .rules
            .iter_mut()
            .find(|rule| rule.times != Times::Next(0) && fits(rule))?;
        if let Times::Next(left) = &mut rule.times {
            *left -= 1;
        }
        Some(rule.lie.clone())
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::fault::Verb;

    #[test]
    fn the_first_rule_that_is_left_decides() {
        let mut script = Script::new()
            .next(1, Calls::any(), Lie::ReadsNothing)
            .next(1, Calls::any().path("/readyz"), Lie::Failure(500))
            .next(1, Calls::any(), Lie::Silence)
            .always(Calls::of(Verb::List, "pods"), Lie::Failure(410));
        let mut lie = |path: &str| {
            let lie = script.take(&Call::of(&Method::GET, &path.parse().unwrap()));
            lie.map(|lie| format!("{lie:?}"))
        };
        let told = [
            "/readyz",
            "/readyz",
            "/readyz",
            "/api/v1/pods",
            "/api/v1/pods",
        ]
        .map(&mut lie);
        let want = [
            Some("Failure(500)"),
            Some("Silence"),
            None,
            Some("Failure(410)"),
            Some("Failure(410)"),
        ];
        assert_eq!(told.each_ref().map(Option::as_deref), want);
        assert!(matches!(script.take_connection(), Some(Lie::ReadsNothing)));
        assert!(script.take_connection().is_none());
    }
}
