use jiff::Timestamp;
use pilotage_api::{KubeconfigSecret, Target, TargetSpec};
use pilotage_clusters::allow::Refusal;
use pilotage_clusters::spec::SecretRef;
use pilotage_clusters::{Need, Since};

use super::*;
use crate::source::rbac::{SOURCE_RULES, SUMMARY_VIEWER_RULES};
use crate::target::rbac::{NEEDS, right_needs};

fn object(spec: TargetSpec, conditions: Vec<Condition>) -> TargetObject {
    let mut target = Target::new("c2", spec);
    target.metadata.namespace = Some("default".into());
    target.metadata.uid = Some("u".into());
    let mut object = TargetObject::from_target(&target).unwrap();
    object.status.conditions = conditions;
    object
}

fn spec(regexp: Option<&str>) -> TargetSpec {
    TargetSpec {
        self_: None,
        kubeconfig_secret: Some(KubeconfigSecret {
            name: "c2".into(),
            ..Default::default()
        }),
        excluded_labels_regexp: regexp.map(Into::into),
    }
}

fn connected() -> Connection {
    Connection::Connected {
        since: Since::now(),
    }
}

fn lost(reason: LostReason) -> Connection {
    Connection::Lost {
        since: Since::now(),
        reason,
    }
}

fn secret() -> SecretRef {
    SecretRef {
        namespace: "default".into(),
        name: "c2".into(),
        key: "config".into(),
        context: None,
    }
}

fn missing() -> LostReason {
    LostReason::SecretMissing(secret())
}

fn at(second: i64) -> Time {
    Time(Timestamp::from_second(second).unwrap())
}

/// `Type=Status/Reason` of all conditions.
fn words(conditions: &[Condition]) -> Vec<String> {
    conditions
        .iter()
        .map(|c| format!("{}={}/{}", c.type_, c.status, c.reason))
        .collect()
}

#[test]
fn the_first_identity_stays_and_an_unreadable_policy_is_told() {
    let identity = ClusterUid("c".into());
    let decide = |object: &TargetObject, identity| {
        let now = at(1);
        decide(
            object,
            &connected(),
            &Authorization::Complete,
            identity,
            Told::default(),
            &now,
            None,
        )
    };
    let mut object = object(spec(None), vec![]);
    let plan = decide(&object, Some(&identity)).unwrap();
    assert_eq!(plan.cluster_uid.as_deref(), Some("c"));
    object.status.cluster_uid = Some("b".into());
    let plan = decide(&object, Some(&identity)).unwrap();
    assert_eq!(plan.cluster_uid.as_deref(), Some("b"));

    object
        .annotations
        .insert(keys::REPLACE_AFTER.into(), "soon".into());
    let plan = decide(&object, None).unwrap();
    assert_eq!(words(&plan.conditions)[0], "Valid=False/InvalidAnnotation");
    assert!(plan.conditions[0].message.contains("soon"));
    object
        .annotations
        .insert(keys::REGION.into(), "r".repeat(200_000));
    let plan = decide(&object, None).unwrap();
    assert_eq!(words(&plan.conditions)[0], "Valid=False/InvalidAnnotation");
    let message = &plan.conditions[0].message;
    assert!(
        message.contains("has 200000 bytes, and may have 63"),
        "{message}"
    );
}

