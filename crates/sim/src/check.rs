//! The invariants, after each step, and what must hold when all is quiet.

use std::{collections::BTreeMap, fmt};

use k8s_openapi::api::core::v1::Pod;
use pilotage_api::{PodChaperon, keys, parent::ParentLink};
use pilotage_proxy::{ProxyView, class::Marks};

use crate::{
    clock::Time,
    server::Object,
    surroundings::owner_lives,
    world::{Kind, World},
};

/// When faults have ended, a pod that a reachable target can take is placed within this.
const PLACED_WITHIN: Time = Time::from_mins(2);

/// The same for a pod that is made only where it is granted: its targets are tried one after the other, and one that
/// had no node for it again and again isn't tried for ten minutes.
const PLACED_IN_TURNS_WITHIN: Time = Time::from_mins(12);

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// `I1` to `I7`.
    pub rule: &'static str,
    /// What is wrong.
    pub what: String,
}

impl Violation {
    pub(crate) fn new(rule: &'static str, what: String) -> Self {
        Self { rule, what }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.what)
    }
}

pub(crate) fn is_granted(chaperon: &PodChaperon) -> bool {
    let marks = Marks::of(chaperon);
    marks.allowed > 0 || marks.is_allowed
}

pub(crate) fn has_our_finalizer(
    meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
) -> bool {
    let finalizers = meta.finalizers.iter().flatten();
    finalizers
        .into_iter()
        .any(|finalizer| finalizer == keys::DELEGATE_GONE)
}

impl World {
    pub(crate) fn broke(&mut self, violation: Violation) {
        if self.violation.is_none() {
            self.tell(format!("!! {violation}"));
            self.violation = Some(violation);
        }
    }

    /// I1, as a delegate of this name was bound: no other one of its proxy's name is.
    pub(crate) fn check_bound(&mut self, server: usize, key: &str) {
        let Some(bound) = self.servers[server]
            .delegates
            .get(key)
            .filter(|d| d.node().is_some())
        else {
            return;
        };
        let Some(parent) = Self::parent_name(&**bound).map(str::to_owned) else {
            return;
        };
        let mut all = Vec::new();
        for server in &self.servers {
            let delegates = server.delegates.all().iter();
            let theirs = delegates
                .filter(|d| d.node().is_some() && Self::parent_name(&***d) == Some(&*parent));
            all.extend(theirs.map(|d| d.uid().to_owned()));
        }
        if all.len() > 1 && !self.given_up.contains(&parent) {
            let what = format!("of {parent} the delegates {} are bound", all.join(", "));
            self.broke(Violation::new("I1", what));
        }
    }

    /// I1, as a record was overwritten, or the finalizer of a proxy lifted: a landed grant is left only when its
    /// chaperon is gone.
    pub(super) fn check_left(&mut self, before: &Pod) {
        let Some(before) = ProxyView::of(before) else {
            return;
        };
        let Some(left) = before.record.record().cloned() else {
            return;
        };
        let now = self.servers[0].proxies.get(&before.name);
        let now = now
            .and_then(|pod| ProxyView::of(pod))
            .filter(|now| now.uid == before.uid);
        let stays = now.as_ref().is_some_and(|now| {
            let names = now
                .record
                .record()
                .is_some_and(|r| r.chaperon_uid == left.chaperon_uid);
            names && now.has_finalizer()
        });
        let Some(target) = self.nodes.iter().position(|node| *node == left.node) else {
            return;
        };
        if stays {
            return;
        }
        let server = &self.servers[target + 1];
        let chaperon = server
            .chaperons
            .all()
            .iter()
            .find(|c| c.uid() == left.chaperon_uid);
        let delegate = server
            .delegates
            .all()
            .iter()
            .find(|d| d.owner() == Some(&left.chaperon_uid) && d.node().is_some());
        let lifted = now.as_ref().is_none_or(|now| !now.has_finalizer());
        let lives = chaperon.is_some_and(|c| lifted || is_granted(c)) || delegate.is_some();
        let said = self.may_leave(&left.chaperon_uid, target);
        if said && chaperon.is_some() {
            // A grant that hasn't landed yet still may.
            self.given_up.insert(before.name);
        } else if lives && (delegate.is_some() || !self.sites[target].plain) {
            let what = format!("{} leaves {left} although it isn't gone", before.uid);
            self.broke(Violation::new("I1", what));
        }
    }

    /// Whether somebody's word lets a record leave a chaperon that lives: who did so had it, or the target's Pilotage
    /// doesn't do what it was asked for.
    pub(crate) fn may_leave(&self, chaperon: &str, target: usize) -> bool {
        let mut there = self.servers[target + 1].chaperons.all().iter();
        let asked = there.any(|c| c.uid() == chaperon && (c.is_ending() || Marks::of(c).gives_up));
        let said = self.config.replace > 0 || self.sites[target].terms.forgotten;
        asked && said || self.words.contains(chaperon)
    }

    /// I6, as a chaperon is deleted because its parent is gone.
    pub(crate) fn check_orphan(&mut self, server: usize, name: &str, uid: &str, parent: &str) {
        let there = self.servers[server]
            .chaperons
            .get(name)
            .is_some_and(|c| c.uid() == uid);
        let mut proxies = self.servers[0].proxies.all().iter();
        let lives = proxies.any(|pod| pod.uid() == parent && !pod.is_ending());
        if there && lives {
            let what = format!("{name} is deleted as an orphan, but {parent} lives");
            self.broke(Violation::new("I6", what));
        }
    }

    // ---- while all is healed ----------------------------------------------------------------------------------------

