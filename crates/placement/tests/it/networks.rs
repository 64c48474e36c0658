//! What networks rule a candidate out: ranges that are reserved, IPv6 overlaps, defaults, and what was observed.

use pilotage_placement::{
    Candidate, CandidateNetworks, Families, ObservedNetworks, Request, RequestNetworks, Settings,
    select,
};

use crate::world::{candidate, cidr, mended, rejections, request};

fn seed(networks: CandidateNetworks) -> Candidate {
    Candidate {
        networks,
        ..candidate("seed", "foo", "europe")
    }
}

fn shoot(networks: RequestNetworks) -> Request {
    Request {
        networks: Some(networks),
        ..request("foo", "europe")
    }
}

fn own(nodes: &str, pods: &str, services: &str) -> RequestNetworks {
    let given = |text: &str| cidr(text).filter(|_| !text.is_empty());
    RequestNetworks {
        nodes: given(nodes),
        pods: given(pods),
        services: given(services),
        families: Families {
            v4: true,
            v6: false,
        },
        ..RequestNetworks::default()
    }
}

fn v4() -> CandidateNetworks {
    CandidateNetworks {
        nodes: cidr("10.10.0.0/16"),
        pods: cidr("10.20.0.0/16"),
        services: cidr("10.30.0.0/16"),
        ..CandidateNetworks::default()
    }
}

/// What is wrong, one phrase each.
fn errors(
    networks: RequestNetworks,
    candidate: CandidateNetworks,
    settings: &Settings,
) -> Vec<String> {
    let selection = select(&shoot(networks), &[seed(candidate)], settings);
    let all = rejections(&selection).join("");
    let Some(text) = all.strip_prefix("seed: Networks: ") else {
        assert!(
            all.is_empty() && selection.winner().is_some(),
            "{selection:?}"
        );
        return Vec::new();
    };
    text.split(", ").map(ToOwned::to_owned).collect()
}

#[test]
fn reserved_ranges() {
    let vpn = "the default vpn network fd8f:6d53:b97a:1::/96";
    let api = "the kube-apiserver mapping range 240.0.0.0/8";
    let cases: &[(RequestNetworks, &[String])] = &[
        (own("10.10.0.0/16", "10.20.0.0/16", "10.30.0.0/16"), &[]),
        (own("10.0.0.0/8", "10.20.7.0/24", "10.0.0.0/8"), &[]),
        (own("", "", ""), &[]),
        (
            own("", "240.100.0.0/16", ""),
            &[format!("pod network 240.100.0.0/16 intersects {api}")],
        ),
        (
            own("", "", "240.100.0.0/16"),
            &[format!("service network 240.100.0.0/16 intersects {api}")],
        ),
        (
            own("240.100.0.0/16", "", ""),
            &[format!("node network 240.100.0.0/16 intersects {api}")],
        ),
        (
            own("243.1.0.0/16", "241.1.0.0/16", "242.1.0.0/16"),
            &[
                "node network 243.1.0.0/16 intersects the shoot service network mapping range 243.0.0.0/8"
                    .to_owned(),
                "service network 242.1.0.0/16 intersects the shoot node network mapping range 242.0.0.0/8"
                    .to_owned(),
                "pod network 241.1.0.0/16 intersects the seed pod network mapping range 241.0.0.0/8"
                    .to_owned(),
            ],
        ),
        (
            own("244.1.0.0/16", "244.2.0.0/16", "244.3.0.0/16"),
            &[
                "node network 244.1.0.0/16 intersects the shoot pod network mapping range 244.0.0.0/8"
                    .to_owned(),
                "service network 244.3.0.0/16 intersects the shoot pod network mapping range 244.0.0.0/8"
                    .to_owned(),
                "pod network 244.2.0.0/16 intersects the shoot pod network mapping range 244.0.0.0/8"
                    .to_owned(),
            ],
        ),
        (
            own("", "fd8f:6d53:b97a:1::/120", ""),
            &[format!(
                "pod network fd8f:6d53:b97a:1::/120 intersects {vpn}"
            )],
        ),
    ];
    for (networks, expected) in cases {
        for settings in [Settings::default(), mended(&Settings::default())] {
            let mut told = errors(networks.clone(), v4(), &settings);
            // What is missing is another quirk.
            told.retain(|error| !error.ends_with("is not known"));
            assert_eq!(told, *expected);
        }
    }
}