#[test]
fn every_state_has_its_words() {
    let unreachable = || lost(LostReason::Unreachable("no route".into()));
    for (spec, connection, authorization, want) in [
        (
            spec(None),
            Connection::Connecting,
            Authorization::Unknown,
            [
                "Valid=Unknown/Connecting",
                "Connected=Unknown/Connecting",
                "Authorized=Unknown/NotAsked",
            ],
        ),
        (
            spec(None),
            connected(),
            Authorization::Complete,
            [
                "Valid=True/Valid",
                "Connected=True/Answering",
                "Authorized=True/Permitted",
            ],
        ),
        (
            spec(None),
            connected(),
            Authorization::Missing(NEEDS.to_vec()),
            [
                "Valid=True/Valid",
                "Connected=True/Answering",
                "Authorized=False/PermissionMissing",
            ],
        ),
        (
            spec(Some("a(b")),
            connected(),
            Authorization::Complete,
            [
                "Valid=False/InvalidRegexp",
                "Connected=True/Answering",
                "Authorized=True/Permitted",
            ],
        ),
        (
            spec(None),
            unreachable(),
            Authorization::Complete,
            [
                "Valid=True/Valid",
                "Connected=False/Unreachable",
                "Authorized=Unknown/NotConnected",
            ],
        ),
        (
            spec(None),
            lost(missing()),
            Authorization::Unknown,
            [
                "Valid=False/SecretMissing",
                "Connected=False/SecretMissing",
                "Authorized=Unknown/NotConnected",
            ],
        ),
        (
            spec(None),
            lost(LostReason::TooManyTargets {
                namespace: "default".into(),
                most: 100,
            }),
            Authorization::Unknown,
            [
                "Valid=Unknown/TooManyTargets",
                "Connected=False/TooManyTargets",
                "Authorized=Unknown/NotConnected",
            ],
        ),
        (
            spec(None),
            lost(LostReason::Internal),
            Authorization::Unknown,
            [
                "Valid=Unknown/InternalError",
                "Connected=False/InternalError",
                "Authorized=Unknown/NotConnected",
            ],
        ),
        (
            spec(None),
            lost(LostReason::NamespaceNotAllowed(secret())),
            Authorization::Unknown,
            [
                "Valid=False/NamespaceNotAllowed",
                "Connected=False/NamespaceNotAllowed",
                "Authorized=Unknown/NotConnected",
            ],
        ),
        (
            spec(None),
            lost(LostReason::Refused {
                secret: None,
                refusal: Refusal::Plain,
            }),
            Authorization::Unknown,
            [
                "Valid=False/InsecureServer",
                "Connected=False/InsecureServer",
                "Authorized=Unknown/NotConnected",
            ],
        ),
        (
            spec(None),
            lost(LostReason::TooMuch("a".repeat(99_999))),
            Authorization::Complete,
            [
                "Valid=True/Valid",
                "Connected=False/TooMuch",
                "Authorized=Unknown/NotConnected",
            ],
        ),
        (
            TargetSpec {
                self_: Some(true),
                ..spec(None)
            },
            lost(LostReason::InvalidSpec(
                pilotage_clusters::spec::SpecFault::Both,
            )),
            Authorization::Unknown,
            [
                "Valid=False/InvalidSpec",
                "Connected=False/InvalidSpec",
                "Authorized=Unknown/NotConnected",
            ],
        ),
    ] {
        let plan = decide(
            &object(spec, vec![]),
            &connection,
            &authorization,
            None,
            Told::default(),
            &at(1),
            None,
        )
        .unwrap();
        assert_eq!(words(&plan.conditions), want);
        assert!(plan.conditions.iter().all(|it| it.message.len() <= 2000));
        assert_eq!(plan.node, "admiralty-default-c2");
    }
}

#[test]
fn a_missing_secret_is_named_in_the_message() {
    let plan = decide(
        &object(spec(None), vec![]),
        &lost(missing()),
        &Authorization::Unknown,
        None,
        Told::default(),
        &at(1),
        None,
    );
    let plan = plan.unwrap();
    assert!(
        plan.conditions
            .iter()
            .any(|c| c.message == "secret default/c2 does not exist")
    );
    assert!(
        plan.news
            .iter()
            .any(|news| news.reason == "TargetLost" && news.warning)
    );
}

#[test]
fn nothing_new_is_no_write_and_a_restart_changes_nothing() {
    let first = decide(
        &object(spec(None), vec![]),
        &connected(),
        &Authorization::Complete,
        None,
        Told::default(),
        &at(1),
        None,
    )
    .unwrap();
    assert_eq!(
        first
            .news
            .iter()
            .map(|news| news.reason)
            .collect::<Vec<_>>(),
        ["TargetConnected"]
    );
    let mut settled = object(spec(None), first.conditions);
    settled.status.node = Some(first.node);
    assert_eq!(
        decide(
            &settled,
            &connected(),
            &Authorization::Complete,
            None,
            Told::default(),
            &at(2),
            None
        ),
        None
    );
    assert_eq!(
        decide(
            &settled,
            &Connection::Connecting,
            &Authorization::Unknown,
            None,
            Told::default(),
            &at(2),
            None
        ),
        None
    );
    assert_eq!(
        decide(
            &settled,
            &connected(),
            &Authorization::Unknown,
            None,
            Told::default(),
            &at(2),
            None
        ),
        None
    );
    // But a loss is told, and that permissions aren't known any more.
    let gone = lost(LostReason::Unreachable("no route".into()));
    let plan = decide(
        &settled,
        &gone,
        &Authorization::Complete,
        None,
        Told::default(),
        &at(3),
        None,
    )
    .unwrap();
    assert_eq!(
        words(&plan.conditions)[1..],
        [
            "Connected=False/Unreachable",
            "Authorized=Unknown/NotConnected"
        ]
    );
    assert_eq!(plan.conditions[1].last_transition_time, at(3));
    assert_eq!(plan.news.len(), 1);
}

