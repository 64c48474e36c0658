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
        let client = door::client(config, self.component, &self.allowed, budget)
            .map_err(|error| unusable(&error))?;
        probe::ask(&client, self.timeout).await
    }
}
