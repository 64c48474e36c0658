use pilotage_absurd::{json as junk, text};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const HOUR: u64 = 3600;
const SUBJECT: &str = "system:serviceaccount:shop:london";

/// Letters of a text without padding, as tokens have them.
fn base64url(text: &str) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut out = String::new();
    for chunk in text.as_bytes().chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = (byte(0) << 16) | (byte(1) << 8) | byte(2);
        for letter in 0..=chunk.len() {
            let at = (bits >> (18 - 6 * letter)) & 63;
            out.push(char::from(LETTERS[at as usize]));
        }
    }
    out
}

fn token_of(claims: &Value) -> String {
    format!("e30.{}.c2ln", base64url(&claims.to_string()))
}

/// Good from the first of these hours to the second.
fn token(since: u64, until: u64) -> String {
    token_of(&json!({ "iat": since * HOUR, "exp": until * HOUR, "sub": SUBJECT }))
}

fn at(hour: u64) -> Timestamp {
    Timestamp::from_second(i64::try_from(hour * HOUR).unwrap()).unwrap()
}

fn hours(hours: u64) -> Duration {
    Duration::from_hours(hours)
}

fn observed(token: &str, hour: u64) -> Observed<'_> {
    Observed {
        mark: Some("720h"),
        token: Some(token),
        connected: true,
        got: None,
        now: at(hour),
    }
}

fn got(text: &str, life: Duration) -> Got {
    Got {
        text: text.to_owned(),
        asked: TokenLife::default(),
        life,
    }
}

#[test]
fn a_token_is_renewed_when_half_of_its_life_is_over() {
    let month = token(0, 720);
    let wait = |hours: u64| Plan::Wait(Duration::from_hours(hours), at(720));
    assert_eq!(decide(&observed(&month, 0)), wait(360));
    assert_eq!(decide(&observed(&month, 359)), wait(1));
    let renew = |is_late| {
        Plan::Renew(Ask {
            account: Account {
                namespace: "shop".to_owned(),
                name: "london".to_owned(),
            },
            life: TokenLife::default(),
            until: at(720),
            is_late,
        })
    };
    for (hour, is_late) in [(360, false), (479, false), (481, true), (800, true)] {
        assert_eq!(decide(&observed(&month, hour)), renew(is_late), "{hour}");
    }
    // Our clock is behind.
    let ahead = token(100, 820);
    assert_eq!(
        decide(&observed(&ahead, 0)),
        Plan::Wait(hours(460), at(820))
    );
}

#[test]
fn what_is_not_asked_for_or_cannot_be_is_left_as_it_is() {
    let old = token(0, 720);
    let unmarked = Observed {
        mark: None,
        ..observed(&old, 719)
    };
    assert_eq!(decide(&unmarked), Plan::Leave);
    let lost = Observed {
        connected: false,
        ..observed(&old, 719)
    };
    assert_eq!(decide(&lost), Plan::Idle);
    let unread = Observed {
        token: None,
        ..observed(&old, 719)
    };
    assert_eq!(decide(&unread), Plan::Idle);
    for mark in ["", "never", "5m", "100000h", "true"] {
        let wrong = Observed {
            mark: Some(mark),
            ..observed(&old, 719)
        };
        let plan = decide(&wrong);
        assert!(
            matches!(&plan, Plan::Unable("InvalidAnnotation", why) if why.contains("720h")),
            "{mark}: {plan:?}"
        );
    }
    let endless = token_of(&json!({ "iat": 0, "sub": SUBJECT }));
    let nobodys = token_of(&json!({ "iat": 0, "exp": 1, "sub": "london" }));
    for text in [&*endless, &*nobodys, "hunter2", ""] {
        let plan = decide(&observed(text, 719));
        assert!(
            matches!(&plan, Plan::Unable("NotRenewable", why) if !why.contains("hunter2")),
            "{text}: {plan:?}"
        );
    }
}

#[test]
fn another_life_than_is_asked_for_is_no_reason_to_wait() {
    let is_due = |text: &str, mark: &'static str| {
        let it = Observed {
            mark: Some(mark),
            ..observed(text, 0)
        };
        matches!(decide(&it), Plan::Renew(_))
    };
    let month = token(0, 720);
    assert!(!is_due(&month, "720h") && !is_due(&month, "700h"));
    assert!(is_due(&month, "24h") && is_due(&month, "8760h"));
    // Since when it is good, it doesn't say.
    let until = token_of(&json!({ "exp": 720 * HOUR, "sub": SUBJECT }));
    assert!(!is_due(&until, "720h"));
}

