//! Step `Domain`: a domain below one that candidates manage must be one that they would give themselves.
//!
//! It looks at all survivors together: a domain that none of them manages is the author's own and needs nothing.

use std::sync::Arc;

use crate::candidate::Candidate;
use crate::pipeline::{Context, Pass};
use crate::request::Domain;
use crate::selection::InputError;

/// It doesn't manage the domain, others do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("can't give the domain {0:?}")]
pub struct Reason(pub Arc<str>);

#[allow(clippy::unnecessary_wraps, reason = "all steps have one signature")]
pub(super) fn prepare(context: Context<'_>) -> Result<Pass<'_>, InputError> {
    let Some(wanted) = &context.request.domain else {
        return Ok(Pass::All);
    };
    let reason = Reason(wanted.domain.as_str().into());
    Ok(Pass::together(move |survivors| {
        if survivors.iter().any(|candidate| manages(candidate, wanted)) {
            survivors.keep(|candidate| {
                if gives(candidate, wanted) {
                    Ok(())
                } else {
                    Err(reason.clone())
                }
            });
        }
    }))
}

/// What the domain is below `default`, without the dot between them.
fn below<'a>(wanted: &'a Domain, default: &str) -> Option<&'a str> {
    wanted.domain.strip_suffix(default)?.strip_suffix('.')
}

fn manages(candidate: &Candidate, wanted: &Domain) -> bool {
    let mut domains = candidate.domains.iter();
    domains.any(|default| below(wanted, default).is_some())
}

/// Whether it is exactly the name that a candidate would give: request, project, one of its domains.
fn gives(candidate: &Candidate, wanted: &Domain) -> bool {
    candidate.domains.iter().any(|default| {
        let name = below(wanted, default).and_then(|below| below.strip_suffix(&wanted.project));
        name.and_then(|name| name.strip_suffix('.')) == Some(&wanted.name)
    })
}
