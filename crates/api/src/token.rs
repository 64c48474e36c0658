//! What a token says of itself, and how long one shall live that is asked for: pure. Nobody's word is taken for a token
//! but the API server's; what it says only tells when it is time for another one.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use thiserror::Error;

use crate::bounds::cut;
use crate::limits::{self, DURATION};

/// Longest token that is read, in bytes; those of API servers have one or two thousand.
pub const LONGEST_TOKEN: usize = 16 * 1024;
/// How the API server calls service accounts.
const ACCOUNT: &str = "system:serviceaccount:";
/// So much of what is no duration is told.
const TOLD: usize = 100;

/// A service account.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Account {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A JSON Web Token, as it describes itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Since when it is good, if it says so.
    pub since: Option<Timestamp>,
    /// Until when, if it ends.
    pub until: Option<Timestamp>,
    /// Whose it is, if it is a service account's.
    pub account: Option<Account>,
}

impl Token {
    /// What a text says, if it is such a token. It then has no letter that means anything to YAML or JSON.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > LONGEST_TOKEN {
            return None;
        }
        let mut parts = text.split('.');
        let (head, claims, seal) = (parts.next()?, parts.next()?, parts.next()?);
        let is_word = |part: &str| {
            let plain = |it: u8| it.is_ascii_alphanumeric() || it == b'-' || it == b'_';
            !part.is_empty() && part.bytes().all(plain)
        };
        if parts.next().is_some() || ![head, claims, seal].into_iter().all(is_word) {
            return None;
        }
        let claims = URL_SAFE_NO_PAD.decode(claims).ok()?;
        let claims: Value = serde_json::from_slice(&claims).ok()?;
        let claims = claims.as_object()?;
        let time = |claim: &str| Timestamp::from_second(claims.get(claim)?.as_i64()?).ok();
        Some(Self {
            since: time("iat"),
            until: time("exp"),
            account: claims.get("sub").and_then(Value::as_str).and_then(account),
        })
    }

    /// How long it is good in all, if it says that; never less than nothing.
    pub fn life(&self) -> Option<Duration> {
        let (since, until) = (self.since?, self.until?);
        let seconds = until.as_second().saturating_sub(since.as_second());
        Some(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
    }
}

/// The account of a subject. Its names become parts of a path.
fn account(subject: &str) -> Option<Account> {
    let (namespace, name) = subject.strip_prefix(ACCOUNT)?.split_once(':')?;
    let is_name = |text: &str, limit: usize, more: &[u8]| {
        let plain = |it: &u8| it.is_ascii_lowercase() || it.is_ascii_digit();
        let (first, last) = (text.as_bytes().first(), text.as_bytes().last());
        text.len() <= limit
            && first.is_some_and(plain)
            && last.is_some_and(plain)
            && text.bytes().all(|it| plain(&it) || more.contains(&it))
    };
    let fits = is_name(namespace, limits::LABEL, b"-") && is_name(name, limits::SUBDOMAIN, b"-.");
    fits.then(|| Account {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    })
}

/// How long tokens shall live that are asked for ([`crate::keys::TOKEN_LIFE`]). The API server may give a shorter one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenLife(Duration);

impl TokenLife {
    /// The shortest: half of it is left for renewal, and clocks may be minutes apart.
    pub const SHORTEST: Self = Self(Duration::from_hours(1));
    /// The longest: a year.
    pub const LONGEST: Self = Self(Duration::from_hours(365 * 24));

    /// As a span.
    pub const fn span(self) -> Duration {
        self.0
    }

    /// As API servers are asked for it.
    pub fn seconds(self) -> i64 {
        i64::try_from(self.0.as_secs()).unwrap_or(i64::MAX)
    }
}

impl Default for TokenLife {
    /// A month.
    fn default() -> Self {
        Self(Duration::from_hours(30 * 24))
    }
}

/// The text is no such duration.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0:?} is no duration from 1h to 8760h, such as \"720h\"")]
pub struct TokenLifeError(String);

impl FromStr for TokenLife {
    type Err = TokenLifeError;