    /// I4, bounded: since when each pod has been without a place that a reachable target could give it.
    pub(crate) fn check_delay(&mut self, since: &mut BTreeMap<String, Time>) {
        let reachable = |target: usize| !self.sites[target].parted && self.sites[target].exists;
        let proxies = self.servers[0].proxies.all().iter();
        let views = proxies.filter_map(|pod| ProxyView::of(pod));
        let waits = |view: &ProxyView| {
            let unrest = self.unrest_of_proxy(view, &reachable);
            view.node_name.is_none() && !view.ending && unrest.is_some()
        };
        let waiting: BTreeMap<String, Time> = views
            .filter(waits)
            .map(|view| {
                let within = if view.no_reservation {
                    PLACED_IN_TURNS_WITHIN
                } else {
                    PLACED_WITHIN
                };
                (view.uid, within)
            })
            .collect();
        since.retain(|uid, _| waiting.contains_key(uid));
        for (uid, within) in waiting {
            let since = *since.entry(uid.clone()).or_insert(self.now);
            if self.now >= since + within {
                let what = format!("{uid} isn't placed within {} s", within.as_secs());
                self.broke(Violation::new("I4", what));
            }
        }
    }

    // ---- when all is quiet ------------------------------------------------------------------------------------------

    /// What is still missing; `None` if everything is as it should be.
    pub(crate) fn unrest(&self) -> Option<Violation> {
        let reachable = |target: usize| !self.sites[target].parted && self.sites[target].exists;
        for pod in self.servers[0].proxies.all() {
            let Some(view) = ProxyView::of(pod) else {
                continue;
            };
            if let Some(unrest) = self.unrest_of_proxy(&view, &reachable) {
                return Some(unrest);
            }
        }
        (0..self.sites.len())
            .filter(|target| reachable(*target))
            .find_map(|t| self.unrest_of_target(t))
    }

    fn unrest_of_proxy(
        &self,
        view: &ProxyView,
        reachable: &dyn Fn(usize) -> bool,
    ) -> Option<Violation> {
        let dead = self.sites.iter().any(|site| site.parted);
        let rule = |rule: &'static str| if dead { "I5" } else { rule };
        let at = |node: &str| self.nodes.iter().position(|known| known == node);
        let record = view.record.record();
        let recorded = record.and_then(|record| at(&record.node));
        let waits_for_word = recorded.is_some_and(|target| {
            let site = &self.sites[target];
            let said = self.config.replace > 0 || site.terms.forgotten || !site.exists;
            !reachable(target) && !said
        });
        if waits_for_word {
            return None;
        }
        if view.ending {
            return Some(Violation::new(
                rule("I3"),
                format!("{} doesn't go", view.uid),
            ));
        }
        let can = (0..self.sites.len()).any(|target| {
            let site = &self.sites[target];
            // Pods that aren't reserved for, and plain targets, evict nobody here.
            let room = if view.no_reservation || site.plain {
                site.takes()
            } else {
                site.fits
            };
            reachable(target) && room && !site.terms.leaving
        });
        let Some(node) = &view.node_name else {
            return can.then(|| Violation::new(rule("I4"), format!("{} isn't placed", view.uid)));
        };
        let target = at(node)?;
        if !reachable(target) {
            if view.terminal {
                // What has ended needs no other place.
                return None;
            }
            // Deleted as soon as the time has come; then its name is free again.
            return Some(Violation::new(
                rule("I4"),
                format!("{} stays at a lost target", view.uid),
            ));
        }
        let server = &self.servers[target + 1];
        let delegate = server.delegates.get(&view.chaperon_name());
        let chaperon = server.chaperons.get(&view.chaperon_name());
        let well = delegate.is_some_and(|d| d.node().is_some() && !d.is_ending())
            && chaperon.is_some_and(|c| {
                !c.is_ending() && record.is_none_or(|record| record.chaperon_uid == c.uid())
            });
        // A delegate that was made anew waits where the proxy is bound.
        let waits = view.no_reservation && !self.sites[target].takes();
        (!well && !waits)
            .then(|| Violation::new(rule("I4"), format!("{} has no delegate", view.uid)))
    }

    fn unrest_of_target(&self, target: usize) -> Option<Violation> {
        let left = |what: String| Some(Violation::new("I3", what));
        let server = &self.servers[target + 1];
        for chaperon in server.chaperons.all() {
            let link = ParentLink::of(&chaperon.metadata)?;
            let parent = self.servers[0].proxies.get(&link.name);
            let parent = parent.filter(|pod| pod.uid() == link.uid);
            let Some(parent) = parent.and_then(|pod| ProxyView::of(pod)) else {
                return left(format!("{} has no parent", chaperon.name()));
            };
            let named = parent
                .record
                .record()
                .is_some_and(|r| r.chaperon_uid == chaperon.uid());
            // Of a pod that waits for a lost target nobody asks, but what was asked before may stand there.
            if parent.node_name.is_some() && !named {
                return left(format!("{} isn't the placed pod's", chaperon.name()));
            }
            if chaperon.is_ending() {
                return left(format!("{} doesn't go", chaperon.name()));
            }
        }
        for pod in server.delegates.all() {
            if !owner_lives(server, pod.name(), pod.owner()) {
                return left(format!("{} has no chaperon", pod.name()));
            }
            if pod.is_ending() {
                return left(format!("{} doesn't go", pod.name()));
            }
        }
        for slot in [4 + 4 * target, 5 + 4 * target] {
            let Some(Kind::Candidate(process)) = self.slots[slot].as_ref().map(|p| &p.kind) else {
                continue;
            };
            for key in process.held() {
                if server.chaperons.get(key).is_none() {
                    return left(format!("{} holds a node for {key}", Self::name_of(slot)));
                }
            }
        }
        None
    }
}
