//! What the order of a pod's targets depends on besides the pod: configuration, tables of regions, where the source is,
//! and virtual nodes as candidates. The edge feeds it; the order itself is pure (`pilotage_proxy::placing`).

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::Client;
use pilotage_api::keys;
use pilotage_clusters::{Event, Watch, WatchConfig};
use pilotage_proxy::{
    Configuration,
    config::{Policy, PolicyId},
    placing::{Asked, Home, Order, Placing, Tables, Want, Words},
};
use pilotage_sched_driver::publish::{EventType, Occurrence, Recorder, Regarding};
use tokio_util::sync::CancellationToken;

use super::places::Places;

/// Reason of the event about a table of regions that can't be read.
const MALFORMED: &str = "MalformedRegionTable";
/// Reason of the event about a table of regions that the configuration names and that isn't there.
const MISSING: &str = "MissingRegionTable";

/// Watches the tables of regions of one namespace.
pub(super) fn watch_tables(
    client: &Client,
    namespace: &str,
    stop: &CancellationToken,
) -> Watch<ConfigMap> {
    let selector = format!(
        "{}={}",
        keys::REGION_TABLE_LABEL,
        keys::REGION_TABLE_LABEL_VALUE
    );
    let config = WatchConfig::all().labels(selector);
    Watch::of_namespace(client.clone(), namespace, config, stop)
}

/// What is wrong with a table: the reason of an event, and its note.
struct Complaint {
    table: Arc<ConfigMap>,
    reason: &'static str,
    note: String,
}

/// What ranks.
pub(super) struct Ranker {
    configuration: Configuration,
    placing: Placing,
    tables: Tables,
    /// Where the source is: what the configuration says, else what its nodes say.
    home: Home,
    /// Where tables are.
    namespace: String,
    /// What is wrong with tables, which nobody has been told of.
    untold: Vec<Complaint>,
}

impl Ranker {
    /// `namespace` is where tables are.
    pub(super) fn new(configuration: Configuration, namespace: String) -> Self {
        Self {
            placing: Placing::default(),
            tables: Tables::new(configuration.region_tables.clone()),
            home: configuration.home.clone(),
            namespace,
            untold: Vec::new(),
            configuration,
        }
    }

    // ---- what happens -------------------------------------------------------------------------------------------

    pub(super) fn apply_node(&mut self, node: &Arc<Node>) {
        self.placing.apply_node(node);
    }

    pub(super) fn remove_node(&mut self, name: &str) {
        self.placing.remove_node(name);
    }

    /// The Target behind a virtual node says this; whether it is another candidate now.
    pub(super) fn set_words(&mut self, node: &str, words: Words) -> bool {
        self.placing.set_words(node, words)
    }

    /// The source's own nodes say where it is; whether that counts.
    pub(super) fn set_home(&mut self, learned: &Home) -> bool {
        let home = self.configuration.home.or(learned);
        let changed = home != self.home;
        self.home = home;
        changed
    }

    /// A pod is placed at a virtual node, or at none.
    pub(super) fn set_guest(&mut self, uid: &str, node: Option<&str>, want: &Want) {
        self.placing.set_guest(uid, node, want.application());
    }

    /// A pod that isn't placed will probably be at a virtual node.
    pub(super) fn expect_guest(&mut self, uid: &str, node: Option<&str>, want: &Want) {
        self.placing.expect_guest(uid, node, want.application());
    }