#[test]
fn what_was_got_here_ages_by_our_own_clock() {
    // The target's clock is a year ahead, or it shortens what it gives, or lies.
    for (text, life, wait) in [
        (token(8760, 9480), hours(720), hours(360)),
        (token(0, 720), hours(720), hours(360)),
        (token(0, 24), hours(24), hours(12)),
        (token(5, 5), Duration::ZERO, Duration::from_mins(5)),
    ] {
        let got = got(&text, life);
        let after = |age: Duration| {
            decide(&Observed {
                got: Some((&got, age)),
                ..observed(&text, 1000)
            })
        };
        let fresh = after(Duration::ZERO);
        assert!(
            matches!(fresh, Plan::Wait(span, _) if span == wait),
            "{fresh:?}"
        );
        assert!(matches!(after(wait), Plan::Renew(_)), "{wait:?}");
    }
    let month = token(0, 720);
    let got = got(&month, hours(720));
    let shorter = Observed {
        mark: Some("24h"),
        got: Some((&got, PACE)),
        ..observed(&month, 0)
    };
    assert!(
        matches!(decide(&shorter), Plan::Renew(_)),
        "asked for since"
    );
}

#[test]
fn who_puts_an_old_token_back_has_it_renewed_at_a_pace() {
    let (old, new) = (token(0, 720), got(&token(400, 1120), hours(720)));
    let after = |age| {
        decide(&Observed {
            got: Some((&new, age)),
            ..observed(&old, 400)
        })
    };
    assert_eq!(after(Duration::ZERO), Plan::Wait(PACE, at(720)));
    assert!(matches!(after(PACE), Plan::Renew(_)));
}

#[test]
fn what_a_target_gives_has_to_be_a_token_of_that_account() {
    let month = token(0, 720);
    let Plan::Renew(ask) = decide(&observed(&month, 400)) else {
        panic!("it is time")
    };
    let next = token(400, 1120);
    assert_eq!(given(next.clone(), &ask), Some(got(&next, hours(720))));
    let other = json!({ "iat": 0, "exp": 9, "sub": "system:serviceaccount:shop:paris" });
    let endless = json!({ "iat": 0, "sub": SUBJECT });
    for strange in [
        token_of(&other),
        token_of(&endless),
        format!("{next}\"}}}}]}}\n"),
        "hunter2".to_owned(),
        String::new(),
    ] {
        assert_eq!(given(strange.clone(), &ask), None, "{strange}");
    }
}

#[test]
fn a_kubeconfig_gets_another_token_and_stays_as_it_is_otherwise() {
    let (old, new) = (token(0, 720), got(&token(360, 1080), hours(720)));
    for kubeconfig in [
        format!(r#"{{"users": [{{"name": "a", "user": {{"token": "{old}"}}}}], "more": [1]}}"#),
        format!("users:\n- name: a # {old}\n  user: {{token: {old}}}\n"),
    ] {
        let written = replaced(&kubeconfig, &old, &new).unwrap();
        assert!(!written.contains(&old), "{written}");
        assert_eq!(written.replace(&new.text, &old), kubeconfig);
    }
    let folded = old.replace('.', "\\\n  .");
    assert_eq!(replaced(&format!("token: \"{folded}\""), &old, &new), None);
    assert_eq!(replaced(&old.repeat(17), &old, &new), None);
}

mod fuzz {
    use super::*;

    pilotage_absurd::properties! {
        #[test]
        fn whatever_a_token_says_nothing_is_renewed_twice_at_once(
            claims in junk::junk_in(Just(json!({ "iat": 0, "exp": 1_000_000, "sub": SUBJECT }))),
            mark in prop_oneof![Just("720h".to_owned()), text::text()],
            now in text::number(),
        ) {
            let text = token_of(&claims);
            let now = now.parse().ok().and_then(|now| Timestamp::from_second(now).ok());
            let it = Observed {
                mark: Some(&mark), token: Some(&text), connected: true, got: None, now: now.unwrap_or_default(),
            };
            if let Plan::Renew(ask) = decide(&it)
                && let Some(got) = given(text.clone(), &ask)
            {
                let again = decide(&Observed { got: Some((&got, Duration::ZERO)), ..it });
                prop_assert!(matches!(again, Plan::Wait(span, _) if span >= SHORTEST_HALF), "{:?}", again);
            }
        }
    }
}

#[test]
fn two_that_share_a_secret_renew_by_what_the_target_gives() {
    // Less than was asked for; the other one has got the token that is there.
    let (mine, other) = (token(99, 123), token(100, 124));
    let mine = got(&mine, hours(24));
    let seen = |hour| Observed {
        got: Some((&mine, hours(hour - 99))),
        ..observed(&other, hour)
    };
    assert_eq!(decide(&seen(100)), Plan::Wait(hours(12), at(124)));
    assert!(matches!(decide(&seen(112)), Plan::Renew(_)));
}