#[test]
fn a_trouble_that_becomes_another_is_news_its_end_too() {
    let before = decide(
        &object(spec(None), vec![]),
        &lost(missing()),
        &Authorization::Unknown,
        None,
        Told::default(),
        &at(1),
        None,
    );
    let troubled = object(spec(None), before.unwrap().conditions);
    let refused = lost(LostReason::Unauthorized("who?".into()));
    let plan = decide(
        &troubled,
        &refused,
        &Authorization::Unknown,
        None,
        Told::default(),
        &at(2),
        None,
    )
    .unwrap();
    let reasons: Vec<_> = plan.news.iter().map(|news| news.reason).collect();
    assert_eq!(reasons, ["TargetValid", "TargetLost"]);
}

#[test]
fn what_a_source_needs_is_what_the_source_role_gives() {
    for need in NEEDS {
        let rules = if need.cluster_scoped {
            SUMMARY_VIEWER_RULES
        } else {
            SOURCE_RULES
        };
        let given = rules.iter().any(|rule| {
            rule.groups.contains(&need.group)
                && rule.resources.contains(&need.resource)
                && rule.verbs.contains(&need.verb)
        });
        assert!(given, "{need}");
    }
    // And nothing else.
    for rule in SOURCE_RULES.iter().chain(SUMMARY_VIEWER_RULES) {
        for verb in rule.verbs {
            let asks = |need: &Need| {
                rule.groups == [need.group]
                    && rule.resources == [need.resource]
                    && need.verb == *verb
            };
            assert!(NEEDS.iter().any(asks), "{verb} {:?}", rule.resources);
        }
    }
}

#[test]
fn a_target_that_says_what_isnt_its_to_say_is_told_until_a_start_without() {
    let mut object = object(spec(None), vec![]);
    let mut step = |turned_away| {
        let permitted = &Authorization::Complete;
        let plan = decide(
            &object,
            &connected(),
            permitted,
            None,
            Told {
                turned_away,
                renewal: None,
            },
            &at(1),
            None,
        );
        if let Some(plan) = &plan {
            object.status.conditions = plan.conditions.clone();
            object.status.node = Some(plan.node.clone());
        }
        let last = object.status.conditions.last().unwrap();
        format!("{}={}/{}", last.type_, last.status, last.message)
    };
    assert!(step(None).starts_with("Authorized"), "nothing to say");
    assert_eq!(step(Some("why")), "Trustworthy=False/why");
    assert!(step(None).starts_with("Trustworthy=True/"));
}

#[test]
fn a_right_that_a_target_doesnt_give_is_named_and_keeps_no_pod_away() {
    let mut object = object(spec(None), vec![]);
    let mut step = |authorization: &Authorization| {
        let plan = decide(
            &object,
            &connected(),
            authorization,
            None,
            Told::default(),
            &at(1),
            None,
        );
        if let Some(plan) = &plan {
            object.status.conditions = plan.conditions.clone();
            object.status.node = Some(plan.node.clone());
        }
        let find = |type_: &str| {
            let mut all = object.status.conditions.iter();
            let found = all.find(|condition| condition.type_ == type_);
            found.map(|it| (it.status.clone(), it.message.clone()))
        };
        (
            find(types::AUTHORIZED).unwrap().0,
            find(types::RIGHTS_GIVEN),
        )
    };
    assert_eq!(step(&Authorization::Complete), ("True".to_owned(), None));
    let needs = right_needs(Right::Logs).chain(right_needs(Right::FollowSecrets));
    let (authorized, rights) = step(&Authorization::Missing(needs.collect()));
    assert_eq!(authorized, "True", "pods may go there");
    let (status, message) = rights.unwrap();
    assert_eq!(status, "False");
    for part in [
        "FollowSecrets (get secrets, list secrets",
        "Logs (get pods/log)",
        "add FollowSecrets, Logs to spec.rights",
        "kubectl patch source NAME --namespace ",
        r#" --type json --patch '[{"op":"add","path":"/spec/rights/-","value":"FollowSecrets"},{"op""#,
        r#" --type merge --patch '{"spec":{"rights":["FollowSecrets","Logs"]}}'"#,
    ] {
        assert!(message.contains(part), "{message}");
    }
    let cluster_wide = granting(None, &["Logs"]);
    assert!(
        cluster_wide.starts_with("kubectl patch clustersource NAME --type"),
        "{cluster_wide}"
    );
    let (_, rights) = step(&Authorization::Complete);
    assert_eq!(rights.unwrap().0, "True");
}

