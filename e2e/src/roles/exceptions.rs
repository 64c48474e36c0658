//! What can't be derived from logs of requests, each line with its reason. A line that isn't needed any more fails.

use std::fmt;

/// A right that no request shows, because the API server asks for it inside another request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Inside {
    /// The right: verb and resource.
    pub(super) right: (&'static str, &'static str),
    /// It was used if one of these was, in a request that was done.
    pub(super) by: &'static [(&'static str, &'static str)],
}

/// A right that is granted though no test uses it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unused {
    pub(super) role: &'static str,
    pub(super) verb: &'static str,
    pub(super) resource: &'static str,
    /// It depends on the moment whether a test uses it; otherwise none does. `make roles` tells when one did.
    pub(super) seldom: bool,
    pub(super) why: &'static str,
}

impl Unused {
    const fn never(
        role: &'static str,
        (verb, resource): (&'static str, &'static str),
        why: &'static str,
    ) -> Self {
        Self {
            role,
            verb,
            resource,
            seldom: false,
            why,
        }
    }

    const fn seldom(
        role: &'static str,
        right: (&'static str, &'static str),
        why: &'static str,
    ) -> Self {
        Self {
            seldom: true,
            ..Self::never(role, right, why)
        }
    }
}

/// A request that some test makes sure is forbidden.
#[derive(Debug, Clone, Copy)]
pub(super) struct Forbidden {
    pub(super) agent: &'static str,
    pub(super) verb: &'static str,
    pub(super) resource: &'static str,
    /// In the part's own cluster, or in a target.
    pub(super) at_home: bool,
    pub(super) why: &'static str,
}

impl fmt::Display for Unused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            role,
            verb,
            resource,
            seldom: _,
            why,
        } = self;
        write!(f, "{role}: {verb} {resource} ({why})")
    }
}

impl fmt::Display for Forbidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            agent,
            verb,
            resource,
            at_home,
            why,
        } = self;
        let place = if *at_home { "at home" } else { "in a target" };
        write!(f, "{agent}: {verb} {resource} {place} ({why})")
    }
}

/// All of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Exceptions {
    pub(super) inside: &'static [Inside],
    pub(super) unused: &'static [Unused],
    pub(super) forbidden: &'static [Forbidden],
}

const CONTROLLERS: &str = "pilotage-controllers";
const PROXY: &str = "pilotage-proxy-scheduler";
const CANDIDATE: &str = "pilotage-candidate-scheduler";
const GARDENER: &str = "pilotage-gardener-scheduler";
const SCHEDULER: &str = "pilotage-scheduler";
const SOURCE: &str = "pilotage-source";

const SELF: &str = "for a cluster that is its own target; tests send the same request to others, under pilotage-source";
const LIVE: &str = "a live read settles a conflict, or a request that nobody answered";
const WEBSOCKETS: &str =
    "for API servers that speak WebSockets with kubelets; those here speak SPDY, which posts";
const AGAIN: &str = "an event that happens again soon is counted in the one that is there";

pub(super) const EXCEPTIONS: Exceptions = Exceptions {
    inside: &[
        Inside {
            right: ("bind", "clusterroles"),
            by: &[
                ("create", "rolebindings"),
                ("create", "clusterrolebindings"),
            ],
        },
        Inside {
            right: ("approve", "signers"),
            by: &[("update", "certificatesigningrequests/approval")],
        },
        // For references that block the deletion of their owner.
        Inside {
            right: ("update", "podchaperons/finalizers"),
            by: &[("create", "pods")],
        },
    ],
    unused: &[
        Unused::never(
            CONTROLLERS,
            ("create", "podchaperons"),
            "controllers review for the proxy scheduler what a Target with `self` gives; it may share their account",
        ),
        Unused::seldom(CONTROLLERS, ("get", "podchaperons"), SELF),
        Unused::seldom(PROXY, ("get", "podchaperons"), SELF),
        Unused::seldom(PROXY, ("delete", "podchaperons"), SELF),
        Unused::seldom(PROXY, ("get", "pods"), LIVE),
        Unused::seldom(CANDIDATE, ("get", "pods"), LIVE),
        Unused::seldom(SCHEDULER, ("get", "pods"), LIVE),
        Unused::seldom(SOURCE, ("get", "podchaperons"), LIVE),
        Unused::seldom(
            CONTROLLERS,
            ("watch", "certificatesigningrequests"),
            "the certificate may be there before it is watched for",
        ),
        Unused::seldom(CONTROLLERS, ("patch", "events"), AGAIN),
        Unused::seldom(PROXY, ("patch", "events"), AGAIN),
        Unused::seldom(CANDIDATE, ("patch", "events"), AGAIN),
        Unused::seldom(GARDENER, ("patch", "events"), AGAIN),
        Unused::seldom(SCHEDULER, ("patch", "events"), AGAIN),
        Unused::never(
            GARDENER,
            ("update", "shoots/binding"),
            "in tests a proxy serves bindings in front of the API server, as Gardener's own server would",
        ),
        Unused::never("pilotage-source-exec", ("get", "pods/exec"), WEBSOCKETS),
        Unused::never("pilotage-source-attach", ("get", "pods/attach"), WEBSOCKETS),
        Unused::never(
            "pilotage-source-port-forward",
            ("get", "pods/portforward"),
            WEBSOCKETS,
        ),
    ],
    forbidden: &[Forbidden {
        agent: "controllers",
        verb: "create",
        resource: "serviceaccounts/token",
        at_home: false,
        why: "a target takes the right to renew a token away, and the Target says so",
    }],
};
