//! What a target says its pods use, read at the door: of our delegates, by the names that they must have, and no
//! others.
//!
//! Pure. Numbers are clamped, and of a reading nothing is kept that its proxy pod doesn't have, so that what is kept is
//! bounded by the source's own pods.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use pilotage_api::keys;
use pilotage_sched::quantity::Quantity;
use serde::Deserialize;

use super::super::delegate::{Proxy, has_container};

/// Most cores of a container, in 10⁻⁹: no machine has as many.
const MOST_CPU: i128 = 100_000 * 1_000_000_000;
/// Most bytes of a container.
const MOST_MEMORY: i64 = 1 << 50;
/// Longest amount or time that is read.
const LONGEST: usize = 64;
/// The time that a figure stands for, where that isn't told or can't be: metrics-server looks as often.
const WINDOW: Duration = Duration::from_secs(15);
/// The longest one that is believed.
const LONGEST_WINDOW: Duration = Duration::from_mins(2);

/// `PodMetricsList` of `metrics.k8s.io/v1beta1`, as far as it is read.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct List {
    #[serde(default)]
    items: Option<Vec<Item>>,
}

#[derive(Clone, Debug, Deserialize)]
struct Item {
    #[serde(default)]
    metadata: Meta,
    #[serde(default)]
    timestamp: Option<String>,
    #[serde(default)]
    window: Option<String>,
    #[serde(default)]
    containers: Option<Vec<Container>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Meta {
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
}

#[derive(Clone, Debug, Deserialize)]
struct Container {
    #[serde(default)]
    name: String,
    #[serde(default)]
    usage: Option<Amounts>,
}

#[derive(Clone, Debug, Deserialize)]
struct Amounts {
    #[serde(default)]
    cpu: Option<String>,
    #[serde(default)]
    memory: Option<String>,
}

/// The proxy pods of a virtual node, by what their delegates are called.
#[derive(Debug, Default)]
pub(crate) struct Ours {
    named: HashMap<(String, String), Arc<Pod>>,
    /// By UID: Admiralty granted them, and the API server made up names.
    unnamed: HashMap<String, Arc<Pod>>,
}

/// What a container uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Used {
    /// Cores, in 10⁻⁹.
    pub(crate) cpu: u64,
    /// Bytes.
    pub(crate) memory: u64,
}

/// What a pod used at a time, by container.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    /// The proxy pod.
    pub(crate) pod: Arc<Pod>,
    /// What the target writes as its time. Another text is another reading; it is compared with no clock of ours.
    pub(crate) at: String,
    /// How long its rates are means of.
    pub(crate) window: Duration,
    pub(crate) containers: BTreeMap<String, Used>,
}

impl Ours {
    /// Those that are recorded behind this node, in the namespace that its target serves.
    pub(crate) fn of(pods: Vec<Arc<Pod>>, node: &str, namespace: Option<&str>) -> Self {
        let mut ours = Self::default();
        for pod in pods {
            let proxy = Proxy::recorded(&pod.metadata, node);
            let served = |proxy: &Proxy| namespace.is_none_or(|only| only == proxy.namespace);
            let Some(proxy) = proxy.filter(served) else {
                continue;
            };
            if let Some(name) = proxy.delegate() {
                ours.named.insert((proxy.namespace, name), pod);
            } else {
                ours.unnamed.insert(proxy.uid, pod);
            }
        }
        ours
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.named.is_empty() && self.unnamed.is_empty()
    }

    /// Whether some have names of their target's own.
    pub(crate) fn has_unnamed(&self) -> bool {
        !self.unnamed.is_empty()
    }

    /// All of them.
    pub(crate) fn pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.named.values().chain(self.unnamed.values())
    }

    fn find(&self, meta: &Meta) -> Option<&Arc<Pod>> {
        let key = (meta.namespace.clone(), meta.name.clone());
        if let Some(pod) = self.named.get(&key) {
            return Some(pod);
        }
        let parent = meta.labels.as_ref()?.get(keys::PARENT_UID)?;
        let pod = self.unnamed.get(parent)?;
        (pod.metadata.namespace.as_ref() == Some(&meta.namespace)).then_some(pod)
    }
}

/// The readings of our delegates in a list, one a pod.
pub(crate) fn readings(list: List, ours: &Ours) -> Vec<Reading> {
    let mut found: HashMap<String, Reading> = HashMap::new();
    for item in list.items.into_iter().flatten() {
        let Some(pod) = ours.find(&item.metadata) else {
            continue;
        };
        let (Some(uid), Some(at)) = (&pod.metadata.uid, item.timestamp) else {
            continue;
        };
        let containers = item.containers.into_iter().flatten();
        let containers = containers.filter(|it| has_container(pod.spec.as_ref(), &it.name));
        let containers = containers.filter_map(|it| Some((it.name, used(&it.usage?)?)));
        let containers: BTreeMap<_, _> = containers.collect();
        if at.len() <= LONGEST && !containers.is_empty() {
            let window = item.window.as_deref().and_then(window).unwrap_or(WINDOW);
            let pod = pod.clone();
            let reading = Reading {
                pod,
                at,
                window,
                containers,
            };
            // Of two about one pod nobody can say which is true.
            found.entry(uid.clone()).or_insert(reading);
        }
    }
    found.into_values().collect()
}

fn used(amounts: &Amounts) -> Option<Used> {
    let amount = |text: &Option<String>| {
        let text = text.as_deref().filter(|text| text.len() <= LONGEST)?;
        let amount = Quantity::parse(text).ok()?;
        (amount >= Quantity::default()).then_some(amount)
    };
    let cpu = amount(&amounts.cpu)?.nanos().min(MOST_CPU);
    let memory = amount(&amounts.memory)?.value().min(MOST_MEMORY);
    Some(Used {
        cpu: u64::try_from(cpu).ok()?,
        memory: u64::try_from(memory).ok()?,
    })
}

