//! Owns the texts in which Gardener's users read why a Shoot has no Seed. Whoever parses them finds the same shapes
//! here: the first step that left nothing decides, and only the last three tell each Seed's reason.

use pilotage_placement::reasons::{NetworkError, Networks, Zones};
use pilotage_placement::{
    Failure, InputError, Ranking, Reason, Request, Selection, Selector, SelectorError, Settings,
    Step, ZoneHints,
};

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
            Failure::Input(InputError::Selector { error, .. }) => {
                format!("label selector conversion failed: {error}")
            }
            Failure::Input(InputError::Row {
                table,
                region,
                error,
            }) => format!(
                "failed to determine seed candidates. Wrong format in region ConfigMap {table}, Region {region:?}: {error}"
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
                "none of the {n} seeds has at least 3 zones for a control plane with failure tolerance type 'zone'"
            ),
            Step::Zones => self.zones(selection, n),
            Step::AccessRestrictions => format!(
                "none of the {n} seeds supports the access restrictions configured in the shoot specification"
            ),
            Step::Domain => format!(
                "none of the {n} seeds support the domain {:?} of the shoot",
                request.domain.as_ref().map_or("", |domain| &domain.domain)
            ),
            Step::EmergencyStop => {
                format!("none of the {n} seeds have enabled shoot reconciliations currently")
            }
            Step::Networks | Step::Taints | Step::Capacity => each(selection),
            _ => {
                let strategy = match &self.settings.ranking {
                    Ranking::Strategy(strategy) => strategy.name(),
                    Ranking::Weighted(_) => "Weighted",
                };
                format!(
                    "no matching seed candidate found for the shoot (Cloud Profile '{}', Region '{}', SeedDeterminationStrategy '{strategy}')",
                    self.profile,
                    request.region.as_ref().map_or("", |region| region.name()),
                )
            }
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

fn labels(n: usize, kind: &str, selector: Option<&Result<Selector, SelectorError>>) -> String {
    let selector = match selector {
        Some(Ok(selector)) => selector.to_string(),
        _ => String::new(),
    };
    format!(
        "none out of the {n} seeds has the matching labels required by seed selector of '{kind}' (selector: '{selector}')"
    )
}

/// The reasons of the last three steps, by name of the Seed.
fn each(selection: &Selection) -> String {
    let mut reasons: Vec<_> = selection
        .rejected
        .iter()
        .filter(|rejection| rejection.step() >= Step::Networks)
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
            let (purpose, reserved) = (range.purpose(), range.cidr());
            let detail =
                format!("shoot {network} network intersects with reserved {purpose} ({reserved})");
            invalid(cidr, detail)
        }
        NetworkError::Required(network) => {
            format!("Required value: {network}s is required")
        }
        other => other.to_string(),
    }
}
