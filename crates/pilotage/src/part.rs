//! The parts that a process can be made of: their names and the rules that their roles consist of.

use std::fmt;

use clap::ValueEnum;
use pilotage_runtime::rbac::Rule;

use crate::cmd;

/// A part of Pilotage that runs on its own under a role of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Part {
    /// Turns elected pods into proxy pods (source).
    Webhook,
    /// Keeps targets, virtual nodes, sources, chaperons and statuses in order (source and target).
    Controllers,
    /// Chooses a target for each proxy pod (source).
    ProxyScheduler,
    /// Reserves and binds candidates (target).
    CandidateScheduler,
    /// Places Gardener's Shoots (a garden). Runs on its own.
    GardenerScheduler,
    /// Gives pods nodes of their own cluster (any cluster). Runs on its own.
    Scheduler,
}

impl Part {
    /// Those of a source or a target, which "all" runs.
    pub(crate) const ALL: [Self; 4] = [
        Self::Webhook,
        Self::Controllers,
        Self::ProxyScheduler,
        Self::CandidateScheduler,
    ];

    /// One of those that "all" runs, by name.
    pub(crate) fn of_all(name: &str) -> Result<Self, String> {
        let part = <Self as ValueEnum>::from_str(name, false).ok();
        part.filter(|part| Self::ALL.contains(part)).ok_or_else(|| {
            let names = Self::ALL.map(Self::name);
            format!("expected one of {}", names.join(", "))
        })
    }

    /// Name of its command and its client.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Webhook => "webhook",
            Self::Controllers => "controllers",
            Self::ProxyScheduler => "proxy-scheduler",
            Self::CandidateScheduler => "candidate-scheduler",
            Self::GardenerScheduler => "gardener-scheduler",
            Self::Scheduler => "scheduler",
        }
    }

    /// Name of its roles and its Lease in a cluster.
    pub(crate) fn object_name(self) -> String {
        format!("pilotage-{}", self.name())
    }

    /// What it may do: the tables of all components that it is made of.
    pub(crate) fn rules(self) -> Vec<&'static Rule> {
        let tables: &[&[Rule]] = match self {
            Self::Webhook => cmd::webhook::RULES,
            Self::Controllers => cmd::controllers::RULES,
            Self::ProxyScheduler => cmd::proxy_scheduler::RULES,
            Self::CandidateScheduler => cmd::candidate_scheduler::RULES,
            Self::GardenerScheduler => cmd::gardener_scheduler::RULES,
            Self::Scheduler => cmd::scheduler::RULES,
        };
        tables.iter().copied().flatten().collect()
    }

    /// Roles that it gives to others, by name.
    pub(crate) const fn given_roles(self) -> &'static [(&'static str, &'static [Rule])] {
        match self {
            Self::Controllers => cmd::controllers::GIVEN_ROLES,
            Self::Webhook
            | Self::ProxyScheduler
            | Self::CandidateScheduler
            | Self::GardenerScheduler
            | Self::Scheduler => &[],
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_may_do_everything() {
        for part in Part::value_variants() {
            let rules = part.rules();
            assert!(!rules.is_empty(), "{part}");
            for rule in rules {
                for list in [rule.groups, rule.resources, rule.verbs] {
                    assert!(!list.contains(&"*"), "{part}: {rule:?}");
                }
            }
        }
    }
}
