//! Waiting until an object shows what it should, and saying meanwhile what it shows. It knows no kind.

use std::fmt::Debug;
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{Api, Resource};
use kube_runtime::WatchStreamExt;
use kube_runtime::watcher::watch_object;
use serde::de::DeserializeOwned;

use crate::progress;

/// What an object shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shows {
    /// What was waited for.
    Done,
    /// Not yet, and this instead.
    Yet(String),
}

/// The same as [`until`], and says nothing meanwhile: others wait, too.
pub(crate) async fn quietly<K>(
    api: Api<K>,
    name: &str,
    limit: Duration,
    look: impl Fn(Option<&K>) -> Shows,
) -> Result<(), String>
where
    K: Resource + Clone + Debug + Send + DeserializeOwned + 'static,
{
    watch(api, name, limit, look, |_| {}).await
}

/// Waits until an object shows it; says what it shows meanwhile, and returns that when time is up.
pub(crate) async fn until<K>(
    api: Api<K>,
    name: &str,
    limit: Duration,
    look: impl Fn(Option<&K>) -> Shows,
) -> Result<(), String>
where
    K: Resource + Clone + Debug + Send + DeserializeOwned + 'static,
{
    watch(api, name, limit, look, |now| {
        progress(&format!("  … {now}"));
    })
    .await
}

async fn watch<K>(
    api: Api<K>,
    name: &str,
    limit: Duration,
    look: impl Fn(Option<&K>) -> Shows,
    say: impl Fn(&str),
) -> Result<(), String>
where
    K: Resource + Clone + Debug + Send + DeserializeOwned + 'static,
{
    let mut last = "the cluster hasn't answered".to_owned();
    let waiting = async {
        let mut states = pin!(watch_object(api, name).default_backoff());
        while let Some(state) = states.next().await {
            let now = match state {
                Ok(object) => match look(object.as_ref()) {
                    Shows::Done => return,
                    Shows::Yet(now) => now,
                },
                Err(error) => format!("can't watch it: {error}"),
            };
            if now != last {
                say(&now);
                last = now;
            }
        }
        // Such a stream has no end.
        std::future::pending::<()>().await;
    };
    tokio::time::timeout(limit, waiting).await.map_err(|_| last)
}

/// What conditions say of these types, all of which should be true for this generation.
pub(crate) fn conditions(
    all: &[Condition],
    generation: Option<i64>,
    types: &[&str],
    silent: &str,
) -> Shows {
    for type_ in types {
        let Some(it) = all.iter().find(|it| it.type_ == *type_) else {
            return Shows::Yet(silent.to_owned());
        };
        if it.status == "True"
            && (it.observed_generation.is_none() || it.observed_generation >= generation)
        {
            continue;
        }
        if it.status == "True" {
            return Shows::Yet("its last change hasn't been taken up".to_owned());
        }
        return Shows::Yet(format!(
            "{type_} is {} ({}): {}",
            it.status, it.reason, it.message
        ));
    }
    Shows::Done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_conditions_have_to_be_true_for_what_is_there_now() {
        let at = |type_: &str, status: &str, generation| Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: "Why".to_owned(),
            message: "so".to_owned(),
            observed_generation: generation,
            last_transition_time: k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
                k8s_openapi::jiff::Timestamp::UNIX_EPOCH,
            ),
        };
        let types = ["A", "B"];
        let shows = |all: &[Condition]| conditions(all, Some(2), &types, "nothing");
        assert_eq!(shows(&[]), Shows::Yet("nothing".to_owned()));
        assert_eq!(
            shows(&[at("A", "True", Some(2)), at("B", "True", None)]),
            Shows::Done
        );
        let old = Shows::Yet("its last change hasn't been taken up".to_owned());
        assert_eq!(
            shows(&[at("A", "True", Some(1)), at("B", "True", None)]),
            old
        );
        let no = Shows::Yet("B is False (Why): so".to_owned());
        assert_eq!(
            shows(&[at("A", "True", Some(2)), at("B", "False", Some(2))]),
            no
        );
    }
}
