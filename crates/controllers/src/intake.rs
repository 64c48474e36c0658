//! Takes in what has happened, piece by piece: a panic about one object loses no other piece. It must not know what the
//! pieces mean.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::Resource;
use pilotage_clusters::Event;
use pilotage_runtime::caught::caught;

use crate::fleet::FleetEvent;

/// Takes in what has come until now, with pauses, and no more than that: whoever sends without end keeps nobody from
/// deciding.
macro_rules! take_in {
    ($slice:expr, $edge:expr, $($receiver:expr => $take:ident,)*) => { $(
        for _ in 0..$receiver.len() {
            let Ok(news) = $receiver.try_recv() else { break };
            $edge.take_in(news, Self::$take);
            $slice.pause().await;
        }
    )* };
}
pub(crate) use take_in;

/// What a piece of news is about.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum About {
    /// A pod as it is now, or was last.
    Pod(Arc<Pod>),
    /// The proxy pod with this UID.
    Proxy(String),
    /// Something else, of this kind and name.
    Other(&'static str, String),
}

/// A piece of news.
pub(crate) trait News {
    /// What it is about.
    fn about(&self) -> About;
}

/// Who takes news in.
pub(crate) trait Intake: Sized {
    /// The pod's author hears of a mistake of ours.
    fn mistaken(&mut self, pod: &Pod, panic: &str);

    /// As [`Self::mistaken`], if there is a proxy pod with this UID.
    fn mistaken_about(&mut self, uid: &str, panic: &str);

    /// Takes a piece of news in.
    fn take_in<N: News>(&mut self, news: N, take: fn(&mut Self, N)) {
        // What they are about is read from other people's words, too.
        let mut about = About::Other("news", String::new());
        let taken = caught(|| {
            about = news.about();
            take(self, news);
        });
        let Err(panic) = taken else {
            return;
        };
        match &about {
            About::Pod(pod) => {
                let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
                tracing::error!(namespace, name, panic, "taking a pod in panicked");
                self.mistaken(pod, &panic);
            }
            About::Proxy(uid) => {
                tracing::error!(pod = uid, panic, "taking news of a pod in panicked");
                self.mistaken_about(uid, &panic);
            }
            About::Other(kind, name) => {
                tracing::error!(kind, name, panic, "taking an object in panicked");
            }
        }
    }
}

/// What an event of a watch is about, where its objects are no pods.
pub(crate) fn about_object<K: Resource>(kind: &'static str, event: &Event<K>) -> About {
    let name = match event {
        Event::Applied(object) | Event::Deleted(object) | Event::Gone(object) => {
            object.meta().name.clone()
        }
        Event::Synced => None,
    };
    About::Other(kind, name.unwrap_or_default())
}

impl News for Event<Pod> {
    fn about(&self) -> About {
        match self {
            Self::Applied(pod) | Self::Deleted(pod) | Self::Gone(pod) => {
                About::Pod(Arc::clone(pod))
            }
            Self::Synced => About::Other("Pod", String::new()),
        }
    }
}

impl News for FleetEvent {
    fn about(&self) -> About {
        match self {
            Self::Serves(node, _)
            | Self::Turn(node)
            | Self::Reach(node, _)
            | Self::Terms(node, _)
            | Self::Words(node, _) => About::Other("target", node.clone()),
            Self::Chaperon(node, news, _) => {
                let meta = &news.chaperon().metadata;
                let namespace = meta.namespace.as_deref().unwrap_or_default();
                let name = meta.name.as_deref().unwrap_or_default();
                About::Other("PodChaperon", format!("{node}: {namespace}/{name}"))
            }
            Self::TurnedAway(target, _) => {
                About::Other("target", target.name.clone().unwrap_or_default())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Log(Vec<String>);

    impl Intake for Log {
        fn mistaken(&mut self, pod: &Pod, panic: &str) {
            let name = pod.metadata.name.as_deref().unwrap_or_default();
            self.0.push(format!("{name}: {panic}"));
        }

        fn mistaken_about(&mut self, uid: &str, panic: &str) {
            self.0.push(format!("{uid}: {panic}"));
        }
    }

    impl Log {
        fn take(&mut self, event: Event<Pod>) {
            if let Event::Applied(pod) = event {
                let name = pod.metadata.name.clone().unwrap_or_default();
                assert!(name != "bad", "on purpose");
                self.0.push(name);
            }
        }

        fn take_uid(&mut self, Answer(uid): Answer) {
            assert!(uid != "bad-uid", "on purpose");
            self.0.push(uid);
        }
    }

    struct Answer(String);

    impl News for Answer {
        fn about(&self) -> About {
            About::Proxy(self.0.clone())
        }
    }

    #[test]
    fn a_panic_about_one_pod_is_told_on_it_and_loses_no_other_news() {
        let mut log = Log::default();
        for name in ["a", "bad", "b"] {
            let mut pod = Pod::default();
            pod.metadata.name = Some(name.to_owned());
            log.take_in(Event::Applied(Arc::new(pod)), Log::take);
        }
        for uid in ["bad-uid", "c"] {
            log.take_in(Answer(uid.to_owned()), Log::take_uid);
        }
        let want = ["a", "bad: on purpose", "b", "bad-uid: on purpose", "c"];
        assert_eq!(log.0, want);
    }

    /// News of which nobody can say what they are about.
    struct Odd;

    impl News for Odd {
        fn about(&self) -> About {
            panic!("on purpose")
        }
    }

    #[test]
    fn news_that_are_about_nothing_are_lost_alone() {
        let mut log = Log::default();
        log.take_in(Odd, |log, _| log.0.push("odd".to_owned()));
        log.take_in(Answer("c".to_owned()), Log::take_uid);
        assert_eq!(log.0, ["c"]);
    }
}