    /// Something happened to a table; whether distances are others than before.
    pub(super) fn take_table(&mut self, event: Event<ConfigMap>) -> bool {
        match event {
            Event::Applied(object) => {
                let reading = self.tables.apply(&object);
                self.untold
                    .retain(|other| other.table.metadata.name != object.metadata.name);
                if !reading.malformed.is_empty() {
                    let rows = reading.malformed.iter();
                    let rows: Vec<_> = rows
                        .map(|(region, error)| {
                            format!("the distances of region {region:?}: {error}")
                        })
                        .collect();
                    let note = format!(
                        "can't read {}; until that is mended, regions are compared by their names instead",
                        rows.join("; ")
                    );
                    tracing::warn!(config_map = ?object.metadata.name, %note, "region table");
                    self.untold.push(Complaint {
                        table: object,
                        reason: MALFORMED,
                        note,
                    });
                }
                reading.changed
            }
            Event::Deleted(object) | Event::Gone(object) => {
                let name = object.metadata.name.as_deref().unwrap_or_default();
                self.untold
                    .retain(|other| other.table.metadata.name.as_deref() != Some(name));
                let changed = self.tables.remove(name);
                if changed {
                    self.complain_of_missing(|missing| missing == name);
                }
                changed
            }
            Event::Synced => {
                self.complain_of_missing(|_| true);
                false
            }
        }
    }

    /// Tables of these names that the configuration names and that aren't there.
    fn complain_of_missing(&mut self, of: impl Fn(&str) -> bool) {
        for name in self.tables.missing().filter(|name| of(name)) {
            let note = format!(
                "the configuration names this table of regions, but there is no ConfigMap of this name with the \
                 label {}={}; without it, other tables or the names of regions decide",
                keys::REGION_TABLE_LABEL,
                keys::REGION_TABLE_LABEL_VALUE
            );
            tracing::warn!(config_map = name, %note, "region table");
            let mut table = ConfigMap::default();
            table.metadata.name = Some(name.to_owned());
            table.metadata.namespace = Some(self.namespace.clone());
            self.untold.push(Complaint {
                table: Arc::new(table),
                reason: MISSING,
                note,
            });
        }
    }

    /// Tells the authors of tables what is wrong with them.
    pub(super) fn tell(&mut self, events: &Recorder) {
        for complaint in self.untold.drain(..) {
            let Complaint {
                table,
                reason,
                note,
            } = complaint;
            let meta = &table.metadata;
            events.record(Occurrence {
                regarding: Regarding {
                    api_version: "v1".to_owned(),
                    kind: "ConfigMap".to_owned(),
                    namespace: meta.namespace.clone().unwrap_or_default(),
                    name: meta.name.clone().unwrap_or_default(),
                    uid: meta.uid.clone().unwrap_or_default(),
                },
                type_: EventType::Warning,
                reason,
                action: "Reading",
                note,
                controller: keys::PROXY_SCHEDULER.into(),
            });
        }
    }

    // ---- what follows -------------------------------------------------------------------------------------------

    /// How many pods are placed at a virtual node.
    pub(super) fn placed_at(&self, node: &str) -> u64 {
        self.placing.placed_at(node)
    }

    pub(super) fn policy_of(&self, pod: &Pod) -> PolicyId {
        self.configuration.policy_of(pod)
    }

    pub(super) fn policy(&self, id: PolicyId) -> &Policy {
        self.configuration.policy(id)
    }

    /// Whether distances decide for pods that say nothing of where they belong.
    pub(super) fn needs_tables(&self) -> bool {
        self.configuration.ranks()
    }

    /// The pipeline's order of the nodes that the scheduler's filters have left; nothing if no pipeline is to order
    /// them.
    pub(super) fn order(
        &mut self,
        uid: &str,
        policy: PolicyId,
        want: &Want,
        feasible: &[(String, i64)],
        places: &Places,
    ) -> Option<Order> {
        let Self {
            configuration,
            placing,
            tables,
            home,
            ..
        } = self;
        let ranking = configuration.policy(policy).ranking_of(want)?;
        // Nobody is a peer of itself.
        placing.expect_guest(uid, None, None);
        let asked = Asked {
            want,
            ranking,
            home,
            tables,
        };
        let coming = |node: &str| places.others_at(node, uid);
        let feasible = feasible.iter().map(|(node, _)| (&**node, coming(node)));
        Some(placing.order(&asked, feasible))
    }
}
