//! When the tokens end that Targets use. Those of `connect` never do; who puts in others renews them, and is warned
//! here.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use pilotage_runtime::call::{CALL_LIMIT, find};
use serde_json::Value;

use crate::cluster::Cluster;
use crate::table::age;
use crate::targets::Seen;

/// Of a token that doesn't say since when it is good, so much is left when it is time to renew it.
const WEEK: i64 = 7 * 24 * 3600;

/// What is to be said of tokens that end soon or have ended, as far as one may read Secrets.
pub(crate) async fn ending(source: &Cluster, targets: &[Seen], now: Timestamp) -> Vec<String> {
    let looked = targets.iter().map(|target| async move {
        let (namespace, name) = target.secret.as_ref()?;
        let secrets: Api<Secret> = source.api(namespace);
        let found = find(CALL_LIMIT, secrets.get(name), "secrets", name).await;
        // What is wrong with the Secret is told by the Target.
        let data = found.ok()??.data?;
        let lives = data.values().filter_map(|it| life(&it.0));
        let life = lives.min_by_key(|life| life.until)?;
        let ends = warning(life, now)?;
        Some(format!(
            "the token in Secret {namespace}/{name}, which {} uses, {ends}; put a kubeconfig with a new one there",
            target.title()
        ))
    });
    join_all(looked).await.into_iter().flatten().collect()
}

/// When a token is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Life {
    since: Option<Timestamp>,
    until: Timestamp,
}

/// What is to be said of it, if it is time.
fn warning(life: Life, now: Timestamp) -> Option<String> {
    let seconds = |from: Timestamp, to: Timestamp| to.as_second().saturating_sub(from.as_second());
    let left = seconds(now, life.until);
    let whole = life.since.map(|since| seconds(since, life.until));
    if left <= 0 {
        return Some(format!("ended {} ago", age(life.until, now)));
    }
    let is_due = left < whole.map_or(WEEK, |whole| whole / 3);
    is_due.then(|| format!("ends in {}", age(now, life.until)))
}

/// The life of the token of a kubeconfig that ends first, of those that end.
fn life(kubeconfig: &[u8]) -> Option<Life> {
    let text = std::str::from_utf8(kubeconfig).ok()?;
    let kubeconfig: Value = serde_saphyr::from_str(text).ok()?;
    let users = kubeconfig["users"].as_array()?.iter();
    let tokens = users.filter_map(|user| user["user"]["token"].as_str());
    tokens.filter_map(of_token).min_by_key(|life| life.until)
}

/// What a JSON Web Token says of itself. Nobody's word is taken for it but the API server's: this is only a warning.
fn of_token(token: &str) -> Option<Life> {
    let mut parts = token.split('.');
    let (_, claims, _) = (parts.next()?, parts.next()?, parts.next()?);
    let claims = URL_SAFE_NO_PAD.decode(claims).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    let time = |claim: &str| Timestamp::from_second(claims[claim].as_i64()?).ok();
    Some(Life {
        since: time("iat"),
        until: time("exp")?,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const DAY: i64 = 24 * 3600;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn token(claims: &Value) -> String {
        format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims.to_string()))
    }

    #[test]
    fn a_token_says_how_long_it_is_good() {
        let both =
            token(&json!({ "iat": 100, "exp": 3700, "sub": "system:serviceaccount:shop:london" }));
        let since = Some(at(100));
        let life = |until| Life {
            since,
            until: at(until),
        };
        assert_eq!(of_token(&both), Some(life(3700)));
        let ends = of_token(&token(&json!({ "exp": 3700 }))).unwrap();
        assert_eq!((ends.since, ends.until), (None, at(3700)));
        let absurd = json!({ "iat": 100, "exp": i64::MAX });
        for none in [
            token(&json!({ "iat": 100 })),
            token(&absurd),
            token(&json!({ "exp": "soon" })),
            token(&json!([])),
            "a.!.c".to_owned(),
            "abcdef".to_owned(),
            String::new(),
        ] {
            assert_eq!(of_token(&none), None, "{none}");
        }
        let user = |token: &str| json!({ "user": { "token": token } });
        let later = token(&json!({ "iat": 100, "exp": 7300 }));
        let users = json!({ "users": [user("opaque"), user(&later), user(&both), { "user": {} }] });
        assert_eq!(super::life(users.to_string().as_bytes()), Some(life(3700)));
        for none in [&b"\xff"[..], b"a: [", b"users: {}", b""] {
            assert_eq!(super::life(none), None);
        }
    }

    #[test]
    fn it_is_time_when_a_third_is_left_or_a_week() {
        let said = |since: Option<i64>, until: i64, now: i64| {
            let (since, until) = (since.map(at), at(until));
            warning(Life { since, until }, at(now))
        };
        assert_eq!(said(Some(0), 90 * DAY, 59 * DAY), None);
        let soon = said(Some(0), 90 * DAY, 61 * DAY);
        assert_eq!(soon.as_deref(), Some("ends in 29d"));
        assert_eq!(said(None, 90 * DAY, 82 * DAY), None);
        let week = said(None, 90 * DAY, 84 * DAY);
        assert_eq!(week.as_deref(), Some("ends in 6d"));
        let over = said(Some(0), 90 * DAY, 90 * DAY + 300);
        assert_eq!(over.as_deref(), Some("ended 5m ago"));
    }
}