#[test]
fn of_all_that_is_wrong_troubles_are_what_lasts() {
    let plan = decide(
        &object(spec(None), vec![]),
        &connected(),
        &Authorization::Missing(NEEDS.to_vec()),
        None,
        Told::default(),
        &at(1),
        None,
    );
    let told = troubles(&plan.unwrap().conditions);
    let reasons: Vec<_> = told.iter().map(|item| item.reason).collect();
    assert_eq!(
        reasons,
        ["TargetUnauthorized"],
        "that it is connected is no trouble"
    );
}

#[test]
fn the_version_of_the_secret_that_was_tried_is_told_and_kept() {
    let mut object = object(spec(None), vec![]);
    let mut step = |tried, version: Option<&str>| {
        let permitted = &Authorization::Complete;
        let plan = decide(
            &object,
            &connected(),
            permitted,
            None,
            Told::default(),
            &at(1),
            tried,
        );
        if let Some(plan) = &plan {
            object.status.conditions = plan.conditions.clone();
            object.status.node = Some(plan.node.clone());
            object.status.kubeconfig_version = plan.kubeconfig_version.clone();
        }
        assert_eq!(
            object.status.kubeconfig_version.as_deref(),
            version,
            "{tried:?}"
        );
        plan.is_some()
    };
    assert!(step(None, None) && step(Some("7"), Some("7")) && step(Some("8"), Some("8")));
    // Neither the same again, nor what a new process hasn't tried yet.
    assert!(!step(Some("8"), Some("8")) && !step(None, Some("8")));
}

#[test]
fn whether_the_token_is_renewed_is_told_once_that_was_asked_for() {
    let mut object = object(spec(None), vec![]);
    let mut step = |renewal: Option<Renewal>| {
        let told = Told {
            turned_away: None,
            renewal: renewal.as_ref(),
        };
        let permitted = &Authorization::Complete;
        let plan = decide(&object, &connected(), permitted, None, told, &at(1), None);
        let news = plan.as_ref().map(|plan| plan.news.clone());
        if let Some(plan) = plan {
            object.status.conditions = plan.conditions;
            object.status.node = Some(plan.node);
        }
        let last = object.status.conditions.last().unwrap();
        let news: Vec<_> = news.unwrap_or_default();
        let news: Vec<_> = news.iter().map(|it| it.reason).collect();
        (
            format!("{}={}/{}", last.type_, last.status, last.reason),
            news.join(","),
        )
    };
    let fails = || Renewal::Fails("TokenRefused", "why".to_owned());
    let in_time = || Renewal::InTime("until then".to_owned());
    for (renewal, last, news) in [
        (None, "Authorized=True/Permitted", "TargetConnected"),
        (Some(Renewal::NotAsked), "Authorized=True/Permitted", ""),
        (Some(in_time()), "TokenRenewed=True/InTime", ""),
        (
            Some(fails()),
            "TokenRenewed=False/TokenRefused",
            "TargetTokenNotRenewed",
        ),
        (None, "TokenRenewed=False/TokenRefused", ""),
        (
            Some(in_time()),
            "TokenRenewed=True/InTime",
            "TargetTokenRenewed",
        ),
        (Some(Renewal::NotAsked), "TokenRenewed=True/NotAsked", ""),
    ] {
        let found = step(renewal);
        assert_eq!((&*found.0, &*found.1), (last, news));
    }
}
