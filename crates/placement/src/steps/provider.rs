//! Step `Provider`: only providers that the request may be placed at.

use std::sync::Arc;

use crate::pipeline::{Context, Pass};
use crate::request::Providers;
use crate::selection::InputError;
use crate::strategy::same_provider;

/// It is of another provider.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is of provider {0:?}")]
pub struct Reason(pub Arc<str>);

#[allow(clippy::unnecessary_wraps, reason = "all steps have one signature")]
pub(super) fn prepare(context: Context<'_>) -> Result<Pass<'_>, InputError> {
    Ok(Pass::each(move |candidate| {
        let admitted = match &context.request.providers {
            Providers::Own => same_provider(context.request, candidate),
            Providers::Any => true,
            Providers::Listed(providers) => providers.contains(&*candidate.provider),
        };
        if admitted {
            Ok(())
        } else {
            Err(Reason(candidate.provider.clone()))
        }
    }))
}
