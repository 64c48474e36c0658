//! Tries credentials that nobody uses yet: does their server take them? What becomes of them is their owner's affair.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use crate::allow::Allowed;
use crate::args::Options;
use crate::budget::Budget;
use crate::connection::LostReason;
use crate::{door, kubeconfig, probe};

/// How credentials are tried: by the same door as those in use.
#[derive(Debug)]
pub(crate) struct Trial {
    component: &'static str,
    allowed: Allowed,
    /// For the answer.
    timeout: Duration,
}

impl Trial {
    pub(crate) fn of(options: &Options) -> Self {
        Self {
            component: options.component,
            allowed: options.allowed.clone(),
            timeout: options.probe.timeout,
        }
    }

    /// Asks their server as a probe does.
    pub(crate) async fn ask(
        &self,
        kubeconfig: &[u8],
        context: Option<&str>,
        budget: &Arc<Budget>,
    ) -> Result<(), LostReason> {
        let unusable = |error: &dyn Display| LostReason::Unreachable(error.to_string());
        let config = kubeconfig::parse(kubeconfig, context).map_err(|error| unusable(&error))?;
        let refused = |refusal| LostReason::Refused {
            secret: None,
            refusal,
        };
        self.allowed.check(&config).map_err(refused)?;
        let client = door::client(config, self.component, &self.allowed, budget)
            .map_err(|error| unusable(&error))?;
        probe::ask(&client, self.timeout).await
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{Piece, Server, head};

    #[tokio::test]
    async fn credentials_are_tried_only_where_targets_may_lead() {
        let server = Server::start(|_| {
            let answer = Piece::Bytes(b"ok".to_vec());
            vec![head("200 OK", "text/plain"), answer]
        })
        .await;
        let kubeconfig = json!({
            "current-context": "a", "contexts": [{ "name": "a", "context": { "cluster": "a", "user": "a" } }],
            "clusters": [{ "name": "a", "cluster": { "server": format!("http://{}", server.address) } }],
            "users": [{ "name": "a", "user": { "token": "t" } }],
        });
        let kubeconfig = kubeconfig.to_string();
        let strict = Options::new("test");
        let mut loose = strict.clone();
        loose.allowed.insecure = true;
        let mut elsewhere = loose.clone();
        elsewhere.allowed.places = ["10.0.0.0/8".parse().unwrap()].into();
        for (options, want) in [
            (strict, Some("InsecureServer")),
            (elsewhere, Some("ServerNotAllowed")),
            (loose, None),
        ] {
            let trial = Trial::of(&options);
            let received = Arc::default();
            let tried = trial.ask(kubeconfig.as_bytes(), None, &received);
            let why = tried.await.err().map(|reason| reason.word());
            assert_eq!(why, want);
        }
        assert_eq!(server.asked(), ["GET /readyz"]);
    }
}
