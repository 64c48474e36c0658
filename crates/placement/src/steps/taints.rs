//! Step `Taints`: a request must tolerate all taints of a candidate.

use std::collections::BTreeMap;

use crate::pipeline::{Context, Pass};
use crate::selection::InputError;

/// Why a candidate's taints aren't tolerated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// This one isn't.
    #[error("its taint {0} is not tolerated")]
    Untolerated(String),
    /// It has more taints than the request tolerations, one of them twice.
    #[error("has {taints} taints, more than the {tolerations} tolerations")]
    More {
        /// How many taints it has.
        taints: usize,
        /// How many tolerations the request has.
        tolerations: usize,
    },
}

#[allow(clippy::unnecessary_wraps, reason = "all steps have one signature")]
pub(super) fn prepare(context: Context<'_>) -> Result<Pass<'_>, InputError> {
    let tolerations = &context.request.tolerations;
    // The later one of two with one key counts.
    let tolerated: BTreeMap<_, _> = tolerations
        .iter()
        .map(|toleration| (&toleration.key, toleration.value.as_deref().unwrap_or("")))
        .collect();
    Ok(Pass::each(move |candidate| {
        for taint in &candidate.taints {
            let toleration = tolerated.get(&taint.key);
            match (toleration, &taint.value) {
                (Some(_), None) => {}
                (Some(value), Some(wanted)) if value == wanted => {}
                (_, None) => return Err(Reason::Untolerated(taint.key.clone())),
                (_, Some(value)) => {
                    return Err(Reason::Untolerated(format!("{}={value}", taint.key)));
                }
            }
        }
        // Gardener counts both before it looks at them, so that a taint that is there twice needs two tolerations.
        if context.settings.gardener_compatible && candidate.taints.len() > tolerations.len() {
            return Err(Reason::More {
                taints: candidate.taints.len(),
                tolerations: tolerations.len(),
            });
        }
        Ok(())
    }))
}
