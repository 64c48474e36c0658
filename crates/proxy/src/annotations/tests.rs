use proptest::prelude::*;

use super::*;

type Texts = BTreeMap<String, String>;

fn texts(all: &[(&str, &str)]) -> Texts {
    all.iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

/// A proxy whose author has set `authored`, with what is on it now.
fn proxy(authored: &Texts, now: &Texts) -> Pod {
    let manifest = SourcePod::new(json!({
        "metadata": { "annotations": authored },
        "spec": { "containers": [] },
    }));
    let mut annotations = now.clone();
    annotations.insert(
        keys::SOURCE_POD_MANIFEST.to_owned(),
        manifest.unwrap().render().unwrap(),
    );
    serde_json::from_value(json!({
        "metadata": { "name": "web", "uid": "u", "resourceVersion": "7", "annotations": annotations },
    }))
    .unwrap()
}

fn chaperon(annotations: &Texts) -> PodChaperon {
    serde_json::from_value(json!({
        "apiVersion": "multicluster.admiralty.io/v1alpha1",
        "kind": "PodChaperon",
        "metadata": { "annotations": annotations },
        "spec": {},
    }))
    .unwrap()
}

fn step(pod: &Pod, said: &Texts) -> Option<Change> {
    let authored = authored(pod);
    change(pod, &chaperon(said), || &authored)
}

/// The pod after the delegate has said this; nothing is left to do then.
fn settled(mut pod: Pod, said: &Texts) -> Pod {
    let before = pod.clone();
    if let Some(Change { patch, .. }) = step(&pod, said) {
        assert_eq!(patch["metadata"]["uid"], "u");
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
        let all = pod.metadata.annotations.get_or_insert_default();
        for (key, value) in patch["metadata"]["annotations"].as_object().unwrap() {
            match value {
                Value::Null => all.remove(key),
                value => all.insert(key.clone(), value.as_str().unwrap().to_owned()),
            };
        }
    }
    assert_eq!(step(&pod, said), None, "nothing is left to do: {before:?}");
    pod
}

/// What is on the pod, without what is ours.
fn shown(pod: &Pod) -> Texts {
    let all = pod.metadata.annotations.clone().unwrap_or_default();
    all.into_iter()
        .filter(|(key, _)| !keys::is_ours(key))
        .collect()
}

fn total(pod: &Pod) -> usize {
    bytes(pod.metadata.annotations.as_ref().unwrap())
}

#[test]
fn only_new_annotations_that_are_not_ours_are_copied() {
    let author = texts(&[("team", "a"), ("gone", "by hand")]);
    let now = texts(&[("team", "a"), ("noted", "later")]);
    let said = texts(&[
        ("team", "a"),
        ("cni", "10.0.0.1"),
        ("example.com/Seen", "there"),
        ("multicluster.admiralty.io/attempt", "1"),
    ]);
    let pod = settled(proxy(&author, &now), &said);
    let want = texts(&[
        ("team", "a"),
        ("noted", "later"),
        ("cni", "10.0.0.1"),
        ("example.com/Seen", "there"),
    ]);
    assert_eq!(shown(&pod), want);
}

#[test]
fn a_target_has_no_word_on_what_is_somebody_elses() {
    let author = texts(&[("team", "a"), ("gone", "by hand")]);
    let now = texts(&[("team", "a"), ("noted", "later")]);
    let pod = proxy(&author, &now);
    for (key, value) in [
        ("team", "b"),
        ("gone", "by hand"),
        ("noted", "otherwise"),
        ("kubectl.kubernetes.io/last-applied-configuration", "{}"),
        ("container.apparmor.security.beta.kubernetes.io/main", "x"),
        ("k8s.io/x", "x"),
        ("Kubernetes.io/x", "x"),
        (keys::GRANTED_TO, "evil/uid/1"),
        (keys::SOURCE_POD_MANIFEST, "{}"),
        (keys::COPIED, "{}"),
        ("access.multicluster.admiralty.io/x", "x"),
        ("no name", "x"),
        ("", "x"),
    ] {
        assert_eq!(step(&pod, &texts(&[(key, value)])), None, "{key:?}");
    }
    let both = texts(&[("cni", "1"), ("team", "b")]);
    assert_eq!(step(&pod, &both).unwrap().withheld, ["team"]);
}

#[test]
fn a_copy_follows_its_delegate_until_somebody_else_changes_it() {
    let author = texts(&[]);
    let pod = settled(proxy(&author, &author), &texts(&[("cni", "1"), ("x", "1")]));
    let pod = settled(pod, &texts(&[("cni", "2")]));
    assert_eq!(shown(&pod), texts(&[("cni", "2")]));

    // Somebody annotates it by hand: the same process, or the next one, leaves it alone from then on.
    let mut taken = pod.clone();
    let all = taken.metadata.annotations.get_or_insert_default();
    all.insert("cni".into(), "mine".into());
    let taken = settled(taken, &texts(&[("cni", "3")]));
    assert_eq!(shown(&taken), texts(&[("cni", "mine")]));
    let all = taken.metadata.annotations.as_ref().unwrap();
    assert!(!all.contains_key(keys::COPIED), "no copy is left");
    let mut again = taken;
    let all = again.metadata.annotations.get_or_insert_default();
    all.insert("cni".into(), "2".into());
    assert_eq!(step(&again, &texts(&[("cni", "3")])), None, "for ever");

    // Without the record nobody knows whose it is.
    let mut unknown = pod;
    let all = unknown.metadata.annotations.get_or_insert_default();
    all.insert(keys::COPIED.into(), "damaged".into());
    let unknown = settled(unknown, &texts(&[("cni", "3"), ("y", "1")]));
    assert_eq!(shown(&unknown), texts(&[("cni", "2"), ("y", "1")]));
}

#[test]
fn number_and_size_are_bounded() {
    let none = texts(&[]);
    let many = |from: usize| -> Texts {
        let keys = (from..from + 100).map(|n| format!("k{n:04}"));
        keys.map(|key| (key, "v".into())).collect()
    };
    let mut pod = proxy(&none, &none);
    for from in [0, 1000, 2000] {
        pod = settled(pod, &many(from));
        let first = many(from).into_iter().take(MOST).collect::<Texts>();
        assert_eq!(shown(&pod), first, "none of the last time stay");
    }
    // As long as the pod's own are, there is room left.
    let own = [("own".to_owned(), "x".repeat(230 * 1024))].into();
    let said: Texts = [("a", 100_000), ("b", 8_000), ("c", 8_000), ("d", 1)]
        .map(|(key, length)| (key.to_owned(), "y".repeat(length)))
        .into();
    for (own, want) in [(&none, "b c d"), (&own, "b d own")] {
        let pod = settled(proxy(&none, own), &said);
        let kept: Vec<_> = shown(&pod).into_keys().collect();
        assert_eq!(kept.join(" "), want);
        assert!(total(&pod) <= LIMIT_WITH_COPIES);
    }
}

#[test]
fn the_manifest_is_read_only_for_what_is_new() {
    let none = texts(&[]);
    let said = texts(&[("cni", "1")]);
    let pod = settled(proxy(&none, &none), &said);
    let never = || -> &BTreeSet<String> { panic!("nothing changes") };
    assert_eq!(change(&pod, &chaperon(&said), never), None);
}

const DOMAINS: [&str; 6] = [
    "",
    "example.com/",
    "x.kubernetes.io/",
    "K8s.io/",
    keys::PREFIX,
    "/",
];
const OURS: [&str; 3] = [keys::GRANTED_TO, keys::COPIED, keys::SOURCE_POD_MANIFEST];

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        (prop::sample::select(&DOMAINS[..]), "[a-d]").prop_map(|(d, k)| format!("{d}{k}")),
        prop::sample::select(&OURS[..]).prop_map(str::to_owned),
        any::<String>(),
    ]
}

