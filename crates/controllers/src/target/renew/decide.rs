//! When the token in a Target's Secret is renewed, and what becomes of the kubeconfig then: pure.
//!
//! A token's times are by the target's clock. They are held against ours only for a token that this process didn't get
//! itself: half of its life is days, and clocks are minutes apart. The age of one that it got is known without them, so
//! that no clock, however wrong, has it renewed again and again.

use std::time::Duration;

use jiff::Timestamp;
use pilotage_api::token::{Account, Token, TokenLife};

/// Between two renewals, at least: whoever else writes the Secret over and over makes work for others, too.
pub(super) const PACE: Duration = Duration::from_secs(10);
/// A token that was got here is renewed no sooner, however short its life is said to be.
const SHORTEST_HALF: Duration = Duration::from_mins(5);
/// So often a token may stand in its kubeconfig.
const MOST_PLACES: usize = 16;

/// All that a decision rests on.
#[derive(Clone, Debug)]
pub(super) struct Observed<'a> {
    /// What the Secret asks for.
    pub(super) mark: Option<&'a str>,
    /// The token that the kubeconfig logs in with, if it can be read and has one.
    pub(super) token: Option<&'a str>,
    /// Whether the target is connected by this version of the Secret.
    pub(super) connected: bool,
    /// What this process has got last for this Target, and how long ago.
    pub(super) got: Option<(&'a Got, Duration)>,
    /// The time of day.
    pub(super) now: Timestamp,
}

/// A token that a target gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Got {
    /// The token.
    pub(super) text: String,
    /// How long a life was asked for.
    pub(super) asked: TokenLife,
    /// How long a life it has.
    pub(super) life: Duration,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// Nothing: nobody asks for it.
    Leave,
    /// Nothing, until something changes: what is wrong is told elsewhere, or is over by itself.
    Idle,
    /// It is asked for, and can't be: a reason, and in words.
    Unable(&'static str, String),
    /// It is time in so long; until when the token is good.
    Wait(Duration, Timestamp),
    /// It is time.
    Renew(Ask),
}

/// What a target is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ask {
    /// Whose token.
    pub(super) account: Account,
    /// How long it shall live.
    pub(super) life: TokenLife,
    /// Until when the present one is good.
    pub(super) until: Timestamp,
    /// Whether less than a third of the present one's life is left, as far as clocks tell.
    pub(super) is_late: bool,
}

/// What to do now.
pub(super) fn decide(observed: &Observed<'_>) -> Plan {
    let Observed {
        mark,
        token: text,
        connected,
        got,
        now,
    } = observed;
    let Some(mark) = mark else { return Plan::Leave };
    let life = match mark.parse::<TokenLife>() {
        Ok(life) => life,
        Err(error) => return Plan::Unable("InvalidAnnotation", error.to_string()),
    };
    // A Secret without a kubeconfig, and one that can't be read, are told by the connection.
    let Some(text) = text else { return Plan::Idle };
    let Some(Token {
        since,
        until: Some(until),
        account: Some(account),
    }) = Token::parse(text)
    else {
        let why = "it is no token of a service account that ends";
        return Plan::Unable("NotRenewable", why.to_owned());
    };
    if !connected {
        return Plan::Idle;
    }
    let own = got.filter(|(got, _)| got.text == **text);
    let paced = got.map_or(Duration::ZERO, |(_, age)| PACE.saturating_sub(age));
    let whole = since.map_or(life.span(), |since| span(since, until));
    let left = span(*now, until);
    // A target may give less than it is asked for, and another Target may have got this one by the same Secret.
    let is_all = |(got, _): &(&Got, Duration)| got.asked == life && is_about(whole, got.life);
    let is_enough = is_about(whole, life.span()) || got.as_ref().is_some_and(is_all);
    let wait = match own {
        Some((got, age)) if got.asked == life => {
            half(got.life).max(SHORTEST_HALF).saturating_sub(age)
        }
        None if is_enough => left.saturating_sub(half(whole)).max(paced),
        // Another life is asked for than it has.
        _ => paced,
    };
    if !wait.is_zero() {
        return Plan::Wait(wait, until);
    }
    Plan::Renew(Ask {
        account,
        life,
        until,
        is_late: left < third(whole),
    })
}

/// From one time to another one; nothing if that is earlier.
fn span(from: Timestamp, to: Timestamp) -> Duration {
    let seconds = to.as_second().saturating_sub(from.as_second());
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

fn half(span: Duration) -> Duration {
    Duration::from_secs(span.as_secs() / 2)
}

fn third(span: Duration) -> Duration {
    Duration::from_secs(span.as_secs() / 3)
}

/// Whether a token lives for about as long as was asked: within a tenth.
fn is_about(life: Duration, asked: Duration) -> bool {
    life.abs_diff(asked).as_secs() <= asked.as_secs() / 10
}

/// What a target has given, if it is what was asked for.
pub(super) fn given(text: String, ask: &Ask) -> Option<Got> {
    let token = Token::parse(&text)?;
    if token.account.as_ref() != Some(&ask.account) {
        return None;
    }
    token.until?;
    let life = token.life().unwrap_or(ask.life.span());
    Some(Got {
        text,
        asked: ask.life,
        life,
    })
}

/// The kubeconfig with another token, and nothing else changed; `None` if it doesn't stand there as one word.
pub(super) fn replaced(kubeconfig: &str, token: &str, by: &Got) -> Option<String> {
    let places = kubeconfig
        .matches(token)
        .take(MOST_PLACES.saturating_add(1));
    let places = places.count();
    (1..=MOST_PLACES)
        .contains(&places)
        .then(|| kubeconfig.replace(token, &by.text))
}

#[cfg(test)]
#[path = "decide/tests.rs"]
mod tests;
