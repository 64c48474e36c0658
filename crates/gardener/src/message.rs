//! Owns the texts in which Gardener's users read why a Shoot has no Seed. Whoever parses them finds the same shapes
//! here: the first step that left nothing decides, and only those of F10 tell each Seed's reason.

use pilotage_placement::reasons::{NetworkError, Networks, Range, Zones};
use pilotage_placement::{
    Failure, InputError, Ranking, Reason, Request, Selection, Selector, SelectorError,
    SelectorFault, Settings, Step, ZoneHints,
};

use crate::kinds::GROUP;
use crate::request::RequestError;

/// What the texts are about.
#[derive(Clone, Copy, Debug)]
pub struct Texts<'a> {
    /// What was asked for.
    pub request: &'a Request,
    /// How it was selected.
    pub settings: &'a Settings,
    /// Name of the Shoot's profile.
    pub profile: &'a str,
}

impl Texts<'_> {
    /// Why nothing was selected, in Gardener's words; nothing if something was.
    pub fn failure(&self, selection: &Selection) -> Option<String> {
        Some(match selection.failure.as_ref()? {
            Failure::Empty { step, received } => self.empty(selection, *step, *received),
            Failure::Input(InputError::Selector { error, .. }) => conversion(error),
            Failure::Input(InputError::Row {
                table,
                region,
                error,
            }) => format!(
                "failed to determine seed candidates. Wrong format in region ConfigMap {table}, Region {region:?}: \
                 {error}"
            ),
            other => other.to_string(),
        })
    }

    fn empty(&self, selection: &Selection, step: Step, n: usize) -> String {
        let request = self.request;
        match step {
            Step::Usable => format!(
                "none of the {n} seeds is valid for scheduling (not deleting, visible and ready)"
            ),
            Step::ProfileSelector => labels(n, "CloudProfile", request.profile_selector.as_ref()),
            Step::OwnSelector => labels(n, "Shoot", request.own_selector.as_ref()),
            Step::Provider => format!(
                "none out of the {n} seeds has a matching provider for {:?}",
                request.provider.as_deref().unwrap_or_default()
            ),
            Step::Zonal => format!(
                "none of the {n} seeds has at least 3 zones for hosting a shoot control plane with failure tolerance \
                 type 'zone'"
            ),
            Step::Zones => self.zones(selection, n),
            Step::AccessRestrictions => format!(
                "none of the {n} seeds supports the access restrictions configured in the shoot specification"
            ),
            Step::Domain => format!(
                "none of the {n} seeds support the domain {:?} configured in the shoot specification",
                request.domain.as_ref().map_or("", |domain| &domain.domain)
            ),
            Step::EmergencyStop => {
                format!("none of the {n} seeds have enabled shoot reconciliations currently")
            }
            Step::Networks | Step::Taints | Step::Capacity => each(selection),
            Step::Strategy => {
                let strategy = match &self.settings.ranking {
                    Ranking::Strategy(strategy) => strategy.name(),
                    Ranking::Weighted(_) => "Weighted",
                };
                format!(
                    "no matching seed candidate found for Configuration (Cloud Profile '{}', Region '{}', \
                     SeedDeterminationStrategy '{strategy}')",
                    self.profile,
                    request.region.as_ref().map_or("", |region| region.name()),
                )
            }
            // Steps that the original doesn't have.
            step => format!("none of the {n} seeds has passed the step {step}"),
        }
    }

    fn zones(&self, selection: &Selection, n: usize) -> String {
        let demanded = selection
            .rejected
            .iter()
            .any(|rejection| matches!(rejection.reason, Reason::Zones(Zones::Missing(_))));
        let (ZoneHints::All(zones) | ZoneHints::Near(zones)) = &self.request.zones;
        if demanded {
            let zones: Vec<_> = zones.iter().map(String::as_str).collect();
            format!(
                "none of the {n} seeds contains all requested control plane zones [{}]",
                zones.join(" ")
            )
        } else {
            format!(
                "none of the {n} seeds has any zone overlap with the shoot's zones (zone selection mode: Enforce)"
            )
        }
    }
}

