//! Quirks of Gardener's scheduler: each with the switch on, where it is replicated, and off, where it is mended.

use pilotage_placement::{
    Candidate, CandidateNetworks, Cidr, Families, ObservedNetworks, Request, RequestNetworks,
    Selection, Settings, ZoneMode, select,
};

use crate::world::{
    all, candidate, cidr, mended, near, ranking, rejections, request, restrictions, strings, taint,
    toleration, zoned,
};

/// With the quirks, and without them.
fn both(request: &Request, candidates: &[Candidate]) -> (Selection, Selection) {
    let settings = Settings::default();
    assert!(settings.gardener_compatible);
    (
        select(request, candidates, &settings),
        select(request, candidates, &mended(&settings)),
    )
}

#[test]
fn q05_zones_that_a_zonal_request_demands() {
    let request = Request {
        zonal: true,
        zones: all(&["a", "b", "x"]),
        ..request("foo", "europe")
    };
    let seeds = [zoned("s", ZoneMode::Ignore, &["a", "b", "c"])];
    let (compatible, mended) = both(&request, &seeds);
    assert_eq!(ranking(&compatible), ["s"]);
    assert_eq!(
        rejections(&mended),
        ["s: Zones: has no zone \"x\", which is demanded"]
    );
}

#[test]
fn q06_those_who_prefer_zones_give_way_to_nobody_nearer() {
    let request = Request {
        zones: near(&["a"]),
        ..request("foo", "europe")
    };
    let seeds = [
        zoned("careless", ZoneMode::Ignore, &["y"]),
        zoned("prefers", ZoneMode::Prefer, &["x"]),
    ];
    let (compatible, mended) = both(&request, &seeds);
    assert_eq!(ranking(&compatible), ["careless"]);
    assert_eq!(ranking(&mended), ["careless", "prefers"]);
    // To one that is nearer they give way in any case.
    let nearer = [
        zoned("careless", ZoneMode::Ignore, &["a"]),
        seeds[1].clone(),
    ];
    let (compatible, mended) = both(&request, &nearer);
    assert_eq!(ranking(&compatible), ["careless"]);
    assert_eq!(ranking(&mended), ["careless"]);
}

#[test]
fn q07_a_status_that_has_only_egress() {
    let request = Request {
        networks: Some(RequestNetworks {
            observed: Some(ObservedNetworks::default()),
            ..RequestNetworks::default()
        }),
        ..request("foo", "europe")
    };
    let (compatible, mended) = both(&request, &[candidate("s", "foo", "europe")]);
    assert_eq!(
        rejections(&compatible),
        ["s: Networks: service network is not known, pod network is not known"]
    );
    assert_eq!(ranking(&mended), ["s"]);
}

#[test]
fn q17_zones_that_are_listed_twice() {
    let request = Request {
        zonal: true,
        ..request("foo", "europe")
    };
    let seeds = [zoned("s", ZoneMode::Ignore, &["a", "b", "b"])];
    let (compatible, mended) = both(&request, &seeds);
    assert_eq!(ranking(&compatible), ["s"]);
    assert_eq!(
        rejections(&mended),
        ["s: Zonal: has 2 of 3 zones that are needed to survive the loss of one"]
    );
}

#[test]
fn q18_access_restrictions_that_are_asked_for_twice() {
    let request = Request {
        access_restrictions: strings(&["eu", "eu"]),
        ..request("foo", "europe")
    };
    let seeds = [Candidate {
        access_restrictions: restrictions(&["eu"]),
        ..candidate("s", "foo", "europe")
    }];
    let (compatible, mended) = both(&request, &seeds);
    assert_eq!(ranking(&compatible), Vec::<&str>::new());
    assert_eq!(ranking(&mended), ["s"]);
}

#[test]
fn q19_taints_that_are_there_twice() {
    let request = Request {
        tolerations: vec![toleration("a", None)],
        ..request("foo", "europe")
    };
    let seeds = [Candidate {
        taints: vec![taint("a", None), taint("a", None)],
        ..candidate("s", "foo", "europe")
    }];
    let (compatible, mended) = both(&request, &seeds);
    assert_eq!(
        rejections(&compatible),
        ["s: Taints: has 2 taints, more than the 1 tolerations"]
    );
    assert_eq!(ranking(&mended), ["s"]);
}

#[test]
fn q20_ipv4_without_ranges_and_without_defaults() {
    let families = Families {
        v4: true,
        v6: false,
    };
    let networks = |workerless: bool, observed: Option<ObservedNetworks>| Request {
        networks: Some(RequestNetworks {
            families,
            workerless,
            observed,
            ..RequestNetworks::default()
        }),
        ..request("foo", "europe")
    };
    let with_defaults = Candidate {
        networks: CandidateNetworks {
            default_pods: cidr("100.96.0.0/11"),
            default_services: cidr("100.64.0.0/13"),
            ..CandidateNetworks::default()
        },
        ..candidate("with", "foo", "europe")
    };
    let seeds = [candidate("without", "foo", "europe"), with_defaults];
    let (compatible, mended) = both(&networks(false, None), &seeds);
    assert_eq!(ranking(&compatible), ["with", "without"]);
    assert_eq!(ranking(&mended), ["with"]);
    assert_eq!(
        rejections(&mended),
        ["without: Networks: service network is not known, pod network is not known"]
    );
    let (_, mended) = both(&networks(true, None), &seeds);
    assert_eq!(
        rejections(&mended),
        ["without: Networks: service network is not known"]
    );
    let known = ObservedNetworks {
        services: vec![Cidr::new("10.1.0.0/16")],
        pods: vec![Cidr::new("10.2.0.0/16")],
        ..ObservedNetworks::default()
    };
    let (_, mended) = both(&networks(false, Some(known)), &seeds);
    assert_eq!(ranking(&mended), ["with", "without"]);
}