#[test]
fn networks_of_ipv6_must_not_overlap() {
    let candidate = CandidateNetworks {
        nodes: cidr("fd00:1::/32"),
        pods: cidr("fd00:2::/32"),
        services: cidr("fd00:3::/32"),
        ..CandidateNetworks::default()
    };
    let networks = own("fd00:1::/32", "fd00:2::/32", "fd00:3:5::/48");
    let text = |network: &str, cidr: &str| {
        format!("{network} network {cidr} intersects the candidate's {network} network")
    };
    assert_eq!(
        errors(networks, candidate.clone(), &Settings::default()),
        [
            text("node", "fd00:1::/32"),
            text("service", "fd00:3:5::/48"),
            text("pod", "fd00:2::/32")
        ]
    );
    // A range that spans them all, and one that spans none.
    let wide = errors(
        own("fd00::/16", "", ""),
        candidate.clone(),
        &Settings::default(),
    );
    assert_eq!(wide.len(), 3, "{wide:?}");
    assert!(errors(own("fd01::/16", "", ""), candidate, &Settings::default()).is_empty());
}

#[test]
fn defaults_of_the_candidate() {
    let with = |pods: Option<&str>, services: Option<&str>| CandidateNetworks {
        default_pods: pods.and_then(cidr),
        default_services: services.and_then(cidr),
        ..v4()
    };
    let none = own("", "", "");
    let bad = with(Some("240.1.0.0/16"), Some("241.1.0.0/16"));
    let check = |networks: RequestNetworks, candidate: &CandidateNetworks| {
        errors(networks, candidate.clone(), &Settings::default()).len()
    };
    assert_eq!(check(none.clone(), &bad), 2);
    // What is given counts instead.
    assert_eq!(check(own("", "10.1.0.0/16", ""), &bad), 1);
    // Of a family that isn't used; no family at all.
    let families = |v4, v6| RequestNetworks {
        families: Families { v4, v6 },
        ..none.clone()
    };
    assert_eq!(check(families(false, true), &bad), 0);
    assert_eq!(check(families(false, false), &bad), 0);
    // No pods without workers.
    let workerless = RequestNetworks {
        workerless: true,
        ..none.clone()
    };
    assert_eq!(check(workerless, &bad), 1);
    // Half of the defaults is fine.
    assert_eq!(check(none.clone(), &with(Some("10.1.0.0/16"), None)), 0);
    assert_eq!(check(none, &with(None, Some("10.1.0.0/16"))), 0);
}

#[test]
fn what_was_observed() {
    let observed = |nodes: &[&str], pods: &[&str], services: &[&str], workerless| {
        let list = |texts: &[&str]| texts.iter().filter_map(|text| cidr(text)).collect();
        RequestNetworks {
            workerless,
            observed: Some(ObservedNetworks {
                nodes: list(nodes),
                pods: list(pods),
                services: list(services),
            }),
            ..own("", "", "")
        }
    };
    let check = |networks| errors(networks, v4(), &Settings::default());
    let (pods, services) = ("pod network is not known", "service network is not known");
    assert!(check(observed(&[], &["10.1.0.0/16"], &["10.2.0.0/16"], false)).is_empty());
    assert_eq!(
        check(observed(&["10.3.0.0/16"], &[], &[], false)),
        [services, pods]
    );
    assert_eq!(
        check(observed(&["10.3.0.0/16"], &[], &[], true)),
        [services]
    );
    assert!(check(observed(&[], &[], &["10.2.0.0/16"], true)).is_empty());
    let second = check(observed(
        &[],
        &["10.1.0.0/16", "240.0.0.0/8"],
        &["10.2.0.0/16"],
        false,
    ));
    assert_eq!(second.len(), 1, "{second:?}");
}

#[test]
fn what_no_one_can_read_fits_nowhere() {
    let settings = Settings::default();
    for text in ["10.0.0.0", "", "nonsense/8"] {
        let networks = || RequestNetworks {
            pods: cidr(text),
            ..own("", "", "10.9.0.0/16")
        };
        assert_eq!(errors(networks(), v4(), &settings).len(), 6, "{text:?}");
        assert_eq!(
            errors(networks(), v4(), &mended(&settings)),
            [format!("pod network {text:?} is no range of addresses")]
        );
    }
    // A malformed network of the candidate concerns only those whose overlap is checked.
    let broken = CandidateNetworks {
        nodes: cidr("x"),
        ..v4()
    };
    assert!(errors(own("10.1.0.0/16", "", ""), broken.clone(), &settings).is_empty());
    assert_eq!(errors(own("fd00::/16", "", ""), broken, &settings).len(), 1);
}
