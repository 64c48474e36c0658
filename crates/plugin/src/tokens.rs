//! When the tokens end that Targets use. Pilotage renews those of `connect`; who puts in others renews them, and is
//! warned here, as of one that couldn't be renewed.

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use pilotage_api::keys;
use pilotage_api::token::Token;
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
        let found = found.ok()??;
        let annotations = found.metadata.annotations.unwrap_or_default();
        let data = found.data?;
        let lives = data.values().filter_map(|it| life(&it.0));
        let life = lives.min_by_key(|life| life.until)?;
        let ends = warning(life, now)?;
        let instead = if annotations.contains_key(keys::TOKEN_LIFE) {
            "Pilotage couldn't renew it yet, and the Target's condition TokenRenewed or Connected says why"
        } else {
            "put a kubeconfig with a new one there"
        };
        Some(format!(
            "the token in Secret {namespace}/{name}, which {} uses, {ends}; {instead}",
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

/// The tokens in a kubeconfig.
fn of_kubeconfig(kubeconfig: &str) -> Vec<String> {
    let kubeconfig: Option<Value> = serde_saphyr::from_str(kubeconfig).ok();
    let users = kubeconfig.as_ref().and_then(|it| it["users"].as_array());
    let users = users.into_iter().flatten();
    let tokens = users.filter_map(|user| user["user"]["token"].as_str());
    tokens.map(str::to_owned).collect()
}

/// The life of the token of a kubeconfig that ends first, of those that end.
fn life(kubeconfig: &[u8]) -> Option<Life> {
    let tokens = of_kubeconfig(std::str::from_utf8(kubeconfig).ok()?);
    let lives = tokens.iter().filter_map(|token| of_token(token));
    lives.min_by_key(|life| life.until)
}

/// The token of a service account in a kubeconfig, if it has one.
pub(crate) fn of_account(kubeconfig: &str, namespace: &str, name: &str) -> Option<String> {
    let is_its = |token: &String| {
        let account = Token::parse(token).and_then(|token| token.account);
        account.is_some_and(|it| it.namespace == namespace && it.name == name)
    };
    of_kubeconfig(kubeconfig).into_iter().find(is_its)
}

/// Nobody's word is taken for a token but the API server's: this is only a warning.
fn of_token(token: &str) -> Option<Life> {
    let Token { since, until, .. } = Token::parse(token)?;
    let until = until?;
    Some(Life { since, until })
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
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
        for none in [token(&json!({ "iat": 100 })), "abcdef".to_owned()] {
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
    fn the_token_of_an_account_is_known_by_what_it_says() {
        let of = |account: &str| {
            token(&json!({ "sub": format!("system:serviceaccount:shop:{account}") }))
        };
        let (london, paris) = (of("london"), of("paris"));
        let user = |token: &str| json!({ "user": { "token": token } });
        let users = json!({ "users": [user("opaque"), user(&paris), user(&london)] });
        let found = |namespace, name| of_account(&users.to_string(), namespace, name);
        assert_eq!(found("shop", "london"), Some(london));
        assert_eq!(found("bank", "london"), None);
        assert_eq!(of_account("no: [", "shop", "london"), None);
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
