//! Step `Strategy`: a strategy of Gardener's scheduler admits candidates. Weighted rules admit them all.

use std::sync::Arc;

use crate::pipeline::{Context, Pass};
use crate::selection::InputError;
use crate::settings::{Ranking, Strategy};
use crate::strategy::{Ruler, same_provider, same_region};

/// Why a strategy doesn't admit a candidate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// It is of another provider.
    #[error("is of provider {0:?}")]
    OtherProvider(Arc<str>),
    /// It is in another region.
    #[error("is in region {0:?}")]
    OtherRegion(Arc<str>),
    /// It is farther than a candidate may ever be.
    #[error("is too far away")]
    TooFar,
}

pub(super) fn prepare(context: Context<'_>) -> Result<Pass<'_>, InputError> {
    let request = context.request;
    Ok(match context.settings.ranking {
        _ if request.testing => Pass::each(move |candidate| {
            if same_provider(request, candidate) {
                Ok(())
            } else {
                Err(Reason::OtherProvider(candidate.provider.clone()))
            }
        }),
        Ranking::Strategy(Strategy::SameRegion) => Pass::each(move |candidate| {
            if !same_provider(request, candidate) {
                Err(Reason::OtherProvider(candidate.provider.clone()))
            } else if same_region(request.region.as_ref(), candidate) {
                Ok(())
            } else {
                Err(Reason::OtherRegion(candidate.region.shared_name()))
            }
        }),
        Ranking::Strategy(Strategy::MinimalDistance) => {
            let ruler = Ruler::new(request)?;
            Pass::measure(move |candidate| ruler.measure(candidate).ok_or(Reason::TooFar))
        }
        Ranking::Weighted(_) => Pass::All,
    })
}