/// Why it doesn't come to a selection, in Gardener's words; what is missing, as its client says it.
pub fn unasked(error: &RequestError) -> String {
    match error {
        RequestError::NoProfile { .. } => "could not determine cloudprofile from shoot".to_owned(),
        RequestError::ProfileNotFound { kind, name, .. } => {
            format!("{kind}.{GROUP} {name:?} not found")
        }
        // It has no words for this.
        RequestError::ProfileUnreadable { .. } => error.to_string(),
        RequestError::NoProject { .. } => format!("projects.{GROUP} \"<unknown>\" not found"),
    }
}

fn labels(n: usize, kind: &str, selector: Option<&Result<Selector, SelectorError>>) -> String {
    let selector = match selector {
        Some(Ok(selector)) => selector.to_string(),
        _ => String::new(),
    };
    format!(
        "none out of the {n} seeds has the matching labels required by seed selector of '{kind}' (selector: \
         '{selector}')"
    )
}

/// As the original prints a selector that isn't one, which is Go's way to print what a selector is made of.
fn conversion(error: &SelectorError) -> String {
    let labels: Vec<_> = error
        .labels
        .iter()
        .map(|(key, value)| format!("{key}:{value}"))
        .collect();
    let expressions: Vec<_> = error
        .expressions
        .iter()
        .map(|one| {
            format!(
                "{{{} {} [{}]}}",
                one.key,
                one.operator,
                one.values.join(" ")
            )
        })
        .collect();
    let why = match &error.fault {
        SelectorFault::Operator { operator, .. } => {
            format!("{operator:?} is not a valid label selector operator")
        }
        other => other.to_string(),
    };
    format!(
        "label selector conversion failed: {{map[{}] [{}]}} for seedSelector: {why}",
        labels.join(" "),
        expressions.join(" ")
    )
}

/// Steps whose reasons are told for each Seed.
const TOLD_EACH: [Step; 3] = [Step::Networks, Step::Taints, Step::Capacity];

/// The reasons of these steps, by name of the Seed.
fn each(selection: &Selection) -> String {
    let mut reasons: Vec<_> = selection
        .rejected
        .iter()
        .filter(|rejection| TOLD_EACH.contains(&rejection.step()))
        .map(|rejection| (&rejection.name, rejection.index, reason(&rejection.reason)))
        .collect();
    reasons.sort();
    let list: Vec<_> = reasons
        .iter()
        .map(|(name, _, reason)| format!("{name} => {reason}"))
        .collect();
    format!(
        "0/{} seed cluster candidate(s) are eligible for scheduling: {{{}}}",
        list.len(),
        list.join(", ")
    )
}

fn reason(reason: &Reason) -> String {
    match reason {
        Reason::Networks(Networks(errors)) => {
            let errors: Vec<_> = errors.iter().map(network).collect();
            format!("invalid networks: [{}]", errors.join(" "))
        }
        Reason::Taints(_) => "shoot does not tolerate the seed's taints".to_owned(),
        Reason::Capacity(_) => "seed does not have available capacity for shoots".to_owned(),
        other => other.to_string(),
    }
}

fn network(error: &NetworkError) -> String {
    let invalid = |cidr: &str, detail: String| format!("Invalid value: {cidr:?}: {detail}");
    match error {
        NetworkError::Malformed { network, cidr } => invalid(
            cidr,
            format!("shoot {network} network is no range of addresses"),
        ),
        NetworkError::Candidate {
            network,
            cidr,
            with,
        } => {
            let detail = format!("shoot {network} network intersects with seed {with} network");
            invalid(cidr, detail)
        }
        NetworkError::Reserved {
            network,
            cidr,
            range,
        } => {
            let (purpose, reserved_cidr) = (range.purpose(), range.cidr());
            let reserved = match range {
                Range::Vpn => "",
                _ => "reserved ",
            };
            let detail = format!(
                "shoot {network} network intersects with {reserved}{purpose} ({reserved_cidr})"
            );
            invalid(cidr, detail)
        }
        NetworkError::Required(network) => {
            format!("Required value: {network}s is required")
        }
        other => other.to_string(),
    }
}