    fn from_str(text: &str) -> Result<Self, TokenLifeError> {
        let short = Some(text).filter(|text| text.len() <= DURATION);
        let span = short.and_then(|text| text.parse::<SignedDuration>().ok());
        let span = span.and_then(|span| Duration::try_from(span).ok());
        span.map(|span| Self(Duration::from_secs(span.as_secs())))
            .filter(|life| (Self::SHORTEST.0..=Self::LONGEST.0).contains(&life.0))
            .ok_or_else(|| TokenLifeError(cut(text, TOLD).to_owned()))
    }
}

impl fmt::Display for TokenLife {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        if seconds.is_multiple_of(3600) {
            write!(f, "{}h", seconds / 3600)
        } else {
            write!(f, "{seconds}s")
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn token(claims: &Value) -> String {
        format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims.to_string()))
    }

    #[test]
    fn a_token_says_how_long_it_is_good_and_whose_it_is() {
        let subject = "system:serviceaccount:shop:london";
        let whole = Token::parse(&token(&json!({ "iat": 100, "exp": 3700, "sub": subject })));
        let whole = whole.unwrap();
        assert_eq!((whole.since, whole.until), (Some(at(100)), Some(at(3700))));
        assert_eq!(whole.life(), Some(Duration::from_hours(1)));
        assert_eq!(whole.account.unwrap().to_string(), "shop/london");
        let ends = Token::parse(&token(&json!({ "exp": 3700 }))).unwrap();
        assert_eq!((ends.life(), ends.account), (None, None));
        let backwards = Token::parse(&token(&json!({ "iat": 200, "exp": 100 }))).unwrap();
        assert_eq!(backwards.life(), Some(Duration::ZERO));
        for endless in [
            json!({ "iat": 100 }),
            json!({ "exp": i64::MAX }),
            json!({ "exp": "soon" }),
            json!({}),
        ] {
            let read = Token::parse(&token(&endless)).unwrap();
            assert_eq!(read.until, None, "{endless}");
        }
    }

    #[test]
    fn what_is_no_token_is_not_read() {
        let good = token(&json!({ "exp": 3700 }));
        for text in [
            token(&json!([])),
            "a.!.c".to_owned(),
            "abcdef".to_owned(),
            "..".to_owned(),
            format!("{good}.more"),
            format!("{good}\nserver: https://elsewhere"),
            format!("{good}\""),
            token(&json!({ "exp": 1, "pad": "x".repeat(LONGEST_TOKEN) })),
            String::new(),
        ] {
            assert_eq!(Token::parse(&text), None, "{text}");
        }
    }

    #[test]
    fn an_account_has_names_that_can_stand_in_a_path() {
        let of = |subject: &str| {
            Token::parse(&token(&json!({ "sub": subject })))
                .unwrap()
                .account
        };
        for (subject, want) in [
            ("system:serviceaccount:shop:a.b-c", Some("shop/a.b-c")),
            ("system:serviceaccount:shop:../secrets/x", None),
            ("system:serviceaccount:shop:a:b", None),
            ("system:serviceaccount:a.b:c", None),
            ("system:serviceaccount::c", None),
            ("system:serviceaccount:shop:", None),
            ("system:serviceaccount:shop:-", None),
            ("system:node:a", None),
            ("london", None),
        ] {
            let account = of(subject).map(|it| it.to_string());
            assert_eq!(account.as_deref(), want, "{subject}");
        }
        assert_eq!(of(&format!("{ACCOUNT}{}:a", "n".repeat(64))), None);
        assert_eq!(of(&format!("{ACCOUNT}a:{}", "n".repeat(254))), None);
    }

    #[test]
    fn a_life_is_a_duration_within_bounds() {
        for (text, want) in [
            ("720h", Some("720h")),
            ("1h", Some("1h")),
            ("8760h", Some("8760h")),
            ("90m", Some("5400s")),
            ("59m", None),
            ("8761h", None),
            ("-720h", None),
            ("720", None),
            ("never", None),
            ("", None),
            ("9223372036854775807h", None),
        ] {
            let life = text.parse::<TokenLife>().ok();
            assert_eq!(life.map(|it| it.to_string()).as_deref(), want, "{text:?}");
            if let Some(life) = life {
                assert_eq!(life.to_string().parse(), Ok(life));
            }
        }
        assert_eq!(TokenLife::default().to_string(), "720h");
        assert_eq!(TokenLife::default().seconds(), 2_592_000);
        let long = "x".repeat(200_000).parse::<TokenLife>().unwrap_err();
        assert!(long.to_string().len() < 256, "it is told in few words");
    }
}
