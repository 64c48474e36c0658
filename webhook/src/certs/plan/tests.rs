use super::super::{check, issue};
use super::*;

fn names() -> Vec<String> {
    vec![
        "pilotage-webhook.pilotage.svc".to_owned(),
        "127.0.0.1".to_owned(),
    ]
}

fn hours(hours: i64) -> SignedDuration {
    SignedDuration::from_hours(hours)
}

fn timings() -> Timings {
    Timings {
        ca: hours(3000),
        serving: hours(300),
        overlap: hours(1),
    }
}

fn begin() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn take(step: &Step, material: Option<&Material>, now: Timestamp) -> Material {
    issue::perform(step, material, &names(), now, &timings())
        .unwrap()
        .unwrap()
}

fn fresh() -> Material {
    take(&Step::Create, None, begin())
}

fn at(material: &Material, hours_later: i64) -> Step {
    decide(
        Some(material),
        &names(),
        begin() + hours(hours_later),
        &timings(),
    )
}

#[test]
fn timings_must_leave_room_for_a_rotation() {
    let hours = |hours: u64| Duration::from_secs(hours * 3600);
    for (ca, serving, overlap, want) in [
        (3000, 300, 1, Ok(timings())),
        (
            903,
            300,
            1,
            Ok(Timings {
                ca: super::tests::hours(903),
                ..timings()
            }),
        ),
        (902, 300, 1, Err(TimingsError::Order)),
        (3000, 0, 1, Err(TimingsError::Zero)),
        (3000, 300, 0, Err(TimingsError::Zero)),
        (1_000_000, 300, 1, Err(TimingsError::TooLong)),
    ] {
        assert_eq!(
            Timings::new(hours(ca), hours(serving), hours(overlap)),
            want,
            "{ca} {serving} {overlap}"
        );
    }
    let forever = Timings::new(Duration::MAX, Duration::MAX, Duration::MAX);
    assert_eq!(forever, Err(TimingsError::TooLong));
}

#[test]
fn steps_come_at_their_time() {
    assert_eq!(decide(None, &names(), begin(), &timings()), Step::Create);
    let fresh = fresh();
    for (hours_later, want) in [
        (
            0,
            Step::Keep {
                until: begin() + hours(200),
            },
        ),
        (
            199,
            Step::Keep {
                until: begin() + hours(200),
            },
        ),
        (200, Step::Renew(Renewal::Age)),
        (1000, Step::Renew(Renewal::Age)),
        (
            2000,
            Step::Publish {
                from: begin() + hours(2001),
            },
        ),
        (
            2999,
            Step::Publish {
                from: begin() + hours(2999) + SignedDuration::from_mins(30),
            },
        ),
        (3000, Step::Create),
    ] {
        assert_eq!(at(&fresh, hours_later), want, "after {hours_later} h");
    }
}

#[test]
fn another_name_needs_another_certificate_and_takes_none_away() {
    let fresh = fresh();
    let moved = vec!["elsewhere.svc".to_owned()];
    let step = decide(Some(&fresh), &moved, begin(), &timings());
    assert_eq!(step, Step::Renew(Renewal::Names));
    let both = issue::perform(&step, Some(&fresh), &moved, begin(), &timings())
        .unwrap()
        .unwrap();
    assert!(
        matches!(at(&both, 0), Step::Keep { .. }),
        "the replica with the old name has no reason to write again"
    );
    check::usable(&both, &[names(), moved].concat(), begin()).unwrap();
    assert_eq!(both.ca, fresh.ca);
}

#[test]
fn a_rotation_goes_its_three_steps() {
    let published = take(&at(&fresh(), 2000), Some(&fresh()), begin() + hours(2000));
    assert!(
        matches!(at(&published, 2000), Step::Renew(Renewal::Age)),
        "the certificate of the first day is long over"
    );
    let renewed = take(
        &Step::Renew(Renewal::Age),
        Some(&published),
        begin() + hours(2000),
    );
    assert_eq!(
        at(&renewed, 2000),
        Step::Keep {
            until: begin() + hours(2001)
        }
    );
    assert_eq!(
        at(&renewed, 2001),
        Step::Switch {
            until: begin() + hours(2002)
        }
    );
    let switched = take(&at(&renewed, 2001), Some(&renewed), begin() + hours(2001));
    assert_eq!(switched.ca, renewed.next.unwrap().ca);
    assert_eq!(
        at(&switched, 2001),
        Step::Keep {
            until: begin() + hours(2002)
        }
    );
    assert_eq!(at(&switched, 2002), Step::Retire);
    let retired = take(&Step::Retire, Some(&switched), begin() + hours(2002));
    assert_eq!((retired.next, retired.retired), (None, None));
}

#[test]
fn at_any_time_every_api_server_trusts_what_every_replica_shows() {
    // Three lives of a CA. Whoever is one step late, API server or replica, is still understood.
    let (mut now, end) = (begin(), begin() + hours(9500));
    let mut material = fresh();
    let mut steps = std::collections::BTreeMap::new();
    while now < end {
        let step = decide(Some(&material), &names(), now, &timings());
        let name = format!("{step:?}")
            .split([' ', '('])
            .next()
            .unwrap_or_default()
            .to_owned();
        *steps.entry(name).or_insert(0) += 1;
        if let Step::Keep { until } = step {
            assert!(until > now);
            now = until;
            check::usable(&material, &names(), now).unwrap();
            continue;
        }
        let new = take(&step, Some(&material), now);
        check::usable(&new, &names(), now).unwrap();
        check::accepted(&material.bundle(), &new.serving.certificate, &names(), now)
            .unwrap_or_else(|error| panic!("{step:?}: an API server with the old bundle: {error}"));
        check::accepted(&new.bundle(), &material.serving.certificate, &names(), now)
            .unwrap_or_else(|error| {
                panic!("{step:?}: a replica with the old certificate: {error}")
            });
        assert!(
            new.serving.not_after.duration_since(now) >= hours(100),
            "{step:?}: renewed well before its end"
        );
        material = new;
    }
    assert_eq!(steps.get("Create"), None, "{steps:?}");
    assert_eq!(
        (steps["Publish"], steps["Switch"], steps["Retire"]),
        (4, 4, 4),
        "{steps:?}"
    );
}

#[test]
fn a_certificate_is_good_for_its_names_and_its_time_only() {
    let fresh = fresh();
    let accepted = |name: &str, now| check::usable(&fresh, &[name.to_owned()], now).is_ok();
    assert!(accepted("127.0.0.1", begin()));
    assert!(
        accepted("127.0.0.1", begin() - SignedDuration::from_mins(50)),
        "for clocks that are behind"
    );
    assert!(!accepted("127.0.0.2", begin()));
    assert!(!accepted("127.0.0.1", begin() + hours(301)));
    let other = take(&Step::Create, None, begin() + hours(1));
    assert!(
        check::accepted(
            &other.bundle(),
            &fresh.serving.certificate,
            &names(),
            begin()
        )
        .is_err()
    );
}
