//! What the page has to show: 16 targets, and 2,000 pods in each.

use pilotage_dashboard::{Amount, Dashboard, NodeSeen, PodSeen, Stage, State};

pub(crate) const TARGETS: usize = 16;
pub(crate) const PODS: usize = 2000;
pub(crate) const WAITING: usize = 37;
/// What somebody might write who wants to see whether it runs.
pub(crate) const HOSTILE: &str =
    "<img src=x onerror=\"document.title='hit'\"><script>document.title='hit'</script>";
pub(crate) const CITIES: [&str; TARGETS] = [
    "amsterdam",
    "berlin",
    "cork",
    "dublin",
    "essen",
    "frankfurt",
    "ghent",
    "hamburg",
    "istanbul",
    "jena",
    "kyiv",
    "lyon",
    "madrid",
    "nice",
    "oslo",
    "paris",
];
/// This is so of a pod, for five minutes.
pub(crate) fn see(dashboard: &Dashboard, uid: &str, name: &str, stage: Stage, at: &str, why: &str) {
    let namespace = if at.len().is_multiple_of(2) {
        "shop"
    } else {
        "batch"
    };
    dashboard.paint(|picture, now| {
        let seen = PodSeen {
            uid,
            namespace,
            name,
            stage,
            at,
            why,
            since: Some(now - 300),
        };
        picture.see_pod(&seen, now);
    });
}

/// All targets and pods; the last target is lost.
pub(crate) fn fill(dashboard: &Dashboard) {
    dashboard.paint(|picture, now| {
        picture.lead(true);
        for (n, city) in CITIES.iter().enumerate() {
            let lost = n == TARGETS - 1;
            picture.see_reach(city, if lost { State::Lost } else { State::Connected }, now);
            let of = |all: i64| Amount {
                free: Some(all * (n as i64 + 1) / 17),
                all: Some(all),
            };
            let seen = NodeSeen {
                since: Some(now - 86_400),
                why: if lost {
                    "Silent: the target doesn't answer"
                } else {
                    ""
                }
                .to_owned(),
                drained: n == 3,
                cpu: of(640_000),
                memory: of(2 << 40),
                pods: of(4000),
            };
            picture.see_node(city, seen);
        }
        picture.lose(
            "shop",
            "web-7",
            "paris is given up: the pod is deleted, and may run on there",
            now - 40,
        );
    });
    for (n, city) in CITIES.iter().enumerate() {
        let stage = if n == TARGETS - 1 {
            Stage::Lost
        } else {
            Stage::Running
        };
        for pod in 0..PODS {
            see(
                dashboard,
                &format!("{city}-{pod}"),
                &format!("web-{city}-{pod:04}"),
                stage,
                city,
                "",
            );
        }
    }
    for pod in 0..WAITING {
        let why = "berlin refused [12 Insufficient cpu]; oslo has not answered yet";
        see(
            dashboard,
            &format!("waits-{pod}"),
            &format!("job-{pod:02}"),
            Stage::Waiting,
            "",
            why,
        );
    }
    for (stage, at) in [
        (Stage::Asked, ""),
        (Stage::Reserved, "oslo"),
        (Stage::Granted, "lyon"),
    ] {
        see(
            dashboard,
            &format!("{stage:?}"),
            &format!("on-its-way-{stage:?}"),
            stage,
            at,
            "",
        );
    }
    see(dashboard, "hostile", HOSTILE, Stage::Waiting, "", HOSTILE);
}
