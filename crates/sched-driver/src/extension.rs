//! Asks extenders, each within its time. Owns the order of questions and what a missing answer is; what they mean is
//! the scheduler's business. How an extender is reached is up to whoever configures it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use pilotage_runtime::caught::caught_async;
use pilotage_sched::{AnswerError, Extender, Filtered, NodeName, Paused, PodInfo, Question};

/// A way to an extender.
pub trait AskExtender: Send + Sync + 'static {
    /// Which of these nodes will do for the pod.
    fn filter<'a>(
        &'a self,
        pod: &'a PodInfo,
        nodes: &'a [NodeName],
    ) -> BoxFuture<'a, Result<Filtered, String>>;

    /// How good these nodes are for the pod, from 0 to 10.
    fn prioritize<'a>(
        &'a self,
        pod: &'a PodInfo,
        nodes: &'a [NodeName],
    ) -> BoxFuture<'a, Result<BTreeMap<NodeName, i64>, String>>;
}

/// An extender and the way to it.
#[derive(Clone)]
pub struct Extension {
    /// What is known of it. Its name is unique.
    pub extender: Extender,
    /// Asks it.
    pub client: Arc<dyn AskExtender>,
    /// An answer that takes longer is none.
    pub timeout: Duration,
}

impl fmt::Debug for Extension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Extension")
            .field("extender", &self.extender)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

impl Extension {
    /// What it says within its time. A panic in its client is no answer.
    async fn answer<T>(&self, asked: impl Future<Output = Result<T, String>>) -> Result<T, String> {
        let answer = tokio::time::timeout(self.timeout, caught_async(asked)).await;
        match answer {
            Ok(Ok(answer)) => answer,
            Ok(Err(panic)) => Err(panic),
            Err(_) => Err(format!("no answer within {:?}", self.timeout)),
        }
    }
}

/// Asks all that an attempt waits for. What is wrong with an answer goes to the log.
pub(crate) async fn ask(extensions: &[Extension], paused: &mut Paused) {
    let pod = paused.pod().clone();
    loop {
        let taken = match paused.question() {
            Question::None => return,
            Question::Filter(extender, nodes) => {
                let answer = match of(extensions, extender) {
                    Some(one) => {
                        one.answer(async { one.client.filter(&pod, nodes).await })
                            .await
                    }
                    None => Err(unknown()),
                };
                paused.filtered(answer)
            }
            Question::Prioritize(extender, nodes) => {
                let answer = match of(extensions, extender) {
                    Some(one) => {
                        one.answer(async { one.client.prioritize(&pod, nodes).await })
                            .await
                    }
                    None => Err(unknown()),
                };
                paused.prioritized(answer)
            }
        };
        if let Err(error) = taken {
            log(&pod, &error);
        }
    }
}

fn of<'a>(extensions: &'a [Extension], extender: &Extender) -> Option<&'a Extension> {
    let mut all = extensions.iter();
    all.find(|one| one.extender.name == extender.name)
}

fn unknown() -> String {
    "nobody knows how to reach it".to_owned()
}

fn log(pod: &PodInfo, error: &AnswerError) {
    tracing::warn!(pod = %pod.key, %error, "an extender gave no answer");
}
