//! What selects a pod, and how few are looked at to find it.

use std::cell::Cell;

use super::*;

thread_local! {
    /// How often it was asked whether a Service selects a pod.
    pub(super) static LOOKS: Cell<usize> = const { Cell::new(0) };
}

fn looks<T>(of: impl FnOnce() -> T) -> (T, usize) {
    let before = LOOKS.get();
    let done = of();
    (done, LOOKS.get() - before)
}

fn uids(pods: &BTreeSet<Uid>) -> Vec<String> {
    pods.iter().map(ToString::to_string).collect()
}

/// An Ingress comes; the pods that it concerns.
fn ingress(it: &mut Selected, name: &str, services: &[&str]) -> Vec<String> {
    let changed = it.ingress("shop", name, names(services));
    let pods = changed.iter().flat_map(|name| it.pods_of("shop", name).0);
    uids(&pods.collect())
}

fn labels(pairs: &[(&str, &str)]) -> Labels {
    let pairs = pairs.iter();
    pairs
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn of(selected: &Selected, uid: &str) -> Vec<String> {
    let needs = selected.of("shop", uid).needed;
    needs.iter().map(ToString::to_string).collect()
}

#[test]
fn services_and_their_ingresses_are_needed_where_pods_are_selected() {
    let mut it = Selected::default();
    let web = labels(&[("app", "web"), ("tier", "front")]);
    it.pod("shop", &"p".into(), Some(web.clone()));
    it.pod("shop", &"q".into(), Some(labels(&[("app", "db")])));
    it.pod("other", &"r".into(), Some(web));
    let app = |app: &str| Some(Selects::Labelled(labels(&[("app", app)])));
    assert_eq!(uids(&it.service("shop", "web", app("web"))), ["p"]);
    assert_eq!(
        uids(&it.service("shop", "web", app("web"))),
        [""; 0],
        "nothing is new"
    );
    assert_eq!(ingress(&mut it, "front", &["web", "db"]), ["p"]);
    assert_eq!(of(&it, "p"), ["Service/web", "Ingress/front"]);
    assert_eq!(of(&it, "q"), [""; 0]);
    assert_eq!(it.of("other", "r"), Selecting::default());

    let both = uids(&it.service("shop", "web", app("db")));
    assert_eq!(both, ["p", "q"], "of the old selector and of the new one");
    assert_eq!(of(&it, "p"), [""; 0]);
    assert_eq!(of(&it, "q"), ["Service/web", "Ingress/front"]);
    // None of these Services is there: the pods of those that go are looked at.
    assert_eq!(ingress(&mut it, "front", &["db"]), ["q"]);
    assert_eq!(of(&it, "q"), ["Service/web"]);
    it.pod("shop", &"q".into(), Some(labels(&[("app", "cache")])));
    assert_eq!(of(&it, "q"), [""; 0]);
}

#[test]
fn nothing_is_left_of_what_is_gone() {
    let mut it = Selected::default();
    it.service(
        "shop",
        "web",
        Some(Selects::Labelled(labels(&[("app", "web")]))),
    );
    it.ingress("shop", "front", names(&["web"]));
    it.pod("shop", &"p".into(), Some(labels(&[("app", "web")])));
    assert_eq!(of(&it, "p"), ["Service/web", "Ingress/front"]);
    assert_eq!(ingress(&mut it, "front", &[]), ["p"]);
    assert_eq!(uids(&it.service("shop", "web", None)), ["p"]);
    it.service("shop", "any", Some(Selects::Any));
    it.service("shop", "any", None);
    {
        let it = &it.namespaces["shop"];
        assert!(it.services_by_label.is_empty() && it.of_any.is_empty());
        assert!(it.in_front.is_empty() && !it.pods_by_label.is_empty());
    }
    it.pod("shop", &"p".into(), Some(labels(&[])));
    assert!(it.namespaces["shop"].pods_by_label.is_empty());
    it.pod("shop", &"p".into(), None);
    assert!(it.namespaces.is_empty());
}

#[test]
fn who_may_be_selected_is_not_known_of_a_service_that_was_never_read() {
    let mut it = Selected::default();
    it.pod("shop", &"p".into(), Some(labels(&[("app", "web")])));
    it.pod("shop", &"q".into(), Some(labels(&[("app", "db")])));
    it.ingress("shop", "front", names(&["web"]));
    let all = uids(&it.service("shop", "web", Some(Selects::Any)));
    assert_eq!(all, ["p", "q"]);
    assert_eq!(of(&it, "q"), ["Service/web", "Ingress/front"]);
    let web = Selects::Labelled(labels(&[("app", "web")]));
    it.service("shop", "web", Some(web));
    assert_eq!(of(&it, "q"), [""; 0]);
    assert_eq!(
        uids(&it.service("shop", "web", Some(Selects::Any))),
        [""; 0]
    );
    assert_eq!(of(&it, "p"), ["Service/web", "Ingress/front"], "as it was");
    assert_eq!(of(&it, "q"), [""; 0]);
}

#[test]
fn a_pod_brings_no_more_than_so_many_services_and_ingresses() {
    let mut it = Selected::default();
    it.pod("shop", &"p".into(), Some(labels(&[("app", "web")])));
    for n in 0..MOST + 3 {
        let web = Selects::Labelled(labels(&[("app", "web")]));
        it.service("shop", &format!("s{n}"), Some(web));
        it.ingress("shop", &format!("i{n}"), names(&["s0"]));
    }
    assert_eq!(of(&it, "p").len(), 2 * MOST);
}

#[test]
fn what_is_too_many_is_said_and_no_more_than_some_of_it() {
    let mut it = Selected::default();
    it.pod("shop", &"p".into(), Some(labels(&[("app", "web")])));
    let web = || Some(Selects::Labelled(labels(&[("app", "web")])));
    let left_out = |it: &Selected| -> Vec<String> {
        let left_out = it.of("shop", "p").left_out;
        left_out.iter().map(ToString::to_string).collect()
    };
    for n in 0..MOST {
        it.service("shop", &format!("s{n:02}"), web());
        it.ingress("shop", &format!("i{n:02}"), names(&["s00"]));
    }
    assert_eq!(left_out(&it), [""; 0]);
    it.service("shop", "s64", web());
    it.ingress("shop", "a", names(&["s64"]));
    it.ingress("shop", "z", names(&["s00"]));
    it.ingress("shop", "nobodys", names(&["other"]));
    assert_eq!(
        left_out(&it),
        ["Service/s64", "Ingress/a", "Ingress/z"],
        "nor does what is only in front of it"
    );
    for n in 0..1000 {
        it.service("shop", &format!("t{n}"), web());
        it.ingress("shop", &format!("j{n}"), names(&["s00"]));
    }
    assert_eq!(left_out(&it).len(), 2 * LEFT_OUT);
    it.service("shop", "s00", None);
    assert!(!left_out(&it).contains(&"Service/s64".to_owned()));
}

#[test]
fn a_change_looks_only_at_those_that_share_a_rare_label() {
    let mut it = Selected::default();
    let own = |n: usize| {
        let n = n.to_string();
        labels(&[("app", n.as_str()), ("team", "a")])
    };
    let selecting = |n: usize| Some(Selects::Labelled(own(n)));
    let at_once = LOOKS.get();
    for n in 0..2000 {
        it.pod("shop", &n.to_string().into(), Some(own(n)));
        let selected = it.service("shop", &format!("s{n}"), selecting(n));
        assert_eq!(uids(&selected), [n.to_string()]);
        let behind = format!("s{n}");
        assert_eq!(ingress(&mut it, &format!("i{n}"), &[&behind]).len(), 1);
        let needed = of(&it, &n.to_string());
        assert_eq!(needed, [format!("Service/s{n}"), format!("Ingress/i{n}")]);
    }
    // One team has all of them, and nobody goes by that.
    assert!(LOOKS.get() - at_once <= 4 * 2000);
    let (pods, count) = looks(|| it.service("shop", "s7", selecting(8)));
    assert_eq!(uids(&pods), ["7", "8"]);
    assert_eq!(count, 2);
    let (pods, count) = looks(|| ingress(&mut it, "i7", &["s7", "gone"]));
    assert_eq!(
        (pods.len(), count),
        (0, 0),
        "what isn't there selects nobody"
    );
    let ((), count) = looks(|| it.pod("shop", &"9".into(), Some(own(10))));
    assert_eq!(count, 0);
    assert_eq!(of(&it, "9"), ["Service/s10", "Ingress/i10"]);
    let (_, count) = looks(|| of(&it, "9"));
    assert_eq!(count, 2, "s7 is found by the team by now, as the only one");
    let nobody = Some(Selects::Labelled(labels(&[("app", "none"), ("team", "a")])));
    let (pods, count) = looks(|| it.service("shop", "none", nobody));
    assert_eq!((pods.len(), count), (0, 0));
}