/// A duration as Go writes it (`1m15.5s`), within bounds.
fn window(text: &str) -> Option<Duration> {
    if text.len() > LONGEST {
        return None;
    }
    let span: jiff::SignedDuration = text.parse().ok()?;
    let span = Duration::try_from(span).ok()?;
    Some(span.clamp(Duration::from_secs(1), LONGEST_WINDOW))
}

#[cfg(test)]
pub(super) mod tests {
    use pilotage_api::names;
    use serde_json::{Value, json};

    use super::*;

    pub(crate) const NODE: &str = "admiralty-shop-c2";

    /// A proxy with the containers `app` and `sidecar`.
    pub(crate) fn proxy(name: &str, attempt: &str) -> Arc<Pod> {
        let record = format!("{NODE}/c/{attempt}");
        let pod = json!({
            "metadata": {
                "namespace": "shop", "name": name, "uid": format!("uid-{name}"),
                "annotations": { keys::GRANTED_TO: record },
            },
            "spec": { "nodeName": NODE, "containers": [{ "name": "app" }, { "name": "sidecar" }] },
        });
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    pub(crate) fn ours(pods: &[Arc<Pod>]) -> Ours {
        Ours::of(pods.to_vec(), NODE, Some("shop"))
    }

    /// What a target says of the delegate of that proxy.
    pub(crate) fn item(proxy: &str, at: &str, cpu: &str, memory: &str) -> Value {
        json!({
            "metadata": { "namespace": "shop", "name": names::chaperon("shop", proxy, &format!("uid-{proxy}")) },
            "timestamp": at, "window": "20s",
            "containers": [{ "name": "app", "usage": { "cpu": cpu, "memory": memory } }],
        })
    }

    pub(crate) fn read(items: &[Value], ours: &Ours) -> Vec<Reading> {
        let list = json!({ "items": items });
        readings(serde_json::from_value(list).unwrap(), ours)
    }

    #[test]
    fn a_reading_is_of_our_delegate_and_of_its_containers() {
        let ours = ours(&[proxy("web", "3")]);
        let mut told = item("web", "t1", "250m", "64Mi");
        told["containers"]
            .as_array_mut()
            .unwrap()
            .push(json!({ "name": "miner", "usage": { "cpu": "8", "memory": "1Gi" } }));
        let mut foreign = item("web", "t1", "1", "1");
        foreign["metadata"]["name"] = "web".into();
        let mut elsewhere = item("web", "t1", "1", "1");
        elsewhere["metadata"]["namespace"] = "kube-system".into();
        let read = read(
            &[foreign, elsewhere, told, item("web", "t2", "9", "9")],
            &ours,
        );
        assert_eq!(read.len(), 1);
        assert_eq!((&*read[0].at, read[0].window.as_secs()), ("t1", 20));
        let used = Used {
            cpu: 250_000_000,
            memory: 64 << 20,
        };
        assert_eq!(
            read[0].containers,
            BTreeMap::from([("app".to_owned(), used)])
        );
    }

    #[test]
    fn what_admiralty_granted_is_known_by_its_label() {
        let ours = ours(&[proxy("old", "-")]);
        assert!(ours.has_unnamed());
        let mut told = item("old", "t", "1", "1");
        told["metadata"]["name"] = "old-x7k2p".into();
        assert!(read(&[told.clone()], &ours).is_empty());
        told["metadata"]["labels"] = json!({ keys::PARENT_UID: "uid-old" });
        assert_eq!(read(&[told.clone()], &ours).len(), 1);
        told["metadata"]["namespace"] = "other".into();
        assert!(read(&[told], &ours).is_empty());
    }

    #[test]
    fn a_pod_of_another_node_or_namespace_is_none_of_ours() {
        let pods = || vec![proxy("web", "3")];
        assert!(Ours::of(pods(), "admiralty-shop-c3", None).is_empty());
        assert!(Ours::of(pods(), NODE, Some("other")).is_empty());
        assert_eq!(Ours::of(pods(), NODE, None).pods().count(), 1);
    }

    #[test]
    fn absurd_numbers_are_clamped_and_what_is_none_is_not_read() {
        let ours = ours(&[proxy("web", "3")]);
        let used = |cpu: &str, memory: &str| {
            let read = read(&[item("web", "t", cpu, memory)], &ours);
            read.first()
                .map(|it| (it.containers["app"].cpu, it.containers["app"].memory))
        };
        assert_eq!(used("12345n", "9Ki"), Some((12345, 9216)));
        assert_eq!(used("0", "0"), Some((0, 0)));
        assert_eq!(used("9e99", "9e99"), Some((100_000_000_000_000, 1 << 50)));
        let long = "1".repeat(LONGEST + 1);
        for bad in ["", "-1", "x", "1 ", "nan", &long] {
            assert_eq!(used(bad, "1"), None, "{bad}");
            assert_eq!(used("1", bad), None, "{bad}");
        }
        let mut told = item("web", &long, "1", "1");
        assert!(read(&[told.clone()], &ours).is_empty());
        for (text, want) in [
            (json!("1m0s"), 60),
            (json!("15.4s"), 15),
            (json!("99999h"), 120),
            (json!("-5s"), 15),
            (json!("1ms"), 1),
            (json!("soon"), 15),
            (json!(null), 15),
        ] {
            (told["timestamp"], told["window"]) = ("t".into(), text.clone());
            let read = read(&[told.clone()], &ours);
            assert_eq!(read[0].window.as_secs(), want, "{text}");
        }
    }
}