fn all(longest: usize) -> impl Strategy<Value = Texts> {
    let value = prop_oneof![
        4 => "[a-c]{0,2}",
        1 => any::<String>(),
        1 => (0..longest).prop_map(|length| "v".repeat(length)),
    ];
    prop::collection::btree_map(key(), value, 0..12)
}

mod fuzz {
    use super::*;

    pilotage_absurd::properties! {
        #[test]
        fn whatever_a_target_says_the_words_of_others_stay(
            author in all(30_000),
            steps in prop::collection::vec((all(90_000), all(100)), 1..4),
        ) {
            let author: Texts = author.into_iter().filter(|(key, _)| !keys::is_ours(key)).collect();
            let mut pod = proxy(&author, &author);
            let mut others = author.clone();
            for (said, by_hand) in steps {
                pod = settled(pod, &said);
                let now = shown(&pod);
                for (key, value) in &others {
                    prop_assert_eq!(now.get(key), Some(value));
                }
                let copies: Texts = now.into_iter().filter(|(key, _)| !others.contains_key(key)).collect();
                prop_assert!(copies.len() <= MOST);
                prop_assert!(copies.keys().all(|key| is_key(key) && !keys::is_reserved(key)));
                prop_assert!(copies.is_empty() || total(&pod) <= LIMIT_WITH_COPIES);
                // Somebody annotates the pod.
                let known = pod.metadata.annotations.get_or_insert_default();
                for (key, value) in by_hand.into_iter().filter(|(key, _)| !keys::is_ours(key)) {
                    if known.get(&key) != Some(&value) {
                        known.insert(key.clone(), value.clone());
                        others.insert(key, value);
                    }
                }
            }
        }
    }
}
